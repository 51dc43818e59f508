//! `TaskStreamChunk`: a run as the stream of a task, in numbered pieces of which the last one is final.

use agentflow_core::event::{ApprovalRequest, Event, EventKind, ModelDelta, RunCompleted};
use agentflow_core::value::Encoded;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Rfc3339;

/// What a piece of a task's stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskChunkKind {
    /// The task began.
    Processing,
    /// A tool is called.
    ToolCallRequest,
    /// A person is asked whether something may be done. The `id` of the content is the
    /// [id](agentflow_core::runtime::OpenQuestion::id) that [`Runtime::answer`](agentflow_core::Runtime::answer) takes.
    ToolApprovalRequest,
    /// A person is asked for something else; the `id` is one for an answer as well.
    UserInputRequest,
    /// A piece of the answer.
    Response,
    /// Something else happened.
    Progress,
    /// The task ended with its result.
    Complete,
    /// The task ended without one.
    Error,
    /// The task was stopped.
    Cancelled,
}

/// The content of a piece: a text, or an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum TaskContent {
    /// A text.
    Text(String),
    /// An object.
    Json(Map<String, Value>),
}

/// A piece of a task's stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
#[doc(alias = "ToolStreamChunk")]
pub struct TaskStreamChunk {
    /// The run.
    pub task_id: String,
    /// What it is.
    pub chunk_type: TaskChunkKind,
    /// The number of the piece in its stream, from 1, without gaps.
    pub sequence_id: u64,
    /// The content.
    pub content: TaskContent,
    /// When it happened.
    pub timestamp: Rfc3339,
    /// Whether it is the last one.
    pub is_final: bool,
    /// The canonical name of the event, and the step in which it happened.
    pub metadata: Map<String, Value>,
}

/// Makes the pieces of a task's stream of the events of one run. After the final one there are no others, also when an
/// operator retries the run: that is another stream.
#[derive(Clone, Debug, Default)]
pub struct TaskChunks {
    given: u64,
    ended: bool,
}

impl TaskChunks {
    /// The pieces of a run, in their order.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<TaskStreamChunk> {
        let mut view = Self::default();
        events.into_iter().filter_map(|event| view.next(event)).collect()
    }

    /// The piece that the next event of the run is; `None` of one that is not shown: reasoning, tool calls before they
    /// are whole, and what a tool that asks continues by.
    pub fn next(&mut self, event: &Event) -> Option<TaskStreamChunk> {
        if self.ended {
            return None;
        }
        let text = |text: &str| TaskContent::Text(text.to_owned());
        let (chunk_type, content) = match &event.kind {
            EventKind::RunStarted(started) => (TaskChunkKind::Processing, text(started.name())),
            EventKind::ModelDelta(ModelDelta::Text(piece)) => (TaskChunkKind::Response, text(piece)),
            // The questions are pieces of their own, and what the tool continues by is nobody's business.
            EventKind::ModelDelta(_) | EventKind::ToolWaiting(_) => return None,
            EventKind::ToolStarted { .. } => (TaskChunkKind::ToolCallRequest, payload(&event.kind)),
            EventKind::ApprovalRequested(request) => {
                let kind = match asks_for_approval(&request.answer) {
                    true => TaskChunkKind::ToolApprovalRequest,
                    false => TaskChunkKind::UserInputRequest,
                };
                (kind, question(event, request))
            }
            EventKind::RunCompleted(completed) => (TaskChunkKind::Complete, result(completed)),
            EventKind::RunFailed { error } => (TaskChunkKind::Error, text(&error.message)),
            EventKind::RunCancelled { reason, .. } => (TaskChunkKind::Cancelled, text(reason)),
            kind => (TaskChunkKind::Progress, payload(kind)),
        };
        self.given += 1;
        self.ended = event.kind.ends_run();
        let mut metadata = Map::new();
        metadata.insert("event".to_owned(), event.name().into());
        if !event.path.is_root() {
            metadata.insert("path".to_owned(), event.path.to_string().into());
        }
        Some(TaskStreamChunk {
            task_id: event.run_id.to_string(),
            chunk_type,
            sequence_id: self.given,
            content,
            timestamp: Rfc3339(event.time),
            is_final: self.ended,
            metadata,
        })
    }
}

/// What an event says, as its JSON.
fn payload(kind: &EventKind) -> TaskContent {
    let written = serde_json::to_value(kind).unwrap_or_default();
    match written.get("payload") {
        Some(Value::Object(payload)) => TaskContent::Json(payload.clone()),
        _ => TaskContent::Json(Map::new()),
    }
}

/// Returns the content of a question, with the id by which [`Runtime::answer`](agentflow_core::Runtime::answer) takes the answer.
fn question(event: &Event, request: &ApprovalRequest) -> TaskContent {
    match payload(&event.kind) {
        TaskContent::Json(mut content) => {
            content.insert("id".to_owned(), request.id_at(&event.path).into());
            TaskContent::Json(content)
        }
        text @ TaskContent::Text(_) => text,
    }
}

fn result(completed: &RunCompleted) -> TaskContent {
    match completed {
        RunCompleted::Agent(answer) => TaskContent::Text(answer.text().into_owned()),
        RunCompleted::Workflow(workflow) => match serde_json::from_str(workflow.output.as_str()) {
            Ok(Value::Object(object)) => TaskContent::Json(object),
            Ok(Value::String(text)) => TaskContent::Text(text),
            _ => TaskContent::Text(workflow.output.to_string()),
        },
        _ => TaskContent::Json(Map::new()),
    }
}

/// Whether the answer that is asked for is a person's word, and not a value.
fn asks_for_approval(answer: &Encoded) -> bool {
    let schema: Value = serde_json::from_str(answer.as_str()).unwrap_or_default();
    schema["title"] == "Approval"
}
