//! `RunRef::inspect` reports the state of a run and the effect of resuming it. It only reads the
//! store.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::access::AccessAction;
use crate::definition::{Difference, Known};
use crate::error::{FailureKind, Result};
use crate::event::{AgentStarted, Event, EventKind, PauseReason, RunId};
use crate::failure::{RUN_CANCELLED, ended_with_run};
use crate::on_timeout::OnTimeout;
use crate::path::StepPath;
use crate::run::{
    NodeInfo, NodeState, RunJournal, RunState, is_of_undo, read_events, read_selected_events,
};
use crate::runtime::Runtime;
use crate::runtime::catalogue::registered_items::reader_for;
#[cfg(feature = "documents")]
use crate::runtime::documents::versions::{version_of_agent, version_of_run};
use crate::runtime::execution::changes::differences;
use crate::runtime::runs::attempts::{AttemptReport, Attempts};
use crate::runtime::runs::compensation_report::CompensationReport;
use crate::runtime::runs::run_ref::RunRef;
use crate::store::{EventFilter, RunRecord, RunStatus, Store, StoreError};
use crate::time::Timestamp;
use crate::value::Encoded;
use crate::workflow::{Graph, GraphNode, NodeKind, ResolvedDependency, by_dependency, was_stopped};

/// State of a run, and the effect of resuming it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunReport {
    /// Entry of the run in the store's list.
    pub run: RunRecord,
    /// Process that executes the run now, described for people: this process, or another one if the
    /// store knows it.
    pub executed_by: Option<String>,
    /// Nodes of the workflow, including started items and branches. For an agent, its model and
    /// tool calls.
    pub nodes: Vec<NodeReport>,
    /// Compensation of a failed or cancelled run. Resuming such a run only compensates. `None` if
    /// the run is not compensated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensation: Option<CompensationReport>,
    /// Control requests that took effect, in order, with their operators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<ControlReport>,
    /// Nodes that would run again because the program has another definition of the workflow than
    /// the run. `None` if the definition is the same, or the program does not know the workflow.
    pub changed: Option<Vec<String>>,
    /// Differences between the recorded definition of the workflow or agent and the program's, by
    /// part. Empty if there is no difference, the program has no item with this name, or the run
    /// was recorded by a release that did not store the parts.
    pub differences: Vec<Difference>,
}

/// A control request that took effect on a run, such as a pause or an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ControlReport {
    /// The request.
    pub action: AccessAction,
    /// Path of the node that was retried or answered. Empty for a request to the whole run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The operator. `None` if the program did not name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// Time of the request.
    pub time: Timestamp,
}

impl ControlReport {
    /// Creates the report of an event that records a control request. Returns `None` for other
    /// events.
    fn of(event: &Event) -> Option<Self> {
        let (action, by) = match &event.kind {
            EventKind::RunPaused { reason: PauseReason::Operator, by } => {
                (AccessAction::Pause, by.clone())
            }
            EventKind::RunResumed { recovered: false, by: Some(by), .. } => {
                (AccessAction::Unpause, Some(Arc::clone(by)))
            }
            EventKind::RunCancelled { by, .. } => (AccessAction::Cancel, by.clone()),
            EventKind::RunCompensating { cancelled: Some(_), by, .. } => {
                (AccessAction::Cancel, by.clone())
            }
            EventKind::RunClosed { idle: false, by } => (AccessAction::Close, by.clone()),
            EventKind::MessageReceived { by, .. } => (AccessAction::Message, by.clone()),
            // The runtime itself starts a further attempt, and answers a question after its time
            // limit.
            EventKind::NodeReset { by } if **by != *EventKind::FURTHER_ATTEMPT => {
                (AccessAction::Retry, Some(Arc::clone(by)))
            }
            EventKind::ApprovalResolved { by, .. } if **by != *OnTimeout::BY => {
                (AccessAction::Answer, Some(Arc::clone(by)))
            }
            _ => return None,
        };
        Some(Self { action, node: event.path.to_string(), by, time: event.time })
    }
}

/// State of a node, and the effect of resuming the run on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
#[doc(alias = "NodeRun")]
pub struct NodeReport {
    /// Name of the node, including the arms that contain it.
    pub name: String,
    /// Status of the node.
    pub status: NodeStatus,
    /// Attempts that were started, in order. The input of a node is the output of the nodes in its
    /// [`GraphNode::reads`].
    pub attempts: Vec<AttemptReport>,
    /// Resolved bindings of the dependencies of a started node. For a pool, present once a
    /// candidate was chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resolved_dependencies: Vec<ResolvedDependency>,
    /// Model and tool calls of the node, ordered by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallReport>,
    /// Error of a failed node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The open question to a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Subject of the question, see
    /// [`ApprovalRequest::payload`](crate::event::ApprovalRequest::payload).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<Encoded>,
    /// Effect of resuming the run on the node, as a sentence.
    pub on_resume: &'static str,
}

/// A model or tool call of a node, or a nested call in a run of an agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallReport {
    /// Path of the call, such as `paid/tool#1.refund`.
    pub path: String,
    /// Status of the call: running, success, failed or cancelled.
    pub status: NodeStatus,
    /// Attempts that were started, in order.
    pub attempts: Vec<AttemptReport>,
}

/// Status of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[doc(alias = "NodeRunStatus")]
pub enum NodeStatus {
    /// Not started, or waiting for the next attempt. In a run that has ended, no node is pending.
    Pending,
    /// A person was asked and has not answered.
    AwaitingApproval,
    /// Started, while a model chooses among the candidates of a pool.
    ResolvingDependencies,
    /// Started and not ended.
    Running,
    /// Ended with an output.
    Success,
    /// Failed after all retries.
    Failed,
    /// Will not run, or the run ended before it started.
    Skipped,
    /// Stopped by another step or by the end of its run.
    Cancelled,
}

impl NodeStatus {
    /// Returns the status as a word, such as `awaiting_approval`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::AwaitingApproval => "awaiting_approval",
            Self::ResolvingDependencies => "resolving_dependencies",
            Self::Running => "running",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl RunRef<'_> {
    /// Returns the state of a run and, for each node, the effect of resuming the run.
    ///
    /// # Errors
    /// If the runtime has no store, or the store does not have the run.
    pub async fn inspect(self) -> Result<RunReport> {
        self.check_access(AccessAction::Read).await?;
        let store = self.runtime.require_store()?;
        let record =
            store.record(self.run).await?.ok_or_else(|| StoreError::not_found(self.run))?;
        let events = read_events(&store, self.run, 0).await?;
        self.report(&store, record, events).await
    }

    /// Returns the state of one node with its attempts and calls, as [`inspect`](Self::inspect) does,
    /// and reads only the events of this node. Returns `None` if the run has no such node. `node` is
    /// the [name](NodeReport::name) of the node, such as `review` or `notes[3]`.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect).
    pub async fn inspect_node(self, node: &str) -> Result<Option<NodeReport>> {
        self.check_access(AccessAction::Read).await?;
        let store = self.runtime.require_store()?;
        let record =
            store.record(self.run).await?.ok_or_else(|| StoreError::not_found(self.run))?;
        let Ok(path) = node.parse::<StepPath>() else { return Ok(None) };
        // The end of an enclosing node ends this node, too.
        let mut filter = EventFilter::new().at(StepPath::root());
        for enclosing in std::iter::once(path.clone()).chain(path.parents()) {
            if let Some((whole, _)) = enclosing.item() {
                filter = filter.at(whole);
            }
            filter = filter.at(enclosing);
        }
        let filter = filter.step(path);
        let events = read_selected_events(&store, self.run, &filter).await?;
        let report = self.report(&store, record, events).await?;
        Ok(report.nodes.into_iter().find(|report| report.name == node))
    }

    /// Builds the report from the record of the run and its events.
    async fn report(
        self,
        store: &Arc<dyn Store>,
        record: RunRecord,
        events: Vec<Event>,
    ) -> Result<RunReport> {
        let run = self.run;
        let controls = events.iter().filter_map(ControlReport::of).collect();
        let (state, mut attempts) =
            (RunState::from_events(&events), Attempts::from_events(&events));
        let executed_by = match self.runtime.host().live.as_ref().and_then(|live| live.get(run)) {
            Some(_) => Some("this process".to_owned()),
            None => store.known_holder(run).await?,
        };
        let graph: Option<Graph> = match &record.definition {
            Some(hash) => {
                store.definition(hash).await?.and_then(|graph| serde_json::from_str(&graph).ok())
            }
            None => None,
        };
        let parts = match &record.definition {
            Some(_) => RunJournal::whole(events.clone()).parts(),
            None => None,
        };
        let reader = reader_for(self.runtime, Some(store), parts.as_deref()).await?;
        let found = reader.catalogue().workflow_spec(&record.name);
        // The version with which the run would be resumed.
        #[cfg(feature = "documents")]
        let found = match &record.definition {
            Some(definition) => {
                version_of_run(&reader, store, (&record.name, definition, parts.as_deref()), found)
                    .await
            }
            None => found,
        };
        let spec = found.ok();
        let changed = match (&record.definition, &spec, &graph) {
            (Some(hash), Some(spec), Some(graph)) if !spec.has_hash(hash) => Some(
                crate::runtime::execution::changes::changed_nodes(graph, &Graph::from_plan(spec)),
            ),
            _ => None,
        };
        let is_step = |name: &str| {
            let node = graph.as_ref().and_then(|graph| graph.node(name));
            node.is_some_and(|node| node.kind != NodeKind::Gate)
        };
        let places: Vec<(StepPath, &GraphNode)> = graph
            .iter()
            .flat_map(|graph| &graph.nodes)
            .map(|node| (StepPath::root().child(&node.name), node))
            .collect();
        // Nodes follow the order of the definition; items and branches follow their node.
        let place = |path: &StepPath| {
            if let Some(turn) = path.turn() {
                return (turn as usize, usize::from(path.is_tool_call()), path.to_string());
            }
            let at = places.iter().position(|(node, _)| is_of(path, node));
            (at.unwrap_or(usize::MAX), path.to_string().len(), path.to_string())
        };
        let has_ended = state.status.has_ended();
        let seen = state.nodes.iter().map(|(path, node)| {
            let name = path.to_string();
            let mut report = report(&name, node, is_step(&name));
            report.attempts = attempts.take(path);
            if graph.is_none() && path.turn().is_some() {
                report.on_resume = of_agent(node, path.is_tool_call(), report.on_resume);
                if matches!(&node.state, NodeState::Failed(error) if error.kind == FailureKind::Cancelled) {
                    report.status = NodeStatus::Cancelled;
                }
            }
            // The error of a failing step may start with the same words as the error of a cancelled
            // run.
            if let NodeState::Failed(error) = &node.state
                && report.status == NodeStatus::Cancelled
                && state.status == RunStatus::Failed
                && error.message.starts_with(RUN_CANCELLED)
            {
                report.status = NodeStatus::Failed;
            }
            if executed_by.is_some() && report.status == NodeStatus::Running {
                report.on_resume = "is running";
            }
            if let Some(of) = graph.as_ref().and_then(|graph| graph.node(&name)) {
                report.resolve(of, path, &state);
            }
            if let Some(on_resume) = resume_effect_after_end(&state, path, report.status) {
                report.on_resume = on_resume;
            }
            if has_ended && report.status == NodeStatus::Pending {
                report.status = NodeStatus::Skipped;
            }
            (place(path), report)
        });
        let silent = |node: &GraphNode| matches!(node.kind, NodeKind::Input | NodeKind::Value);
        let unseen = places
            .iter()
            .filter(|(path, node)| !silent(node) && state.nodes.get(path).is_none())
            .map(|(path, node)| {
                let on_resume = resume_effect_after_end(&state, path, NodeStatus::Pending);
                let (status, usual) = match has_ended {
                    true => (NodeStatus::Skipped, "runs when the node that failed is retried"),
                    false => (NodeStatus::Pending, "runs when its turn comes"),
                };
                (place(path), NodeReport::new(&node.name, status, on_resume.unwrap_or(usual)))
            });
        let mut nodes: Vec<_> = seen.chain(unseen).collect();
        nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut nodes: Vec<NodeReport> = nodes.into_iter().map(|(_, node)| node).collect();
        let at: BTreeMap<String, usize> =
            nodes.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect();
        // A call belongs to the nearest enclosing node.
        for (path, attempts) in attempts.into_calls() {
            let mut above = path.parent();
            while let Some(place) = above.take() {
                match at.get(&place.to_string()) {
                    Some(node) => {
                        nodes[*node].calls.push(CallReport::new(&path, attempts));
                        break;
                    }
                    None => above = place.parent(),
                }
            }
        }
        let known = match (&spec, events.first().map(|event| &event.kind)) {
            (Some(spec), _) if record.definition.is_some() => Some(Arc::clone(spec.parts())),
            (_, Some(EventKind::RunStarted(started))) => match started.agent() {
                Some(agent) => parts_to_resume(self.runtime, store, (run, agent), &events).await?,
                None => None,
            },
            _ => None,
        };
        let compensation = CompensationReport::from_events(&events, &state);
        let differences = match known {
            Some(known) => {
                differences(self.runtime, RunJournal::whole(events).parts(), &known).await?
            }
            None => Vec::new(),
        };
        Ok(RunReport {
            run: record,
            executed_by,
            nodes,
            compensation,
            controls,
            changed,
            differences,
        })
    }
}

/// Returns the definition of the agent with which a run would be resumed. Returns `None` if the
/// program does not have the agent or cannot build it; resuming reports that error.
#[cfg_attr(
    not(feature = "documents"),
    allow(clippy::unused_async, unused_variables, reason = "only documents are kept")
)]
async fn parts_to_resume(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    (run, agent): (&RunId, &AgentStarted),
    events: &[Event],
) -> Result<Option<Arc<Known>>> {
    #[cfg(feature = "documents")]
    let of_version = {
        let parts = RunJournal::whole(events.to_vec()).parts();
        version_of_agent(runtime, store, (run, agent), parts.as_deref()).await?
    };
    #[cfg(not(feature = "documents"))]
    let of_version = None::<Runtime>;
    let of = of_version.as_ref().unwrap_or(runtime);
    Ok(of.catalogue().agent_of(run, agent).and_then(|agent| agent.parts(runtime.host())).ok())
}

/// `true` if the path is the node, one of its items, or below it.
fn is_of(path: &StepPath, node: &StepPath) -> bool {
    path == node || (path.belongs_to(node) && !path.is_within(node))
}

/// Returns the effect of resuming for a node of a run that has ended or is compensated. Returns
/// `None` if the usual text applies.
fn resume_effect_after_end(
    state: &RunState,
    path: &StepPath,
    status: NodeStatus,
) -> Option<&'static str> {
    let has_ended = state.status.has_ended();
    match status {
        NodeStatus::Success | NodeStatus::Skipped => None,
        _ if !has_ended && is_of_undo(path) => None,
        _ if state.compensating && has_ended => {
            Some("is not run again: the run has undone what it had done")
        }
        _ if state.compensating => Some("is not run again: the run only undoes what it had done"),
        _ if has_ended && state.status != RunStatus::Failed => {
            Some("is not run again: the run has ended")
        }
        // In a run of an agent, only the model call that ended it can be retried.
        NodeStatus::Failed | NodeStatus::Cancelled
            if state.is_agent() && has_ended && state.failed_node(&path.to_string()).is_err() =>
        {
            Some("is not run again: the run has ended")
        }
        _ => None,
    }
}

/// Returns the effect of resuming for a model or tool call of an agent.
fn of_agent(NodeInfo { state, .. }: &NodeInfo, is_tool: bool, usual: &'static str) -> &'static str {
    match state {
        NodeState::Running { repeatable: false, .. } => {
            "is not run again: the model learns that it was interrupted and may have had its effect"
        }
        NodeState::Failed(_) if is_tool => "is not run again: the model has its result",
        _ => usual,
    }
}

/// Reports a node. `is_step` is `true` for a step that asks for approval before it starts, in
/// contrast to a gate.
fn report(name: &str, NodeInfo { state: node }: &NodeInfo, is_step: bool) -> NodeReport {
    let (status, on_resume) = match node {
        NodeState::Running { repeatable: true, .. } => {
            (NodeStatus::Running, "runs again: it was interrupted")
        }
        NodeState::Running { repeatable: false, .. } => (
            NodeStatus::Running,
            "waits for a decision: it was interrupted and may have had its effect",
        ),
        NodeState::Waiting => (NodeStatus::Pending, "runs when its pause is over"),
        NodeState::Asking(_) => (NodeStatus::AwaitingApproval, "waits for the answer"),
        NodeState::Answered if is_step => {
            (NodeStatus::Pending, "goes by the answer that it was given")
        }
        NodeState::Answered | NodeState::Done => (NodeStatus::Success, "is not run again"),
        NodeState::Stopped => (NodeStatus::Cancelled, "is not run: what it belongs to has ended"),
        NodeState::Skipped => (NodeStatus::Skipped, "is not run"),
        NodeState::Failed(error) => match error.kind {
            FailureKind::Interrupted => (
                NodeStatus::Failed,
                "waits for a decision: it was interrupted and may have had its effect",
            ),
            _ if was_stopped(error) => {
                (NodeStatus::Cancelled, "runs again when the node that failed is retried")
            }
            _ if ended_with_run(error) => {
                (NodeStatus::Cancelled, "is not run again unless it is retried")
            }
            _ => (NodeStatus::Failed, "is not run again unless it is retried"),
        },
        NodeState::Reset => (NodeStatus::Pending, "runs again: an operator retried it"),
    };
    let mut report = NodeReport::new(name, status, on_resume);
    match node {
        NodeState::Asking(request) => {
            report.question = Some(request.message.clone());
            report.about = Some(request.payload.clone());
        }
        NodeState::Failed(error) => report.error = Some(error.whole().into_owned()),
        _ => {}
    }
    report
}

impl NodeReport {
    fn new(name: &str, status: NodeStatus, on_resume: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            status,
            attempts: Vec::new(),
            resolved_dependencies: Vec::new(),
            calls: Vec::new(),
            error: None,
            question: None,
            about: None,
            on_resume,
        }
    }

    /// Reports the resolved bindings of a started node. In the workflow of a pool, the node
    /// `resolved_N` is done for the chosen candidate.
    fn resolve(&mut self, node: &GraphNode, path: &StepPath, state: &RunState) {
        if matches!(
            self.status,
            NodeStatus::Pending | NodeStatus::AwaitingApproval | NodeStatus::Skipped
        ) {
            return;
        }
        let is_chosen = |candidate: usize| {
            let name = format!("resolved_{candidate}");
            let is_done = |info: &NodeInfo| matches!(info.state, NodeState::Done);
            state.nodes.iter().any(|(of, info)| {
                of.is_within(path) && of.last_name() == Some(&*name) && is_done(info)
            })
        };
        for candidates in by_dependency(&node.dependencies) {
            let chosen = match candidates.as_slice() {
                [only] => Some(*only),
                all => (0..all.len()).find(|at| is_chosen(*at)).map(|at| all[at]),
            };
            match chosen {
                Some(chosen) => self.resolved_dependencies.push(chosen.clone()),
                None if self.status == NodeStatus::Running => {
                    self.status = NodeStatus::ResolvingDependencies;
                }
                None => {}
            }
        }
    }
}

impl CallReport {
    fn new(path: &StepPath, attempts: Vec<AttemptReport>) -> Self {
        let status = match attempts.last() {
            Some(AttemptReport { cancelled: true, .. }) => NodeStatus::Cancelled,
            Some(AttemptReport { error: Some(_), .. }) => NodeStatus::Failed,
            Some(AttemptReport { ended: Some(_), .. }) => NodeStatus::Success,
            _ => NodeStatus::Running,
        };
        Self { path: path.to_string(), status, attempts }
    }
}
