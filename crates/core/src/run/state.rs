//! `RunState`: the state of a run from its journal alone, and so without its workflow.

use std::collections::HashMap;
use std::sync::Arc;

use agentflow_schema::text::{did_you_mean, nearest};

use super::done_calls::{is_of_undo, undo_around};
use super::known_nodes::KnownNodes;
use super::sent::Sent;
use super::waits::Waits;
use crate::error::{ControlError, ControlErrorKind};
use crate::event::{ApprovalRequest, Edge, Event, EventKind, PauseReason, RunBody, Shape, Subject};
use crate::failure::{Failure, FailureKind};
use crate::message::ToolStatus;
use crate::path::StepPath;
use crate::store::RunStatus;
use crate::time::Timestamp;

/// Where a run is.
pub(crate) struct RunState {
    pub(crate) workflow: Option<Arc<str>>,
    /// The definition hash that it goes by.
    pub(crate) definition: Option<Arc<str>>,
    /// What its events say, whatever it waits for.
    pub(crate) status: RunStatus,
    pub(crate) waits: Waits,
    /// Why the run failed last.
    failure: Option<FailureKind>,
    /// The nodes of workflows; of an agent's own run its model and tool calls.
    pub(crate) nodes: KnownNodes,
    open: OpenSteps,
    /// Keeps open questions only, and the state that an answer needs.
    only_questions: bool,
    /// Whether the run undoes what it had done when it ends without an output.
    pub(crate) compensates: bool,
    /// It does so, or has done so.
    pub(crate) compensating: bool,
    /// Where workflows are that are steps, and whether they have ended.
    nested: HashMap<StepPath, bool>,
    /// The messages that were sent to it.
    pub(crate) sent: Sent,
    /// Whether it waits for messages until it is closed.
    pub(crate) live: bool,
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeInfo {
    pub(crate) state: NodeState,
}

/// Where a node is.
#[derive(Clone, Debug)]
pub(crate) enum NodeState {
    Running {
        repeatable: bool,
    },
    Waiting,
    Asking(Arc<ApprovalRequest>),
    /// A person answered: a gate has its output, a step that asked before it begins may begin.
    Answered,
    /// What it belongs to has ended or was stopped.
    Stopped,
    Done,
    Skipped,
    Failed(Arc<Failure>),
    Reset,
}

/// What has begun and has no end, by the event that opened it, in the order of their beginning.
#[derive(Clone, Default)]
pub(crate) struct OpenSteps(Vec<(StepPath, EventKind)>);

impl OpenSteps {
    /// Takes in the next event. A step that begins once more, after its process ended in the middle of it, is open once.
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        let Shape { subject, edge, .. } = kind.shape();
        let same = |(open, of): &(StepPath, EventKind)| open == path && of.shape().subject == subject;
        match edge {
            Edge::Opens if subject.runs() => {
                self.0.retain(|one| !same(one));
                self.0.push((path.clone(), kind.clone()));
            }
            Edge::Closes | Edge::Retries if subject.runs() => {
                if let Some(at) = self.0.iter().rposition(same) {
                    self.0.remove(at);
                }
            }
            _ => {}
        }
    }

    /// The same of one process, which does not begin what is open: then this is false.
    pub(crate) fn begins(&mut self, path: &StepPath, kind: &EventKind) -> bool {
        let Shape { subject, edge, .. } = kind.shape();
        let same = |(open, of): &(StepPath, EventKind)| open == path && of.shape().subject == subject;
        if edge == Edge::Opens && subject.runs() && self.0.iter().any(same) {
            return false;
        }
        self.apply(path, kind);
        true
    }

    pub(crate) fn paths(self) -> Vec<StepPath> {
        self.0.into_iter().map(|(path, _)| path).collect()
    }
}

impl RunState {
    pub(crate) fn new() -> Self {
        Self {
            workflow: None,
            definition: None,
            status: RunStatus::Running,
            waits: Waits::default(),
            failure: None,
            nodes: KnownNodes::default(),
            open: OpenSteps::default(),
            only_questions: false,
            compensates: false,
            compensating: false,
            nested: HashMap::new(),
            sent: Sent::default(),
            live: false,
        }
    }

    pub(crate) fn of(events: &[Event]) -> Self {
        let mut state = Self::new();
        events.iter().for_each(|event| state.apply(&event.path, &event.kind));
        state
    }

    /// The same from the records of a log.
    pub(crate) fn of_records(records: &[(Timestamp, StepPath, EventKind)]) -> Self {
        let mut state = Self::new();
        records.iter().for_each(|(_, path, kind)| state.apply(path, kind));
        state
    }

    /// Returns the open questions of a run and the state that an answer needs. Other nodes are left out.
    pub(crate) fn of_questions<'e>(events: impl Iterator<Item = (&'e StepPath, &'e EventKind)>) -> Self {
        let mut state = Self { nodes: KnownNodes::only_asking(), only_questions: true, ..Self::new() };
        events.for_each(|(path, kind)| state.apply(path, kind));
        state
    }

    /// Whether the run is one of an agent.
    pub(crate) fn is_agent(&self) -> bool {
        self.workflow.is_none()
    }

    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        self.waits.apply(path, kind);
        self.sent.apply(kind);
        // Whoever asked below a call waits for the answer no more.
        if matches!(kind, EventKind::RunResumed { recovered: false, .. })
            && path.is_question()
            && let Some(NodeInfo { state: NodeState::Asking(_) }) = self.nodes.get(path)
        {
            self.nodes.set(path, NodeState::Stopped);
        }
        match kind {
            EventKind::RunCompensating { .. } => {
                self.compensating = true;
                self.status = RunStatus::Compensating;
                self.stop_below(path);
            }
            EventKind::RunStarted(started) => {
                self.compensates = started.terms().compensate;
                self.live = started.terms().live.is_some();
                if let RunBody::Workflow(workflow) = &started.body {
                    self.workflow = Some(Arc::clone(&workflow.name));
                    self.definition = Some(Arc::clone(&workflow.definition));
                }
            }
            // Resumed from its journal it is what it was before, and what its process left open still is.
            EventKind::RunResumed { recovered: false, .. } if self.status != RunStatus::Compensating => {
                self.status = RunStatus::Running;
                self.failure = None;
            }
            EventKind::RunResumed { redefined: Some(redefined), .. } => {
                let forgotten = |path: &StepPath| redefined.forgotten.iter().any(|node| path.belongs_to(node));
                self.nodes.forget(forgotten);
                self.definition = redefined.definition.clone().or_else(|| self.definition.take());
            }
            EventKind::RunCompleted(_) => self.status = RunStatus::Success,
            EventKind::RunFailed { .. } => self.status = RunStatus::Failed,
            EventKind::RunCancelled { .. } => {
                self.status = RunStatus::Cancelled;
                self.stop_below(path);
            }
            EventKind::NodeStarted { repeatable, .. } => {
                self.node(path, NodeState::Running { repeatable: *repeatable });
            }
            EventKind::NodeCompleted { .. } => self.node(path, NodeState::Done),
            EventKind::NodeRetrying { .. } => self.node(path, NodeState::Waiting),
            EventKind::NodeFailed { error, .. } => self.node(path, NodeState::Failed(Arc::clone(error))),
            EventKind::NodeSkipped { .. } => self.node(path, NodeState::Skipped),
            EventKind::NodeReset { .. } => self.node(path, NodeState::Reset),
            EventKind::ApprovalRequested(request) => self.node(path, NodeState::Asking(Arc::clone(request))),
            EventKind::ApprovalResolved { .. } => self.node(path, NodeState::Answered),
            EventKind::ToolWaiting(_) | EventKind::ToolContinued { .. } => {
                if let Some(repeatable) = self.nodes.running_mut(path) {
                    *repeatable = !kind.begins_once();
                }
            }
            kind if self.is_agent() && path.is_step_of(&StepPath::root()) => self.apply_agent_step(path, kind),
            _ => {}
        }
        if let EventKind::RunFailed { error } = kind {
            self.failure = Some(error.kind.clone());
        }
        let Shape { subject, edge, .. } = kind.shape();
        if subject == Subject::Workflow {
            match edge.ends_attempt() && self.only_questions {
                // A workflow that has ended has no open question.
                true => drop(self.nested.remove(path)),
                false => drop(self.nested.insert(path.clone(), edge.ends_attempt())),
            }
        }
        if matches!(subject, Subject::Workflow | Subject::Node) && edge.ends_attempt() {
            self.stop_below(path);
        }
        if !self.only_questions {
            self.open.apply(path, kind);
        }
    }

    /// A call of the model or of a tool by the agent whose run it is.
    fn apply_agent_step(&mut self, path: &StepPath, kind: &EventKind) {
        match kind {
            EventKind::ModelStarted { .. } | EventKind::ToolStarted { .. } => {
                self.node(path, NodeState::Running { repeatable: !kind.begins_once() });
            }
            EventKind::ModelRetrying { .. } => self.node(path, NodeState::Waiting),
            EventKind::ModelFailed { error } => self.node(path, NodeState::Failed(Arc::clone(error))),
            EventKind::ModelCompleted(_) | EventKind::ToolCompleted { .. } => self.node(path, NodeState::Done),
            EventKind::ToolFailed { result, .. } => {
                let kind = match result.status {
                    ToolStatus::Cancelled => FailureKind::Cancelled,
                    _ => FailureKind::Error,
                };
                let failure = Failure::new(kind, result.output.as_str());
                self.node(path, NodeState::Failed(Arc::new(failure)));
            }
            _ => {}
        }
    }

    fn node(&mut self, path: &StepPath, state: NodeState) {
        self.nodes.set(path, state);
    }

    /// Nothing below what has ended runs or asks any more.
    fn stop_below(&mut self, path: &StepPath) {
        self.nodes.stop_below(path);
    }

    /// An end for everything that an earlier process left open below a step, from what is recorded there; the step's
    /// own end is its workflow's or its agent's to give.
    pub(crate) fn closings_below(
        step: &StepPath,
        recorded: &[(Timestamp, StepPath, EventKind)],
        message: &str,
    ) -> Vec<(StepPath, EventKind)> {
        let state = Self::of_records(recorded);
        let mut ends = state.ends(message);
        let own = |kind: &EventKind| matches!(kind.shape().subject, Subject::Node | Subject::Tool);
        ends.retain(|(path, kind)| path != step || !own(kind));
        ends
    }

    /// An end for every agent and workflow in a step that is open, and for what is open in it, the innermost first.
    pub(crate) fn strays(&self, message: &str) -> Vec<(StepPath, EventKind)> {
        let is_nested = |subject| matches!(subject, Subject::Agent | Subject::Workflow);
        let open = self.open.0.iter().filter(|(path, kind)| !path.is_root() && is_nested(kind.shape().subject));
        let bases: Vec<&StepPath> = open.map(|(path, _)| path).collect();
        let mut ends = self.ends(message);
        // The step at the same path is its workflow's or its agent's to end.
        ends.retain(|(path, kind)| {
            let of = |base: &&StepPath| path.is_within(base) && (path != *base || is_nested(kind.shape().subject));
            bases.iter().any(of)
        });
        ends
    }

    /// An end for everything that is open, the innermost first.
    pub(crate) fn closings(&self, reason: &str) -> Vec<(StepPath, EventKind)> {
        self.ends(reason)
    }

    fn ends(&self, message: &str) -> Vec<(StepPath, EventKind)> {
        let error = Arc::new(Failure::new(FailureKind::Cancelled, message));
        let ends = self.open.0.iter().rev().flat_map(|(path, open)| {
            // A workflow that ends waits for nobody.
            let waits = open.shape().subject == Subject::Workflow && self.waits.are_of(path);
            let resumed = waits.then(EventKind::resumed);
            resumed.into_iter().chain(open.stopped(&error)).map(|kind| (path.clone(), kind))
        });
        ends.collect()
    }

    /// The path of a node that has failed and can run again.
    pub(crate) fn failed_node(&self, node: &str) -> Result<StepPath, ControlError> {
        let (path, known) = self.known(node)?;
        let wrong = |message| Err(ControlError::new(ControlErrorKind::WrongState, message));
        if let Some(whole) = self.whole_of(path) {
            return Err(ControlError::part(node, &whole.to_string()));
        }
        if let Some(above) = self.failed_above(path) {
            return wrong(format!(
                "`{node}` cannot be retried by itself: the step it belongs to has failed; retry `{above}`"
            ));
        }
        if self.workflow_of(path).is_some_and(|(_, ended)| ended) {
            return wrong(format!("the node `{node}` cannot be retried: the workflow that it belongs to has ended"));
        }
        if self.is_agent() && path.is_step_of(&StepPath::root()) {
            return self.failed_model_call(path, known);
        }
        match known {
            NodeState::Failed(_) => Ok(path.clone()),
            // Its process ended in the middle of it: resuming the run decides on it.
            state => wrong(match self.waiting_in(path) {
                Some(inner) => format!(
                    "the node `{node}` cannot be retried: it is {}, and `{inner}` in it waits for a decision; retry that one",
                    state.word()
                ),
                None => format!(
                    "the node `{node}` cannot be retried: it is {}; only a failed or interrupted one can",
                    state.word()
                ),
            }),
        }
    }

    /// Of an agent's own run only the model call that ended it can be retried: a tool's failure is the model's to
    /// judge, and a limit that was reached would be reached again.
    fn failed_model_call(&self, path: &StepPath, state: &NodeState) -> Result<StepPath, ControlError> {
        let problem = match (state, &self.failure) {
            (NodeState::Failed(failure), Some(of_run)) if !path.is_tool_call() && failure.kind == *of_run => {
                return Ok(path.clone());
            }
            (_, None) => format!("the run of an agent is retried when it has failed; it is {}", self.status),
            (_, Some(of_run)) => format!(
                "the step `{path}` of the agent cannot be retried: the run failed as `{}`, and only a failed model call \
                 is retried; begin a new run with the conversation of this one",
                of_run.as_str()
            ),
        };
        Err(ControlError::new(ControlErrorKind::WrongState, problem))
    }

    /// The workflow that is a step and has a node, and whether it has ended; `None` when the node is the run's own.
    fn workflow_of(&self, node: &StepPath) -> Option<(StepPath, bool)> {
        node.parents().find_map(|above| self.nested.get(&above).map(|ended| (above.clone(), *ended)))
    }

    /// Where the workflow is that has a node, when it waits for somebody. A call of a tool in a step waits for itself.
    pub(crate) fn waiting_around(&self, node: &StepPath) -> Option<StepPath> {
        if self.waits.are_of(node) {
            return Some(node.clone());
        }
        let base = self.workflow_of(node).map_or_else(StepPath::root, |(base, _)| base);
        self.waits.are_of(&base).then_some(base)
    }

    /// The node of a workflow in a step that waits for an operator's decision.
    pub(crate) fn waiting_in(&self, step: &StepPath) -> Option<&StepPath> {
        let waits =
            |node: &NodeInfo| matches!(&node.state, NodeState::Failed(error) if error.kind == FailureKind::Interrupted);
        let inner = self.nodes.iter().filter(|(path, node)| *path != step && path.belongs_to(step) && waits(node));
        inner.map(|(path, _)| path).min()
    }

    /// The outermost failed step that a node of a workflow in it belongs to.
    fn failed_above(&self, node: &StepPath) -> Option<StepPath> {
        let failed =
            |above: &StepPath| matches!(self.nodes.get(above), Some(NodeInfo { state: NodeState::Failed(_), .. }));
        node.parents().filter(failed).last()
    }

    /// Whether anybody is asked for anything.
    pub(crate) fn asks(&self) -> bool {
        self.nodes.asking().next().is_some()
    }

    /// What the run waits for beside an operator's word to continue.
    pub(crate) fn waits_beside_the_operator(&self) -> Option<PauseReason> {
        let interrupted =
            |node: &NodeInfo| matches!(&node.state, NodeState::Failed(error) if error.kind == FailureKind::Interrupted);
        match self.waits.of_workflows() {
            Some(PauseReason::Interrupted) if self.nodes.iter().any(|(_, node)| interrupted(node)) => {
                Some(PauseReason::Interrupted)
            }
            Some(PauseReason::Message) if !self.sent.are_waiting() && !self.sent.closed => Some(PauseReason::Message),
            // It may have been answered since.
            _ => self.asks().then_some(PauseReason::Approval),
        }
    }

    /// What the run waits for. One that has ended waits for nothing.
    pub(crate) fn waits_for(&self) -> Option<PauseReason> {
        self.waits.reason()
    }

    /// The path of a node that asks, and what it asks.
    pub(crate) fn asking_node(&self, node: &str) -> Result<(StepPath, &Arc<ApprovalRequest>), ControlError> {
        match self.known(node)? {
            (path, NodeState::Asking(request)) => Ok((path.clone(), request)),
            (_, state) => Err(ControlError::new(
                ControlErrorKind::WrongState,
                format!("the node `{node}` waits for no answer: it is {}", state.word()),
            )),
        }
    }

    /// What asks a person now in what undoes a call at a path, or in what undoes any.
    pub(crate) fn asking_in_undo(&self, undo: Option<&StepPath>) -> Option<&StepPath> {
        let mut in_undo = self.nodes.asking().filter_map(|(path, _)| undo_around(path).map(|around| (path, around)));
        in_undo.find(|(_, around)| undo.is_none_or(|undo| around == undo)).map(|(path, _)| path)
    }

    /// The refusal of a request about a step of what undoes a call, with what the run waits for instead.
    pub(crate) fn beside_undo(&self, node: &str, error: ControlError) -> ControlError {
        let is_of_undo = node.parse().is_ok_and(|path| is_of_undo(&path));
        if !is_of_undo || self.status != RunStatus::Compensating {
            return error;
        }
        let now = match self.asking_in_undo(None) {
            Some(path) => format!("`{path}` waits for an answer now"),
            None => "no question is open now".to_owned(),
        };
        let what = match error.kind() {
            ControlErrorKind::UnknownNode => format!("`{node}` has not begun"),
            _ => error.to_string(),
        };
        ControlError::new(error.kind(), format!("{what}; the run undoes one call after the other, and {now}"))
    }

    /// The node that an item or a branch belongs to.
    fn whole_of(&self, node: &StepPath) -> Option<StepPath> {
        let is_known = |whole: &StepPath| self.nodes.get(whole).is_some();
        let of_item = node.item().map(|(whole, _)| whole).filter(is_known);
        // What is below a node is one of its branches, unless the node is a workflow.
        of_item.or_else(|| node.parent().filter(|above| is_known(above) && !self.nested.contains_key(above)))
    }

    fn known(&self, node: &str) -> Result<(&StepPath, &NodeState), ControlError> {
        let path = node.parse::<StepPath>().ok();
        let found = path.as_ref().and_then(|path| self.nodes.get_key_value(path));
        found.map(|(path, node)| (path, &node.state)).ok_or_else(|| {
            // In an arm, or in a workflow that is a step.
            let names = self.nodes.names();
            let near = path.and_then(|path| names.iter().find(|name| name.ends_below(&path)).map(ToString::to_string));
            let names: Vec<String> = names.into_iter().map(ToString::to_string).collect();
            let near = near.or_else(|| nearest(node, names.iter().map(String::as_str)).map(ToOwned::to_owned));
            let hint = did_you_mean(near);
            let asking: Vec<String> =
                self.nodes.asking().take(MOST_ASKING).map(|(path, _)| format!("`{path}`")).collect();
            let asks =
                if asking.is_empty() { String::new() } else { format!("; open questions: {}", asking.join(", ")) };
            ControlError::new(
                ControlErrorKind::UnknownNode,
                format!("the run has no node `{node}` that has begun, asks or was skipped{hint}{asks}"),
            )
        })
    }
}

/// Maximum number of open questions that an error lists.
const MOST_ASKING: usize = 10;

impl NodeState {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Running { .. } => "running",
            Self::Waiting => "waiting for its next attempt",
            Self::Asking(_) => "waiting for an approval",
            Self::Stopped => "cancelled",
            Self::Answered | Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed(failure) if failure.kind == FailureKind::Interrupted => "interrupted",
            Self::Failed(_) => "failed",
            Self::Reset => "about to run again",
        }
    }
}
