//! `EventKind`: the kinds of events and their payloads.
//!
//! A released event name is never renamed or removed, because journals store it and clients depend
//! on it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::payload::{
    AgentCompleted, AgentHandoff, NotUndone, PauseReason, Redefined, RunAdvanced, RunCompleted,
    Spending, WorkflowCompleted,
};
use super::questions::{ApprovalRequest, ToolWaiting};
use super::run_started::{AgentStarted, RunStarted, WorkflowStarted};
use super::session_place::{SessionArtifact, SessionPlace, SessionSummarized};
use super::shape::{Edge, Subject};
use crate::failure::{Failure, FailureKind, RUN_CANCELLED};
use crate::message::{Message, ToolCall, ToolResult, ToolStatus};
use crate::model::{ModelResponse, ToolCallDelta};
use crate::state::{SavedByStep, StateValues};
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// The kind of an event, with its payload. Each variant is serialized under its canonical dotted
/// name, such as `tool.completed`.
///
/// `run.*` events describe the run itself. An agent or a workflow that runs as a step of another
/// run records `agent.*` or `workflow.*` events at the path of the step.
///
/// An event that this release does not know is read as [`Unknown`](Self::Unknown). It is kept,
/// displayed and written unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "name", content = "payload")]
#[non_exhaustive]
pub enum EventKind {
    /// The run started.
    #[serde(rename = "run.started")]
    RunStarted(Arc<RunStarted>),
    /// An agent finished a turn: the model responded, and all tool calls of the response have
    /// results.
    #[serde(rename = "run.step")]
    RunStep {
        /// Number of the turn, from 1.
        step: u32,
    },
    /// The run completed with an answer or an output.
    #[serde(rename = "run.completed")]
    RunCompleted(Arc<RunCompleted>),
    /// The run ended without an answer.
    #[serde(rename = "run.failed")]
    RunFailed {
        /// The reason.
        error: Arc<Failure>,
    },
    /// The model calls and tokens spent so far. Only snapshots contain it; it replaces the model
    /// calls that the snapshot omits.
    #[serde(rename = "run.spent")]
    RunSpent(Arc<Vec<Spending>>),
    /// The state of an agent run between two turns. Only snapshots contain it; it replaces the
    /// turns that had ended.
    #[serde(rename = "run.advanced")]
    RunAdvanced(Arc<RunAdvanced>),
    /// The run was cancelled.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        /// The reason for the cancellation.
        reason: Arc<str>,
        /// The operator who cancelled it, as given to
        /// [`ControlCall::by`](crate::run::ControlCall::by).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// The run failed or was cancelled, and now compensates its completed calls, last first. The
    /// run ends after that. Each compensating call is recorded below the call that it compensates,
    /// at `undo#1`.
    #[serde(rename = "run.compensating")]
    RunCompensating {
        /// The failure or cancellation that caused the compensation.
        error: Arc<Failure>,
        /// The reason for the cancellation, if the run was cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancelled: Option<Arc<str>>,
        /// The operator who cancelled the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// The compensation ended.
    #[serde(rename = "run.compensated")]
    RunCompensated {
        /// Number of calls that were compensated.
        undone: u32,
        /// Calls that may have had an effect and were not compensated.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<NotUndone>,
    },
    /// The run waits. It does not start new steps until it is unpaused or resumed.
    #[serde(rename = "run.paused")]
    RunPaused {
        /// The reason for the pause.
        reason: PauseReason,
        /// The operator who paused the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A paused run was unpaused, or an interrupted run was resumed.
    #[serde(rename = "run.resumed")]
    RunResumed {
        /// `true` if the run was resumed from its journal.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recovered: bool,
        /// The new definition of the workflow or agent, if it changed since the run was last
        /// executed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redefined: Option<Arc<Redefined>>,
        /// The reason why the run still waits, for example because an operator or another workflow
        /// of the run paused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting: Option<PauseReason>,
        /// `true` if no process executes the run yet. The run continues when a process resumes it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queued: bool,
        /// The operator who unpaused the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A live run was closed. It accepts no more messages and ends after it has answered the
    /// messages it has.
    #[serde(rename = "run.closed")]
    RunClosed {
        /// `true` if the run closed because no message arrived within its idle timeout.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        idle: bool,
        /// The operator who closed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A message for the agent was accepted while the run was unfinished. The next model call
    /// includes it.
    #[serde(rename = "message.received")]
    MessageReceived {
        /// Number of the message among all messages sent to the run, from 1.
        number: u32,
        /// Unique id of the message.
        id: Arc<str>,
        /// The message.
        message: Arc<Message>,
        /// The sender.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// All messages up to `number` became part of the conversation.
    #[serde(rename = "message.delivered")]
    MessageDelivered {
        /// Number of the last delivered message.
        number: u32,
    },
    /// An agent started as a step of another run.
    #[serde(rename = "agent.started")]
    AgentStarted(Arc<AgentStarted>),
    /// An agent that runs as a step completed with an answer.
    #[serde(rename = "agent.completed")]
    AgentCompleted(Arc<AgentCompleted>),
    /// An agent that runs as a step ended without an answer.
    #[serde(rename = "agent.failed")]
    AgentFailed {
        /// The reason.
        error: Arc<Failure>,
    },
    /// An agent of a team handed the conversation off to another agent. If the agent is the run
    /// itself, the event is at the root path.
    #[serde(rename = "agent.handoff")]
    AgentHandoff(Arc<AgentHandoff>),
    /// The older runs of a session, which do not fit into the session window, were summarized, or
    /// the summary failed.
    #[serde(rename = "session.summarized")]
    SessionSummarized(Arc<SessionSummarized>),
    /// A workflow started as a step of another run.
    #[serde(rename = "workflow.started")]
    WorkflowStarted(Arc<WorkflowStarted>),
    /// A workflow that runs as a step completed with an output.
    #[serde(rename = "workflow.completed")]
    WorkflowCompleted(WorkflowCompleted),
    /// A workflow that runs as a step ended without an output.
    #[serde(rename = "workflow.failed")]
    WorkflowFailed {
        /// The reason.
        error: Arc<Failure>,
    },
    /// An attempt at a workflow node started.
    #[serde(rename = "workflow.node.started")]
    NodeStarted {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// `true` if the node may run again when its process ends during the attempt.
        repeatable: bool,
        /// The tool, if the node consists of a single tool call that does not record events. The
        /// events of the node then also describe the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<Arc<str>>,
    },
    /// A node completed with an output.
    #[serde(rename = "workflow.node.completed")]
    NodeCompleted {
        /// The output.
        output: Encoded,
        /// Duration of the attempt, in milliseconds.
        duration_ms: u64,
        /// State and artifacts that the step saved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<Arc<SavedByStep>>,
    },
    /// An attempt at a node failed, and another attempt follows.
    #[serde(rename = "workflow.node.retrying")]
    NodeRetrying {
        /// Number of the failed attempt.
        attempt: u32,
        /// The reason for the failure.
        error: Arc<Failure>,
        /// Delay before the next attempt, in milliseconds.
        delay_ms: u64,
    },
    /// A node ended without an output: its last attempt failed, or it was cancelled.
    #[serde(rename = "workflow.node.failed")]
    NodeFailed {
        /// Number of the last attempt; 0 if the node was never started.
        attempt: u32,
        /// The reason.
        error: Arc<Failure>,
    },
    /// A node was skipped, because its branch was not taken or an input is missing.
    #[serde(rename = "workflow.node.skipped")]
    NodeSkipped {
        /// The reason.
        reason: Arc<str>,
    },
    /// An operator reset a failed node, which runs again.
    #[serde(rename = "workflow.node.reset")]
    NodeReset {
        /// The operator.
        by: Arc<str>,
    },
    /// A person was asked for an answer. Other steps of the run continue meanwhile.
    #[serde(rename = "approval.requested")]
    ApprovalRequested(Arc<ApprovalRequest>),
    /// A question was answered or timed out.
    #[serde(rename = "approval.resolved")]
    ApprovalResolved {
        /// The answer, of the type that the question declares.
        answer: Encoded,
        /// The person who answered.
        by: Arc<str>,
    },
    /// A model call started.
    #[serde(rename = "model.started")]
    ModelStarted {
        /// Name of the provider or of its wire format.
        provider: Arc<str>,
        /// Name of the model.
        model: Arc<str>,
    },
    /// A part of a streamed model response. It is never recorded.
    #[serde(rename = "model.delta")]
    ModelDelta(ModelDelta),
    /// A model call completed.
    #[serde(rename = "model.completed")]
    ModelCompleted(Arc<ModelResponse>),
    /// A model call failed. It is retried with the same or another model, or middleware supplies
    /// the response.
    #[serde(rename = "model.retrying")]
    ModelRetrying {
        /// The reason for the failure.
        error: Arc<Failure>,
        /// Delay before the next attempt, in milliseconds.
        delay_ms: u64,
    },
    /// A model call failed.
    #[serde(rename = "model.failed")]
    ModelFailed {
        /// The reason.
        error: Arc<Failure>,
    },
    /// A step read a value that outlives the run, for the first time in this run. Later reads in
    /// the run return the same value.
    #[serde(rename = "state.read")]
    StateRead {
        /// The key, such as `user:tone`.
        key: Arc<str>,
        /// The value; absent if the key had no value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Encoded>,
    },
    /// A model response does not match the agent's output type. The problem is sent to the model,
    /// which is called again.
    #[serde(rename = "output.rejected")]
    OutputRejected {
        /// Description of the mismatch.
        problem: Arc<str>,
    },
    /// A tool call started.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// The call with its arguments.
        call: Arc<ToolCall>,
        /// Effects that the tool declared when the call started.
        effects: Effects,
        /// `true` if the tool was declared idempotent when the call started, so the call may be
        /// repeated.
        idempotent: bool,
        /// The original arguments, if middleware changed them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given: Option<Arc<str>>,
        /// The tool that compensates the call, as declared when the call started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compensate: Option<Arc<str>>,
    },
    /// Progress reported by a step. It is never recorded.
    #[serde(rename = "step.progress")]
    StepProgress {
        /// The reported value.
        value: Encoded,
    },
    /// An attempt at a tool call failed and is retried according to the tool's policy. All attempts
    /// belong to one call, which has one end event.
    #[serde(rename = "tool.retrying")]
    ToolRetrying {
        /// Number of the failed attempt, from 1.
        attempt: u32,
        /// The reason for the failure.
        error: Arc<Failure>,
        /// Delay before the next attempt, in milliseconds.
        delay_ms: u64,
    },
    /// A tool asks people for answers during its call. The call is suspended until all questions
    /// are answered, also across restarts.
    #[serde(rename = "tool.waiting")]
    ToolWaiting(Arc<ToolWaiting>),
    /// All questions of a suspended tool call are answered, and the call continues.
    #[serde(rename = "tool.continued")]
    ToolContinued {
        /// `true` if the rest of the call may be repeated when it is interrupted.
        repeatable: bool,
    },
    /// A tool call completed.
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        /// The result.
        result: Arc<ToolResult>,
        /// Duration of the call, in milliseconds.
        duration_ms: u64,
        /// The middleware that supplied the result instead of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<Arc<str>>,
        /// State and artifacts that the call saved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<Arc<SavedByStep>>,
    },
    /// A tool call ended without a result from the tool. `result` contains the reason, as the model
    /// receives it.
    #[serde(rename = "tool.failed")]
    ToolFailed {
        /// The result that the model receives.
        result: Arc<ToolResult>,
        /// Duration of the call, in milliseconds.
        duration_ms: u64,
        /// The middleware that supplied the result instead of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<Arc<str>>,
        /// The error that the function returned to the calling workflow step, if the error has a
        /// JSON form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Encoded>,
        /// The causes of the error, joined by `: `, if the error has causes but no JSON form, such
        /// as an `anyhow::Error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Arc<str>>,
    },
    /// An event of a newer release: an unknown kind, or a known kind with an unknown variant in its
    /// payload. Code that reads a journal skips it. This release does not resume a run that
    /// contains one.
    #[serde(skip)]
    Unknown(Arc<UnknownEvent>),
}

/// The name and payload of an event that this release does not know.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UnknownEvent {
    /// The canonical name, such as `tool.paused`.
    pub name: Arc<str>,
    /// The payload, unchanged.
    pub payload: Encoded,
}

impl UnknownEvent {
    pub(crate) fn new(name: &str, payload: Encoded) -> Self {
        Self { name: name.into(), payload }
    }
}

impl EventKind {
    /// Returns the canonical name, such as `tool.completed`.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown(unknown) => &unknown.name,
            known => known.shape().name,
        }
    }

    /// Returns the failure that the event reports, if any.
    pub fn error(&self) -> Option<&Arc<Failure>> {
        match self {
            Self::RunFailed { error }
            | Self::RunCompensating { error, .. }
            | Self::AgentFailed { error }
            | Self::WorkflowFailed { error }
            | Self::NodeRetrying { error, .. }
            | Self::NodeFailed { error, .. }
            | Self::ModelRetrying { error, .. }
            | Self::ToolRetrying { error, .. }
            | Self::ModelFailed { error } => Some(error),
            _ => None,
        }
    }

    /// Returns the size of the output in bytes, if this is the end of a tool call or the completion
    /// of a node.
    pub fn output_size(&self) -> Option<u64> {
        match self {
            Self::ToolCompleted { result, .. } | Self::ToolFailed { result, .. } => {
                Some(result.output_size())
            }
            Self::NodeCompleted { output, .. } => u64::try_from(output.as_str().len()).ok(),
            _ => None,
        }
    }

    /// Returns the state and artifacts that the step saved with this outcome.
    pub fn saved(&self) -> Option<&Arc<SavedByStep>> {
        match self {
            Self::NodeCompleted { saved, .. } | Self::ToolCompleted { saved, .. } => saved.as_ref(),
            Self::ModelCompleted(response) => response.saved.as_ref(),
            Self::RunAdvanced(advanced) => advanced.saved.as_ref(),
            _ => None,
        }
    }

    /// Returns the end event for a subject that this event opened and that was interrupted. Returns
    /// `None` if the event does not start an agent, workflow, node, model call or tool call.
    pub(crate) fn stopped(&self, error: &Arc<Failure>) -> Option<Self> {
        let error = Arc::clone(error);
        Some(match self {
            Self::AgentStarted(_) => Self::AgentFailed { error },
            Self::WorkflowStarted(_) => Self::WorkflowFailed { error },
            Self::NodeStarted { attempt, .. } => Self::NodeFailed { attempt: *attempt, error },
            Self::ModelStarted { .. } => Self::ModelFailed { error },
            Self::ToolStarted { call, effects, .. } => {
                // The model reads this text, so it states whether the effect may have occurred.
                let known = effects.describe_interrupted();
                let why = format!("the program stopped while this tool was running; {known}");
                let result = ToolResult::new(call, ToolStatus::Interrupted, why);
                Self::ToolFailed {
                    result: Arc::new(result),
                    duration_ms: 0,
                    answered_by: None,
                    error: None,
                    cause: None,
                }
            }
            _ => return None,
        })
    }

    /// Author of a [`NodeReset`](Self::NodeReset) that no person requested.
    pub(crate) const FURTHER_ATTEMPT: &'static str = "a further attempt";

    /// Creates the event that starts the compensation of a cancelled run.
    pub(crate) fn compensating_cancelled(reason: Arc<str>) -> Self {
        let message = format!("{RUN_CANCELLED}: {reason}");
        let error = Arc::new(Failure::new(FailureKind::Cancelled, message));
        Self::RunCompensating { error, cancelled: Some(reason), by: None }
    }

    /// Adds the operator who sent a control request to the event that records its effect.
    pub(crate) fn with_operator(mut self, operator: Option<&Arc<str>>) -> Self {
        if let Self::RunPaused { by, .. }
        | Self::RunResumed { by, .. }
        | Self::RunCancelled { by, .. }
        | Self::RunCompensating { by, .. }
        | Self::RunClosed { by, .. }
        | Self::MessageReceived { by, .. } = &mut self
        {
            *by = operator.cloned();
        }
        self
    }

    /// Creates the event of a run that waits, such as for a person or a message.
    pub(crate) const fn paused(reason: PauseReason) -> Self {
        Self::RunPaused { reason, by: None }
    }

    /// Creates the event of a paused run, or of a paused workflow in it, that continues.
    pub(crate) const fn resumed() -> Self {
        Self::RunResumed {
            recovered: false,
            redefined: None,
            waiting: None,
            queued: false,
            by: None,
        }
    }

    /// Adds the id of the definition by parts to `RunStarted`.
    pub(crate) fn with_parts(mut self, parts: &Arc<str>) -> Self {
        if let Self::RunStarted(started) = &mut self {
            Arc::make_mut(started).parts = Some(Arc::clone(parts));
        }
        self
    }

    /// Adds the session to `RunStarted`: the position of the run in it, and its state and
    /// artifacts.
    pub(crate) fn with_session(
        mut self,
        place: SessionPlace,
        state: Option<Arc<StateValues>>,
        artifacts: Vec<SessionArtifact>,
    ) -> Self {
        if let Self::RunStarted(started) = &mut self {
            let started = Arc::make_mut(started);
            started.session = Some(Box::new(place));
            // A value of the request replaces the value of the session.
            started.state = match (state, started.state.take()) {
                (Some(mut state), Some(own)) => {
                    Arc::make_mut(&mut state).apply(&own.as_saved());
                    Some(state)
                }
                (state, own) => state.or(own),
            };
            started.artifacts = artifacts.into();
        }
        self
    }

    /// Creates the event of a run that is resumed from its journal.
    pub(crate) const fn recovered(redefined: Option<Arc<Redefined>>) -> Self {
        Self::RunResumed { recovered: true, redefined, waiting: None, queued: false, by: None }
    }

    /// Returns `true` if the event starts a node, a tool call or the rest of a tool call that must
    /// not be repeated.
    pub(crate) fn is_unrepeatable_start(&self) -> bool {
        match self {
            Self::NodeStarted { repeatable, .. } => !repeatable,
            Self::ToolStarted { effects, idempotent, .. } => {
                *effects == Effects::Write && !idempotent
            }
            Self::ToolContinued { repeatable } => !repeatable,
            _ => false,
        }
    }

    /// Returns the start of an agent, either as a run or as a step.
    pub(crate) fn agent_started(&self) -> Option<&AgentStarted> {
        match self {
            Self::RunStarted(started) => started.agent(),
            Self::AgentStarted(started) => Some(started),
            _ => None,
        }
    }

    /// Returns `true` if this is the last event of a run.
    pub fn ends_run(&self) -> bool {
        let shape = self.shape();
        shape.subject == Subject::Run && shape.edge == Edge::Closes
    }
}

/// A part of a streamed model response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelDelta {
    /// More text.
    Text(String),
    /// More human-readable reasoning.
    Reasoning(String),
    /// More of a tool call. It is boxed, because every journal record is as large as the largest
    /// variant.
    ToolCall(Box<ToolCallDelta>),
}
