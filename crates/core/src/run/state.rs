//! `RunState`: the state of a run as a fold over its journal, without access to its workflow.

use std::collections::HashMap;
use std::sync::Arc;

use agentflow_schema::text::{did_you_mean, nearest};

use super::done_calls::{enclosing_compensation, is_of_undo};
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

/// The state of a run.
pub(crate) struct RunState {
    pub(crate) workflow: Option<Arc<str>>,
    /// Hash of the current definition.
    pub(crate) definition: Option<Arc<str>>,
    /// Status according to the events. Pauses are in `waits`.
    pub(crate) status: RunStatus,
    pub(crate) waits: Waits,
    /// Kind of the last failure of the run.
    failure: Option<FailureKind>,
    /// The nodes of workflows. For the run of an agent, also its model and tool calls.
    pub(crate) nodes: KnownNodes,
    open: OpenSteps,
    /// Keeps only open questions, and the state that an answer needs.
    only_questions: bool,
    /// `true` if the run compensates its completed calls when it ends without an output.
    pub(crate) compensates: bool,
    /// `true` if compensation has started.
    pub(crate) compensating: bool,
    /// Paths of workflows that are steps, and whether they have ended.
    nested: HashMap<StepPath, bool>,
    /// The messages sent to the run.
    pub(crate) sent: Sent,
    /// `true` for a live run, which waits for messages until it is closed.
    pub(crate) live: bool,
}

/// State of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeInfo {
    pub(crate) state: NodeState,
}

/// The state of a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeState {
    Running {
        repeatable: bool,
    },
    Waiting,
    Asking(Arc<ApprovalRequest>),
    /// A person answered. A gate now has its output; a step that asked before its start may start.
    Answered,
    /// The surrounding workflow or run has ended or was stopped.
    Stopped,
    Done,
    Skipped,
    Failed(Arc<Failure>),
    Reset,
}

/// Open subjects, each with the event that opened it, in the order of their start.
#[derive(Clone, Default)]
pub(crate) struct OpenSteps(Vec<(StepPath, EventKind)>);

impl OpenSteps {
    /// Applies the next event. A step that starts again after its process ended replaces its
    /// earlier entry.
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        let Shape { subject, edge, .. } = kind.shape();
        let same =
            |(open, of): &(StepPath, EventKind)| open == path && of.shape().subject == subject;
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

    /// Applies the next event of a single process. Returns `false`, without applying it, if the
    /// event starts a subject that is already open.
    pub(crate) fn begins(&mut self, path: &StepPath, kind: &EventKind) -> bool {
        let Shape { subject, edge, .. } = kind.shape();
        let same =
            |(open, of): &(StepPath, EventKind)| open == path && of.shape().subject == subject;
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

    pub(crate) fn from_events(events: &[Event]) -> Self {
        let mut state = Self::new();
        events.iter().for_each(|event| state.apply(&event.path, &event.kind));
        state
    }

    /// Folds the records of a log.
    pub(crate) fn from_records(records: &[(Timestamp, StepPath, EventKind)]) -> Self {
        let mut state = Self::new();
        records.iter().for_each(|(_, path, kind)| state.apply(path, kind));
        state
    }

    /// Returns the open questions of a run and the state that an answer needs. Omits other nodes.
    pub(crate) fn from_open_questions<'e>(
        events: impl Iterator<Item = (&'e StepPath, &'e EventKind)>,
    ) -> Self {
        let mut state =
            Self { nodes: KnownNodes::only_asking(), only_questions: true, ..Self::new() };
        events.for_each(|(path, kind)| state.apply(path, kind));
        state
    }

    /// Returns `true` if the run executes an agent.
    pub(crate) fn is_agent(&self) -> bool {
        self.workflow.is_none()
    }

    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        self.waits.apply(path, kind);
        self.sent.apply(kind);
        // A question below a call is withdrawn when the call continues.
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
            // A run resumed from its journal keeps its state, and subjects that its process left
            // open stay open.
            EventKind::RunResumed { recovered: false, .. }
                if self.status != RunStatus::Compensating =>
            {
                self.status = RunStatus::Running;
                self.failure = None;
            }
            EventKind::RunResumed { redefined: Some(redefined), .. } => {
                let forgotten =
                    |path: &StepPath| redefined.forgotten.iter().any(|node| path.belongs_to(node));
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
            EventKind::NodeFailed { error, .. } => {
                self.node(path, NodeState::Failed(Arc::clone(error)));
            }
            EventKind::NodeSkipped { .. } => self.node(path, NodeState::Skipped),
            EventKind::NodeReset { .. } => self.node(path, NodeState::Reset),
            EventKind::ApprovalRequested(request) => {
                self.node(path, NodeState::Asking(Arc::clone(request)));
            }
            EventKind::ApprovalResolved { .. } => self.node(path, NodeState::Answered),
            // A call may be repeated while it waits for answers. After that, the setting of
            // `tool.continued` applies.
            EventKind::ToolWaiting(_) | EventKind::ToolContinued { .. } => {
                if let Some(repeatable) = self.nodes.running_mut(path) {
                    *repeatable = !kind.is_unrepeatable_start();
                }
            }
            // Model and tool calls are nodes only in the run of an agent.
            kind if self.is_agent() && path.is_step_of(&StepPath::root()) => {
                self.apply_agent_step(path, kind);
            }
            _ => {}
        }
        if let EventKind::RunFailed { error } = kind {
            self.failure = Some(error.kind.clone());
        }
        let Shape { subject, edge, .. } = kind.shape();
        if subject == Subject::Workflow {
            match edge.ends_attempt() && self.only_questions {
                // An ended workflow has no open questions.
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

    /// Applies an event of a model or tool call of the run's own agent.
    fn apply_agent_step(&mut self, path: &StepPath, kind: &EventKind) {
        match kind {
            EventKind::ModelStarted { .. } | EventKind::ToolStarted { .. } => {
                self.node(path, NodeState::Running { repeatable: !kind.is_unrepeatable_start() });
            }
            EventKind::ModelRetrying { .. } => self.node(path, NodeState::Waiting),
            EventKind::ModelFailed { error } => {
                self.node(path, NodeState::Failed(Arc::clone(error)));
            }
            EventKind::ModelCompleted(_) | EventKind::ToolCompleted { .. } => {
                self.node(path, NodeState::Done);
            }
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

    /// Marks unfinished nodes below an ended subject as stopped.
    fn stop_below(&mut self, path: &StepPath) {
        self.nodes.stop_below(path);
    }

    /// Returns an end for each subject that an earlier process left open below a step, given the
    /// records of the step. Excludes the step itself, which its workflow or agent ends.
    pub(crate) fn closings_below(
        step: &StepPath,
        recorded: &[(Timestamp, StepPath, EventKind)],
        message: &str,
    ) -> Vec<(StepPath, EventKind)> {
        let state = Self::from_records(recorded);
        let mut ends = state.ends(message);
        let own = |kind: &EventKind| matches!(kind.shape().subject, Subject::Node | Subject::Tool);
        ends.retain(|(path, kind)| path != step || !own(kind));
        ends
    }

    /// Returns an end for each open agent and workflow in a step, and for the open subjects in it,
    /// innermost first.
    pub(crate) fn strays(&self, message: &str) -> Vec<(StepPath, EventKind)> {
        let is_nested = |subject| matches!(subject, Subject::Agent | Subject::Workflow);
        let open = self
            .open
            .0
            .iter()
            .filter(|(path, kind)| !path.is_root() && is_nested(kind.shape().subject));
        let bases: Vec<&StepPath> = open.map(|(path, _)| path).collect();
        let mut ends = self.ends(message);
        // The workflow or agent that contains a step ends the step itself.
        ends.retain(|(path, kind)| {
            let of = |base: &&StepPath| {
                path.is_within(base) && (path != *base || is_nested(kind.shape().subject))
            };
            bases.iter().any(of)
        });
        ends
    }

    /// Returns an end for each open subject, innermost first.
    pub(crate) fn closings(&self, reason: &str) -> Vec<(StepPath, EventKind)> {
        self.ends(reason)
    }

    fn ends(&self, message: &str) -> Vec<(StepPath, EventKind)> {
        let error = Arc::new(Failure::new(FailureKind::Cancelled, message));
        let ends = self.open.0.iter().rev().flat_map(|(path, open)| {
            // A workflow must be resumed before it ends, since an ended workflow cannot wait.
            let waits = open.shape().subject == Subject::Workflow && self.waits.are_of(path);
            let resumed = waits.then(EventKind::resumed);
            resumed.into_iter().chain(open.stopped(&error)).map(|kind| (path.clone(), kind))
        });
        ends.collect()
    }

    /// Returns the path of a failed node that can run again.
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
            return wrong(format!(
                "the node `{node}` cannot be retried: the workflow that it belongs to has ended"
            ));
        }
        if self.is_agent() && path.is_step_of(&StepPath::root()) {
            return self.failed_model_call(path, known);
        }
        match known {
            NodeState::Failed(_) => Ok(path.clone()),
            // An interrupted step: resuming the run decides about it.
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

    /// Checks that a step of an agent run can be retried. Only the model call that ended the run
    /// can: the model handles failed tool calls, and a limit would be reached again.
    fn failed_model_call(
        &self,
        path: &StepPath,
        state: &NodeState,
    ) -> Result<StepPath, ControlError> {
        let problem = match (state, &self.failure) {
            (NodeState::Failed(failure), Some(of_run))
                if !path.is_tool_call() && failure.kind == *of_run =>
            {
                return Ok(path.clone());
            }
            (_, None) => {
                format!("the run of an agent is retried when it has failed; it is {}", self.status)
            }
            (_, Some(of_run)) => format!(
                "the step `{path}` of the agent cannot be retried: the run failed as `{}`, and only a failed model call \
                 is retried; begin a new run with the conversation of this one",
                of_run.as_str()
            ),
        };
        Err(ControlError::new(ControlErrorKind::WrongState, problem))
    }

    /// Returns the nested workflow that contains a node, and whether it has ended; `None` if the
    /// node belongs to the run itself.
    fn workflow_of(&self, node: &StepPath) -> Option<(StepPath, bool)> {
        node.parents()
            .find_map(|above| self.nested.get(&above).map(|ended| (above.clone(), *ended)))
    }

    /// Returns the path of the workflow around a node, if that workflow waits. A tool call in a
    /// step waits at its own path.
    pub(crate) fn waiting_around(&self, node: &StepPath) -> Option<StepPath> {
        if self.waits.are_of(node) {
            return Some(node.clone());
        }
        let base = self.workflow_of(node).map_or_else(StepPath::root, |(base, _)| base);
        self.waits.are_of(&base).then_some(base)
    }

    /// Returns the node of a workflow in a step that waits for an operator's decision.
    pub(crate) fn waiting_in(&self, step: &StepPath) -> Option<&StepPath> {
        let waits = |node: &NodeInfo| matches!(&node.state, NodeState::Failed(error) if error.kind == FailureKind::Interrupted);
        let inner = self
            .nodes
            .iter()
            .filter(|(path, node)| *path != step && path.belongs_to(step) && waits(node));
        inner.map(|(path, _)| path).min()
    }

    /// Returns the outermost failed step that contains a node.
    fn failed_above(&self, node: &StepPath) -> Option<StepPath> {
        let failed = |above: &StepPath| {
            matches!(self.nodes.get(above), Some(NodeInfo { state: NodeState::Failed(_), .. }))
        };
        node.parents().filter(failed).last()
    }

    /// Returns `true` if a question is open.
    pub(crate) fn asks(&self) -> bool {
        self.nodes.asking().next().is_some()
    }

    /// Returns the reason for which the run would still wait after an operator unpauses it.
    pub(crate) fn waits_beside_the_operator(&self) -> Option<PauseReason> {
        let interrupted = |node: &NodeInfo| matches!(&node.state, NodeState::Failed(error) if error.kind == FailureKind::Interrupted);
        match self.waits.of_workflows() {
            Some(PauseReason::Interrupted)
                if self.nodes.iter().any(|(_, node)| interrupted(node)) =>
            {
                Some(PauseReason::Interrupted)
            }
            Some(PauseReason::Message) if !self.sent.are_waiting() && !self.sent.closed => {
                Some(PauseReason::Message)
            }
            // The question may have been answered since the pause.
            _ => self.asks().then_some(PauseReason::Approval),
        }
    }

    /// Returns the reason for which the run waits. An ended run waits for nothing.
    pub(crate) fn waits_for(&self) -> Option<PauseReason> {
        self.waits.reason()
    }

    /// Returns the path of a node that asks, and its question.
    pub(crate) fn asking_node(
        &self,
        node: &str,
    ) -> Result<(StepPath, &Arc<ApprovalRequest>), ControlError> {
        match self.known(node)? {
            (path, NodeState::Asking(request)) => Ok((path.clone(), request)),
            (_, state) => Err(ControlError::new(
                ControlErrorKind::WrongState,
                format!("the node `{node}` waits for no answer: it is {}", state.word()),
            )),
        }
    }

    /// Returns the path of an open question of a compensation: of `undo`, or of any if `undo` is
    /// `None`.
    pub(crate) fn asking_in_undo(&self, undo: Option<&StepPath>) -> Option<&StepPath> {
        let mut in_undo = self
            .nodes
            .asking()
            .filter_map(|(path, _)| enclosing_compensation(path).map(|around| (path, around)));
        in_undo.find(|(_, around)| undo.is_none_or(|undo| around == undo)).map(|(path, _)| path)
    }

    /// Adds the current question to the error for a request about a step of a compensation.
    pub(crate) fn explain_in_compensation(&self, node: &str, error: ControlError) -> ControlError {
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
        ControlError::new(
            error.kind(),
            format!("{what}; the run undoes one call after the other, and {now}"),
        )
    }

    /// Returns the node that an item or a branch belongs to.
    fn whole_of(&self, node: &StepPath) -> Option<StepPath> {
        let is_known = |whole: &StepPath| self.nodes.get(whole).is_some();
        let of_item = node.item().map(|(whole, _)| whole).filter(is_known);
        // A path below a node is a branch of it, unless the node is a workflow.
        of_item.or_else(|| {
            node.parent().filter(|above| is_known(above) && !self.nested.contains_key(above))
        })
    }

    fn known(&self, node: &str) -> Result<(&StepPath, &NodeState), ControlError> {
        let path = node.parse::<StepPath>().ok();
        let found = path.as_ref().and_then(|path| self.nodes.get_key_value(path));
        found.map(|(path, node)| (path, &node.state)).ok_or_else(|| {
            // Suggests a node in a branch or in a nested workflow.
            let names = self.nodes.names();
            let near = path.and_then(|path| {
                names.iter().find(|name| name.ends_below(&path)).map(ToString::to_string)
            });
            let names: Vec<String> = names.into_iter().map(ToString::to_string).collect();
            let near = near
                .or_else(|| nearest(node, names.iter().map(String::as_str)).map(ToOwned::to_owned));
            let hint = did_you_mean(near);
            let asking: Vec<String> = self
                .nodes
                .asking()
                .take(MOST_ASKING)
                .map(|(path, _)| format!("`{path}`"))
                .collect();
            let asks = if asking.is_empty() {
                String::new()
            } else {
                format!("; open questions: {}", asking.join(", "))
            };
            ControlError::new(
                ControlErrorKind::UnknownNode,
                format!(
                    "the run has no node `{node}` that has begun, asks or was skipped{hint}{asks}"
                ),
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
