//! Payloads of the events that end a run, hand it over or describe its progress.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::{Conversation, Message};
use crate::model::{StopReason, Usage};
use crate::path::StepPath;
use crate::state::SavedByStep;
use crate::value::Encoded;

/// The outcome of a completed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunCompleted {
    /// The answer of an agent.
    Agent(Arc<AgentCompleted>),
    /// The output of a workflow.
    Workflow(WorkflowCompleted),
}

impl RunCompleted {
    /// Returns the answer, if the run executed an agent.
    pub fn agent(&self) -> Option<&AgentCompleted> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Workflow(_) => None,
        }
    }

    /// Returns the output, if the run executed a workflow.
    pub fn workflow(&self) -> Option<&WorkflowCompleted> {
        match self {
            Self::Workflow(workflow) => Some(workflow),
            Self::Agent(_) => None,
        }
    }
}

/// The outcome of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentCompleted {
    /// The last message of the model.
    pub message: Arc<Message>,
    /// The reason why the model stopped. `length` for a truncated answer.
    pub stop_reason: StopReason,
    /// Number of turns.
    pub steps: u32,
    /// Token usage of all model calls.
    pub usage: Usage,
    /// The middleware that supplied the answer instead of the agent. The agent then made no turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Arc<str>>,
    /// The answer, saved under the agent's [output key](crate::agent::AgentSettings::output_key).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Arc<SavedByStep>>,
}

impl AgentCompleted {
    pub(crate) fn new(
        message: Arc<Message>,
        stop_reason: StopReason,
        steps: u32,
        usage: Usage,
    ) -> Self {
        Self { message, stop_reason, steps, usage, answered_by: None, saved: None }
    }

    /// Returns the text of the answer: the text of the message, or the JSON for the agent's output
    /// type.
    pub fn text(&self) -> Cow<'_, str> {
        answer_text(&self.message)
    }
}

/// The outcome of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkflowCompleted {
    /// The output.
    pub output: Encoded,
}

impl WorkflowCompleted {
    pub(crate) fn new(output: Encoded) -> Self {
        Self { output }
    }
}

/// The new definition of a run, after its workflow or agent was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Redefined {
    /// Hash of the workflow's new definition; `None` if the run executes an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Arc<str>>,
    /// Nodes whose earlier records are invalidated.
    pub forgotten: Vec<StepPath>,
    /// Id of the new definition by parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Arc<str>>,
    /// Positions in the new definition of the nodes whose records contain state or artifacts.
    /// Records of nodes that the new definition no longer contains are invalid. `None` if no state
    /// or artifact was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<BTreeMap<StepPath, u64>>,
}

impl Redefined {
    pub(crate) fn new(
        definition: Option<Arc<str>>,
        forgotten: Vec<StepPath>,
        parts: Arc<str>,
    ) -> Self {
        Self { definition, forgotten, parts: Some(parts), places: None }
    }

    pub(crate) fn with_places(self, places: Option<BTreeMap<StepPath, u64>>) -> Self {
        Self { places, ..self }
    }
}

/// A call that may have had an effect and was not compensated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NotUndone {
    /// Path of the call.
    pub path: StepPath,
    /// Name of the called tool, as in the call. Empty if unknown.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub tool: Arc<str>,
    /// The reason why the call was not compensated.
    pub problem: Arc<str>,
}

impl NotUndone {
    pub(crate) fn new(
        path: StepPath,
        tool: impl Into<Arc<str>>,
        problem: impl Into<Arc<str>>,
    ) -> Self {
        Self { path, tool: tool.into(), problem: problem.into() }
    }

    /// Formats the calls and the reasons as a sentence.
    pub(crate) fn list(calls: &[Self]) -> String {
        let calls: Vec<String> =
            calls.iter().map(|call| format!("`{}` ({})", call.path, call.problem)).collect();
        format!("these calls are not undone: {}", calls.join(", "))
    }
}

/// The reason why a run is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PauseReason {
    /// An operator paused the run.
    Operator,
    /// The run can make no progress until a person answers a question.
    Approval,
    /// The process ended during a step with side effects. An operator decides whether the step runs
    /// again.
    Interrupted,
    /// A live run has answered and waits for the next message.
    Message,
    /// A reason that only a newer release knows. It occurs in lists of runs; the event of such a
    /// pause is [`EventKind::Unknown`](super::EventKind::Unknown).
    Other,
}

impl fmt::Display for PauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operator => "operator",
            Self::Approval => "approval",
            Self::Interrupted => "interrupted",
            Self::Message => "message",
            Self::Other => "other",
        })
    }
}

/// Model usage of one agent of a run with one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spending {
    /// Name of the agent.
    pub agent: Arc<str>,
    /// Name of the provider or of its wire format.
    pub provider: Arc<str>,
    /// Name of the model.
    pub model: Arc<str>,
    /// Number of started calls. Includes failed calls, excludes responses that middleware supplied.
    pub calls: u32,
    /// Token usage of all responses.
    pub usage: Usage,
}

/// State of an agent run between two turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunAdvanced {
    /// Number of the completed turn, from 1.
    pub step: u32,
    /// All messages since the start of the run, including tool calls and their results.
    pub messages: Conversation,
    /// Token usage of all responses.
    pub usage: Usage,
    /// Number of model calls that the agent started, excluding responses that middleware supplied.
    pub model_calls: u32,
    /// Number of failed tool calls since the last successful one.
    pub failures_in_row: u32,
    /// Number of answers that did not match the output type.
    pub misfits: u32,
    /// Execution time of the run so far, in milliseconds.
    pub spent_ms: u64,
    /// Tokens of all model responses.
    pub tokens: u64,
    /// Tokens of the last response.
    pub last_tokens: u64,
    /// Tokens of the longest response, including responses to nested agents.
    pub longest_answer: u64,
    /// State and artifacts that the tools saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Arc<SavedByStep>>,
    /// Number of the last message sent to the run that is part of `messages`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delivered: u32,
    /// Number of the turn in which the model had answered before the run received another message.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub answered: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The tool that carries the final answer when the provider accepts no output schema in the
/// request.
pub(crate) const ANSWER_TOOL: &str = "final_answer";

/// The tool with which a model hands the conversation off to another agent of its team.
pub(crate) const TRANSFER_TOOL: &str = "transfer_to_agent";

/// The tool with which a model ends the loop around its agent, and its own turns.
pub(crate) const EXIT_TOOL: &str = "exit_loop";

/// A handoff of the conversation from one agent of a team to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentHandoff {
    /// The agent that had the conversation.
    pub from: Arc<str>,
    /// The agent that receives the conversation.
    pub to: Arc<str>,
    /// The instructions of the receiving agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<Message>>,
}

impl AgentHandoff {
    pub(crate) fn new(from: Arc<str>, to: Arc<str>, instructions: Option<Arc<Message>>) -> Self {
        Self { from, to, instructions }
    }
}

/// Returns the text of an answer: the arguments of a call to [`ANSWER_TOOL`], or the text of the
/// message.
pub(crate) fn answer_text(message: &Message) -> Cow<'_, str> {
    match message.tool_calls().find(|call| call.name == ANSWER_TOOL) {
        Some(call) => Cow::Borrowed(&call.arguments),
        None => message.text(),
    }
}
