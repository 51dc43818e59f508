//! `EventKind`: the kinds of events and their contents.
//!
//! A name that was released stays: it is stored, and clients know it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::payload::{
    AgentCompleted, AgentHandoff, AgentStarted, NotUndone, PauseReason, Redefined, RunAdvanced, RunCompleted,
    RunStarted, Spending, WorkflowCompleted, WorkflowStarted,
};
use super::questions::{ApprovalRequest, ToolWaiting};
use super::session_place::{SessionArtifact, SessionPlace, SessionSummarized};
use super::shape::{Edge, Subject};
use crate::failure::{Failure, FailureKind, RUN_CANCELLED};
use crate::message::{Message, ToolCall, ToolResult, ToolStatus};
use crate::model::{ModelResponse, ToolCallDelta};
use crate::state::{SavedByStep, StateValues};
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// What happened. The variants' names are the canonical dotted names, such as `tool.completed`.
///
/// `run.*` is about the run itself; an agent or a workflow that runs as a step of another has `agent.*` and
/// `workflow.*` in their place, at its own path.
///
/// An event that this release does not know is [`Unknown`](Self::Unknown): it is kept, shown and written as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "name", content = "payload")]
#[non_exhaustive]
pub enum EventKind {
    /// A run began.
    #[serde(rename = "run.started")]
    RunStarted(Arc<RunStarted>),
    /// A turn of an agent is over: the model answered and its tools, if any, have results.
    #[serde(rename = "run.step")]
    RunStep {
        /// The turn, from 1.
        step: u32,
    },
    /// A run ended with an answer.
    #[serde(rename = "run.completed")]
    RunCompleted(Arc<RunCompleted>),
    /// A run ended without an answer.
    #[serde(rename = "run.failed")]
    RunFailed {
        /// Why.
        error: Arc<Failure>,
    },
    /// What the run has spent so far; only in snapshots, where it stands for the calls that are left out.
    #[serde(rename = "run.spent")]
    RunSpent(Arc<Vec<Spending>>),
    /// Where the run of an agent was between two turns; only in snapshots, where it stands for the turns that were over.
    #[serde(rename = "run.advanced")]
    RunAdvanced(Arc<RunAdvanced>),
    /// A run was stopped from outside.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        /// Who or what stopped it.
        reason: Arc<str>,
        /// The operator who cancelled it, as [`ControlCall::by`](crate::run::ControlCall::by) names them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A run failed or was cancelled and undoes the calls that it had completed, the last one first; it ends after
    /// that. The calls that undo are below those that they undo, at `undo#1`.
    #[serde(rename = "run.compensating")]
    RunCompensating {
        /// Why.
        error: Arc<Failure>,
        /// Who or what stopped the run, when it was cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancelled: Option<Arc<str>>,
        /// The operator who cancelled it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// What could be undone is undone.
    #[serde(rename = "run.compensated")]
    RunCompensated {
        /// How many calls were undone.
        undone: u32,
        /// The calls that may have had an effect which is not undone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<NotUndone>,
    },
    /// A run waits: nothing new is started until it is resumed.
    #[serde(rename = "run.paused")]
    RunPaused {
        /// What it waits for.
        reason: PauseReason,
        /// The operator who paused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A paused run was unpaused, or a run that its process left unfinished was resumed.
    #[serde(rename = "run.resumed")]
    RunResumed {
        /// Whether it was resumed from its journal.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recovered: bool,
        /// What the workflow is from now on, when it is not what the run went by until here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redefined: Option<Arc<Redefined>>,
        /// What the run waits for all the same: another workflow in it, or an operator.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting: Option<PauseReason>,
        /// No process executes the run: it continues when one resumes it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queued: bool,
        /// The operator who unpaused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A live run takes no messages any more: it ends with its answer to those that it has.
    #[serde(rename = "run.closed")]
    RunClosed {
        /// Whether nobody had sent it a message for as long as it waits.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        idle: bool,
        /// The operator who closed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A message for the agent was accepted while its run was unfinished; a model sees it at its next call.
    #[serde(rename = "message.received")]
    MessageReceived {
        /// Its number among the messages that were sent to the run, from 1.
        number: u32,
        /// What tells it from all others.
        id: Arc<str>,
        /// What was sent.
        message: Arc<Message>,
        /// The sender.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// The messages up to a number are part of the conversation from here on.
    #[serde(rename = "message.delivered")]
    MessageDelivered {
        /// The number of the last one.
        number: u32,
    },
    /// An agent began as a step of another run.
    #[serde(rename = "agent.started")]
    AgentStarted(Arc<AgentStarted>),
    /// An agent that is a step ended with an answer.
    #[serde(rename = "agent.completed")]
    AgentCompleted(Arc<AgentCompleted>),
    /// An agent that is a step ended without an answer.
    #[serde(rename = "agent.failed")]
    AgentFailed {
        /// Why.
        error: Arc<Failure>,
    },
    /// An agent of a team transferred the conversation to another one; of a run of its own, at the run's own path.
    #[serde(rename = "agent.handoff")]
    AgentHandoff(Arc<AgentHandoff>),
    /// What was said in a session, and has no room in its window, was summed up for the model, or could not be.
    #[serde(rename = "session.summarized")]
    SessionSummarized(Arc<SessionSummarized>),
    /// A workflow began as a step of another run.
    #[serde(rename = "workflow.started")]
    WorkflowStarted(Arc<WorkflowStarted>),
    /// A workflow that is a step ended with its output.
    #[serde(rename = "workflow.completed")]
    WorkflowCompleted(WorkflowCompleted),
    /// A workflow that is a step ended without an output.
    #[serde(rename = "workflow.failed")]
    WorkflowFailed {
        /// Why.
        error: Arc<Failure>,
    },
    /// An attempt at a node of a workflow began.
    #[serde(rename = "workflow.node.started")]
    NodeStarted {
        /// The attempt, from 1.
        attempt: u32,
        /// Whether the node may simply be run again when its process ends in the middle of it.
        repeatable: bool,
        /// The tool whose call is all that the node does and has no events of its own: those of the node are the call's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<Arc<str>>,
    },
    /// A node has its output.
    #[serde(rename = "workflow.node.completed")]
    NodeCompleted {
        /// The output.
        output: Encoded,
        /// How long the attempt took, in milliseconds.
        duration_ms: u64,
        /// What the step saved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<Arc<SavedByStep>>,
    },
    /// An attempt at a node failed and another one follows.
    #[serde(rename = "workflow.node.retrying")]
    NodeRetrying {
        /// The attempt that failed.
        attempt: u32,
        /// Why it failed.
        error: Arc<Failure>,
        /// How long until the next attempt, in milliseconds.
        delay_ms: u64,
    },
    /// A node ended without an output: its last attempt failed, or it was cancelled.
    #[serde(rename = "workflow.node.failed")]
    NodeFailed {
        /// The last attempt; 0 when there was none.
        attempt: u32,
        /// Why.
        error: Arc<Failure>,
    },
    /// A node will not run: the way to it was not taken, or what it reads is not there.
    #[serde(rename = "workflow.node.skipped")]
    NodeSkipped {
        /// Why.
        reason: Arc<str>,
    },
    /// A failed node was reset by an operator and runs again.
    #[serde(rename = "workflow.node.reset")]
    NodeReset {
        /// Who asked for it.
        by: Arc<str>,
    },
    /// A person is asked; other steps of the run continue meanwhile.
    #[serde(rename = "approval.requested")]
    ApprovalRequested(Arc<ApprovalRequest>),
    /// A person answered, or the time for it is over.
    #[serde(rename = "approval.resolved")]
    ApprovalResolved {
        /// The answer, of the type that was asked for.
        answer: Encoded,
        /// Who answered.
        by: Arc<str>,
    },
    /// A model call began.
    #[serde(rename = "model.started")]
    ModelStarted {
        /// The wire format or maker.
        provider: Arc<str>,
        /// The model's name.
        model: Arc<str>,
    },
    /// A piece of a model's answer; never recorded.
    #[serde(rename = "model.delta")]
    ModelDelta(ModelDelta),
    /// A model answered.
    #[serde(rename = "model.completed")]
    ModelCompleted(Arc<ModelResponse>),
    /// A model call failed and is retried, with the same model or another; or middleware answers in its place.
    #[serde(rename = "model.retrying")]
    ModelRetrying {
        /// Why it failed.
        error: Arc<Failure>,
        /// How long until the next attempt, in milliseconds.
        delay_ms: u64,
    },
    /// A model call failed.
    #[serde(rename = "model.failed")]
    ModelFailed {
        /// Why.
        error: Arc<Failure>,
    },
    /// A step read a value that outlives the run, the first one to read it: the run sees this value from now on.
    #[serde(rename = "state.read")]
    StateRead {
        /// The key, such as `user:tone`.
        key: Arc<str>,
        /// The value; left out when it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Encoded>,
    },
    /// A model's answer does not fit the agent's output type; the model is told and asked again.
    #[serde(rename = "output.rejected")]
    OutputRejected {
        /// What does not fit.
        problem: Arc<str>,
    },
    /// A tool call began.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// What the tool is called with.
        call: Arc<ToolCall>,
        /// What the tool does to the world, as declared when it started.
        effects: Effects,
        /// Whether the tool may simply be called again, as declared when it started.
        idempotent: bool,
        /// The arguments that the caller gave, when middleware has changed them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given: Option<Arc<str>>,
        /// The tool that undoes the call, as declared when it started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compensate: Option<Arc<str>>,
    },
    /// How far a step has come, as it says itself; never recorded.
    #[serde(rename = "step.progress")]
    StepProgress {
        /// What it says.
        value: Encoded,
    },
    /// An attempt at a tool call failed, and the same call is tried again as the tool's policy says; it is one call, with
    /// one end.
    #[serde(rename = "tool.retrying")]
    ToolRetrying {
        /// The attempt that failed, from 1.
        attempt: u32,
        /// Why it failed.
        error: Arc<Failure>,
        /// How long until the next attempt, in milliseconds.
        delay_ms: u64,
    },
    /// A tool asks people in the middle of its call. Nothing of it runs until they have answered, also over restarts.
    #[serde(rename = "tool.waiting")]
    ToolWaiting(Arc<ToolWaiting>),
    /// Everything is answered that a call waited for, and it continues.
    #[serde(rename = "tool.continued")]
    ToolContinued {
        /// Whether what runs now may simply be called again when it is stopped.
        repeatable: bool,
    },
    /// A tool answered.
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        /// What it answered.
        result: Arc<ToolResult>,
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// The middleware that gave the result in the tool's place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<Arc<str>>,
        /// What the call saved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<Arc<SavedByStep>>,
    },
    /// A tool call ended without the tool's answer; the result says why and is what the model sees.
    #[serde(rename = "tool.failed")]
    ToolFailed {
        /// What the model sees.
        result: Arc<ToolResult>,
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// The middleware that gave the result in the tool's place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<Arc<str>>,
        /// The error that the function returned to the step of a workflow that called it, when it has a JSON form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Encoded>,
        /// What was behind that error, where the error says so and has no JSON form: the causes of an `anyhow::Error`,
        /// joined by `: `.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Arc<str>>,
    },
    /// What a newer release recorded: a kind that this one does not know, or a known kind with a word in it that this one
    /// does not know. Whatever reads a journal passes over it, and a run that has one is not resumed by this release.
    #[serde(skip)]
    Unknown(Arc<UnknownEvent>),
}

/// The name and the contents of an event that this release does not know.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UnknownEvent {
    /// The canonical name, such as `tool.paused`.
    pub name: Arc<str>,
    /// The contents, as they were written.
    pub payload: Encoded,
}

impl UnknownEvent {
    pub(crate) fn new(name: &str, payload: Encoded) -> Self {
        Self { name: name.into(), payload }
    }
}

impl EventKind {
    /// The canonical name, such as `tool.completed`.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown(unknown) => &unknown.name,
            known => known.shape().name,
        }
    }

    /// Why something failed, when this says so.
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

    /// Returns the size of the output in bytes, for the end of a tool call and of a node.
    pub fn output_size(&self) -> Option<u64> {
        match self {
            Self::ToolCompleted { result, .. } | Self::ToolFailed { result, .. } => Some(result.output_size()),
            Self::NodeCompleted { output, .. } => u64::try_from(output.as_str().len()).ok(),
            _ => None,
        }
    }

    /// Returns the state that the step saved with this outcome.
    pub fn saved(&self) -> Option<&Arc<SavedByStep>> {
        match self {
            Self::NodeCompleted { saved, .. } | Self::ToolCompleted { saved, .. } => saved.as_ref(),
            Self::ModelCompleted(response) => response.saved.as_ref(),
            Self::RunAdvanced(advanced) => advanced.saved.as_ref(),
            _ => None,
        }
    }

    /// The end of what this opens, when it is stopped in the middle; `None` when this opens nothing that runs.
    pub(crate) fn stopped(&self, error: &Arc<Failure>) -> Option<Self> {
        let error = Arc::clone(error);
        Some(match self {
            Self::AgentStarted(_) => Self::AgentFailed { error },
            Self::WorkflowStarted(_) => Self::WorkflowFailed { error },
            Self::NodeStarted { attempt, .. } => Self::NodeFailed { attempt: *attempt, error },
            Self::ModelStarted { .. } => Self::ModelFailed { error },
            Self::ToolStarted { call, effects, .. } => {
                let known = effects.when_stopped();
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

    /// A run that was cancelled undoes what it had done.
    pub(crate) fn compensating_cancelled(reason: Arc<str>) -> Self {
        let message = format!("{RUN_CANCELLED}: {reason}");
        let error = Arc::new(Failure::new(FailureKind::Cancelled, message));
        Self::RunCompensating { error, cancelled: Some(reason), by: None }
    }

    /// Adds the operator who asked for a control request to the event that grants it.
    pub(crate) fn asked_by(mut self, operator: Option<&Arc<str>>) -> Self {
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

    /// A paused run, or a workflow in it, continues.
    pub(crate) const fn resumed() -> Self {
        Self::RunResumed { recovered: false, redefined: None, waiting: None, queued: false, by: None }
    }

    /// The beginning of a run, with the id of the definition that it goes by.
    pub(crate) fn with_parts(mut self, parts: &Arc<str>) -> Self {
        if let Self::RunStarted(started) = &mut self {
            Arc::make_mut(started).parts = Some(Arc::clone(parts));
        }
        self
    }

    /// The beginning of a run, as one of a session whose state and whose artifacts are these.
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

    /// A run is resumed from its journal.
    pub(crate) const fn recovered(redefined: Option<Arc<Redefined>>) -> Self {
        Self::RunResumed { recovered: true, redefined, waiting: None, queued: false, by: None }
    }

    /// Whether something begins that may not simply be done again.
    pub(crate) fn begins_once(&self) -> bool {
        match self {
            Self::NodeStarted { repeatable, .. } => !repeatable,
            Self::ToolStarted { effects, idempotent, .. } => *effects == Effects::Write && !idempotent,
            Self::ToolContinued { repeatable } => !repeatable,
            _ => false,
        }
    }

    /// What an agent begins with, as a run or as a step.
    pub(crate) fn agent_started(&self) -> Option<&AgentStarted> {
        match self {
            Self::RunStarted(started) => started.agent(),
            Self::AgentStarted(started) => Some(started),
            _ => None,
        }
    }

    /// Whether this is the last event of a run.
    pub fn ends_run(&self) -> bool {
        let shape = self.shape();
        shape.subject == Subject::Run && shape.edge == Edge::Closes
    }
}

/// A piece of a model's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelDelta {
    /// More text.
    Text(String),
    /// More readable reasoning.
    Reasoning(String),
    /// More of a tool call. Boxed, since every record of a journal has the size of the largest kind.
    ToolCall(Box<ToolCallDelta>),
}
