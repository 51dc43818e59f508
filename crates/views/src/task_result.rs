//! Summarizes a run as a [`TaskResult`], a single object.

use agentflow_core::error::FailureKind;
use agentflow_core::event::{Event, EventKind, RunCompleted};
use agentflow_core::message::{Conversation, Message, Role, ToolResult};
use agentflow_core::value::Encoded;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Rfc3339;
use super::task_request::TaskRequest;

/// The outcome of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// The task ended with a result.
    Success,
    /// The task failed.
    Error,
    /// The run failed, but steps that ran after the failure have results; or the run has not ended.
    Partial,
    /// The run reached its time limit.
    Timeout,
    /// The run was cancelled.
    Cancelled,
}

/// A message of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskMessage {
    /// The author: `system`, `user`, `assistant` or `tool`.
    pub role: Role,
    /// The text. For a message of tool results: the results, separated by line feeds.
    pub content: String,
    /// Name of the agent that wrote the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Name of the tool, if the message has tool results. With several results: the tool of the
    /// first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tool calls of the message: `id`, `name`, `arguments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<Value>>,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskResult {
    /// The id of the run.
    pub task_id: String,
    /// The outcome.
    pub status: TaskStatus,
    /// The conversation of an agent's run, without the instructions. Empty for a workflow.
    pub messages: Vec<TaskMessage>,
    /// The result, if it is a JSON object.
    pub result_data: Option<Map<String, Value>>,
    /// The results of all tool calls.
    pub tool_results: Vec<ToolResult>,
    /// Name of the agent or the workflow.
    pub agent_id: Option<String>,
    /// The session of the run.
    pub session_id: Option<String>,
    /// Seconds from the first event to the last, including the time that the run waited.
    pub execution_time: Option<f64>,
    /// Time of the first event.
    pub created_at: Option<Rfc3339>,
    /// The error, or the reason of the cancellation.
    pub error_message: Option<String>,
    /// The token usage of an agent's run, in `usage`.
    pub metadata: Map<String, Value>,
}

impl TaskResult {
    /// Returns the result of a task for which no run was started.
    pub(super) fn refused(task: &TaskRequest, problem: String) -> Self {
        Self {
            task_id: task.task_id.clone(),
            status: TaskStatus::Error,
            messages: Vec::new(),
            result_data: None,
            tool_results: Vec::new(),
            agent_id: task.agent_id.clone(),
            session_id: task.session_id.clone(),
            execution_time: None,
            created_at: None,
            error_message: Some(problem),
            metadata: Map::new(),
        }
    }

    /// Summarizes the recorded events of a run. Returns `None` if `events` is empty.
    pub fn of(events: &[Event]) -> Option<Self> {
        let (first, last) = (events.first()?, events.last()?);
        let mut result = Self {
            task_id: first.run_id.to_string(),
            status: TaskStatus::Partial,
            messages: Vec::new(),
            result_data: None,
            tool_results: Vec::new(),
            agent_id: None,
            session_id: None,
            execution_time: Some(last.time.since(first.time).as_secs_f64()),
            created_at: Some(Rfc3339(first.time)),
            error_message: None,
            metadata: Map::new(),
        };
        // Only a workflow with `stop = best_effort` completes a step after another step failed.
        let (mut has_failed, mut went_on) = (false, false);
        for event in events {
            has_failed |= matches!(event.kind, EventKind::NodeFailed { .. });
            went_on |= has_failed && matches!(event.kind, EventKind::NodeCompleted { .. });
            result.take(&event.kind, went_on);
        }
        if is_of_agent(events) {
            let conversation = Conversation::from_events(events);
            let author = result.agent_id.as_deref();
            result.messages = conversation
                .messages()
                .iter()
                .map(|one| TaskMessage::from_message(one, author))
                .collect();
        }
        Some(result)
    }

    fn take(&mut self, kind: &EventKind, went_on: bool) {
        match kind {
            EventKind::RunStarted(started) => {
                self.agent_id = Some(started.name().to_owned());
                self.session_id = started.session.as_ref().map(|place| place.session.to_string());
            }
            EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. } => {
                self.tool_results.push(ToolResult::clone(result));
            }
            EventKind::RunCompleted(completed) => {
                self.status = TaskStatus::Success;
                self.error_message = None;
                self.result_data = match &**completed {
                    RunCompleted::Agent(answer) => {
                        self.metadata.insert("usage".to_owned(), json!(answer.usage));
                        // A typed answer is a JSON text. Plain text is not an object and gives
                        // `None`.
                        serde_json::from_str(&answer.text()).ok()
                    }
                    RunCompleted::Workflow(workflow) => object(&workflow.output),
                    _ => None,
                };
            }
            EventKind::RunFailed { error } => {
                self.status = match (&error.kind, went_on) {
                    (FailureKind::Timeout, _) => TaskStatus::Timeout,
                    (_, true) => TaskStatus::Partial,
                    (_, false) => TaskStatus::Error,
                };
                self.error_message = Some(error.message.clone());
            }
            EventKind::RunCancelled { reason, .. } => {
                self.status = TaskStatus::Cancelled;
                self.error_message = Some(reason.to_string());
            }
            // A failed run that an operator retries has not ended.
            EventKind::RunResumed { .. } => {
                self.status = TaskStatus::Partial;
                self.error_message = None;
            }
            _ => {}
        }
    }
}

fn is_of_agent(events: &[Event]) -> bool {
    events.iter().any(
        |event| matches!(&event.kind, EventKind::RunStarted(started) if started.agent().is_some()),
    )
}

fn object(output: &Encoded) -> Option<Map<String, Value>> {
    serde_json::from_str(output.as_str()).ok()
}

impl TaskMessage {
    fn from_message(message: &Message, author: Option<&str>) -> Self {
        let role = message.role();
        let calls: Vec<Value> = message
            .tool_calls()
            .map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments}))
            .collect();
        let results: Vec<_> = message.results().collect();
        let content = match results.is_empty() {
            true => message.text().into_owned(),
            false => results.iter().map(|result| &*result.output).collect::<Vec<_>>().join("\n"),
        };
        Self {
            role,
            content,
            author: author.filter(|_| role == Role::Assistant).map(ToOwned::to_owned),
            name: results.first().map(|result| result.name.clone()),
            tool_calls: (!calls.is_empty()).then_some(calls),
        }
    }
}
