//! Maps the events of a run to [`TaskStreamChunk`]s, the numbered chunks of a task's stream.

use agentflow_core::event::{ApprovalRequest, Event, EventKind, ModelDelta, RunCompleted};
use agentflow_core::value::Encoded;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Rfc3339;

/// The kinds of chunks in a task's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskChunkKind {
    /// The task started.
    Processing,
    /// A tool call started.
    ToolCallRequest,
    /// A person must approve a call. The `id` of the content is the
    /// [id](agentflow_core::runtime::OpenQuestion::id) that
    /// [`RunRef::answer`](agentflow_core::runtime::RunRef::answer) takes.
    ToolApprovalRequest,
    /// A person must enter a value. The `id` of the content is for the answer, as in
    /// `ToolApprovalRequest`.
    UserInputRequest,
    /// A piece of the model's answer.
    Response,
    /// Any other event of the run.
    Progress,
    /// The task ended with a result.
    Complete,
    /// The task failed.
    Error,
    /// The task was cancelled.
    Cancelled,
}

/// The content of a chunk: a string or an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum TaskContent {
    /// A string.
    Text(String),
    /// An object.
    Json(Map<String, Value>),
}

/// A chunk of a task's stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
#[doc(alias = "ToolStreamChunk")]
pub struct TaskStreamChunk {
    /// The id of the run.
    pub task_id: String,
    /// The kind of the chunk.
    pub chunk_type: TaskChunkKind,
    /// Number of the chunk in its stream, from 1, without gaps.
    pub sequence_id: u64,
    /// The content of the chunk.
    pub content: TaskContent,
    /// Time of the event.
    pub timestamp: Rfc3339,
    /// `true` if the chunk is the last of its stream.
    pub is_final: bool,
    /// The canonical name of the event (`event`), and the path of its step (`path`) if it has one.
    pub metadata: Map<String, Value>,
}

/// Maps the events of one run to the chunks of a task's stream. The stream ends with the final
/// chunk. If an operator retries the run, create a new `TaskChunks` for the new stream.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// use agentflow::prelude::*;
/// use agentflow::views::{TaskChunkKind, TaskChunks};
/// use agentflow_testing::{ScriptedModel, Turn, test_runtime};
///
/// let desk = Agent::new(ScriptedModel::new([Turn::text("Hello.")])).name("desk");
/// let run = desk.runtime(&test_runtime().build()).start("Hi.")?;
/// run.result().await?;
/// let chunks = TaskChunks::of(&run.recorded());
/// assert_eq!(chunks[0].chunk_type, TaskChunkKind::Processing);
/// assert!(chunks.last().unwrap().is_final);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct TaskChunks {
    given: u64,
    ended: bool,
}

impl TaskChunks {
    /// Returns the chunks of a run, in order.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<TaskStreamChunk> {
        let mut view = Self::default();
        events.into_iter().filter_map(|event| view.next(event)).collect()
    }

    /// Maps the next event of the run. Returns `None` for an event that the stream does not show:
    /// reasoning, partial tool calls, the saved state of a tool that waits for an answer, and all
    /// events after the final chunk.
    pub fn next(&mut self, event: &Event) -> Option<TaskStreamChunk> {
        if self.ended {
            return None;
        }
        let text = |text: &str| TaskContent::Text(text.to_owned());
        let (chunk_type, content) = match &event.kind {
            EventKind::RunStarted(started) => (TaskChunkKind::Processing, text(started.name())),
            EventKind::ModelDelta(ModelDelta::Text(piece)) => {
                (TaskChunkKind::Response, text(piece))
            }
            // The questions have their own chunks. The state from which a waiting tool continues is
            // internal.
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
        // Hidden events return above, so the numbers have no gaps.
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

/// Returns the payload of an event as JSON.
fn payload(kind: &EventKind) -> TaskContent {
    let written = serde_json::to_value(kind).unwrap_or_default();
    match written.get("payload") {
        Some(Value::Object(payload)) => TaskContent::Json(payload.clone()),
        _ => TaskContent::Json(Map::new()),
    }
}

/// Returns the content of a question, including the id for
/// [`RunRef::answer`](agentflow_core::runtime::RunRef::answer).
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

/// Returns true if the question asks for an approval, and not for a value.
fn asks_for_approval(answer: &Encoded) -> bool {
    let schema: Value = serde_json::from_str(answer.as_str()).unwrap_or_default();
    schema["title"] == "Approval"
}
