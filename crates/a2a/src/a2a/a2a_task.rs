//! `A2aTask`: a task of an agent, with its status and artifacts.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::a2a_message::A2aMessage;
use super::a2a_part::{A2aContent, A2aPart, text_of};
use super::a2a_update::{A2aArtifactUpdate, A2aStatusUpdate};
use super::lenient;

/// State of a task. The names of version 0.3, such as `input-required`, are accepted and never
/// written, because servers of version 1.0 that wrap an older library send them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum A2aTaskState {
    /// The server accepted the task.
    #[serde(rename = "TASK_STATE_SUBMITTED", alias = "submitted")]
    Submitted,
    /// The agent is working on the task.
    #[serde(rename = "TASK_STATE_WORKING", alias = "working")]
    Working,
    /// The task completed with a result.
    #[serde(rename = "TASK_STATE_COMPLETED", alias = "completed")]
    Completed,
    /// The task failed.
    #[serde(rename = "TASK_STATE_FAILED", alias = "failed")]
    Failed,
    /// The task was cancelled.
    #[serde(rename = "TASK_STATE_CANCELED", alias = "canceled")]
    Canceled,
    /// The agent asks a question and waits for another message to the task.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED", alias = "input-required")]
    InputRequired,
    /// The agent rejected the task.
    #[serde(rename = "TASK_STATE_REJECTED", alias = "rejected")]
    Rejected,
    /// The agent waits for credentials.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED", alias = "auth-required")]
    AuthRequired,
}

impl A2aTaskState {
    /// Returns `true` if the task has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Returns `true` if the task waits for its client.
    pub fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }

    /// Returns the name in JSON, such as `TASK_STATE_WORKING`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "TASK_STATE_SUBMITTED",
            Self::Working => "TASK_STATE_WORKING",
            Self::Completed => "TASK_STATE_COMPLETED",
            Self::Failed => "TASK_STATE_FAILED",
            Self::Canceled => "TASK_STATE_CANCELED",
            Self::InputRequired => "TASK_STATE_INPUT_REQUIRED",
            Self::Rejected => "TASK_STATE_REJECTED",
            Self::AuthRequired => "TASK_STATE_AUTH_REQUIRED",
        }
    }
}

/// Status of a task: its state, with an optional message and the time of the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct A2aTaskStatus {
    /// The state.
    pub state: A2aTaskState,
    /// Message of the agent about the state, such as its question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<A2aMessage>,
    /// Time since which the task is in this state, such as `2026-01-31T10:30:00.000Z`.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub timestamp: Option<String>,
}

impl A2aTaskStatus {
    /// Creates a status without message and time.
    pub fn new(state: A2aTaskState) -> Self {
        Self { state, message: None, timestamp: None }
    }
}

/// A result of a task, such as a document.
///
/// ```
/// use agentflow::a2a::{A2aArtifact, A2aPart};
///
/// let artifact = A2aArtifact::new("report", [A2aPart::text("All orders are paid.")]);
/// assert_eq!(artifact.text(), "All orders are paid.");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aArtifact {
    /// Identifier, unique within the task.
    #[serde(deserialize_with = "lenient::named")]
    pub artifact_id: String,
    /// Name.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub name: Option<String>,
    /// Description.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub description: Option<String>,
    /// Contents.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub parts: Vec<A2aPart>,
    /// Additional fields set by the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// URIs of the protocol extensions that the artifact uses.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub extensions: Vec<String>,
}

impl A2aArtifact {
    /// Creates an artifact without name and description.
    pub fn new(id: impl Into<String>, parts: impl IntoIterator<Item = A2aPart>) -> Self {
        Self {
            artifact_id: id.into(),
            name: None,
            description: None,
            parts: parts.into_iter().collect(),
            metadata: None,
            extensions: Vec::new(),
        }
    }

    /// Returns the text of all parts, one per line.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// A task of an agent.
///
/// ```
/// use agentflow::a2a::{A2aTask, A2aTaskState};
///
/// let task = A2aTask::new("task-1", "support-3", A2aTaskState::Working);
/// assert_eq!(task.text(), "");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aTask {
    /// Identifier assigned by the server.
    #[serde(deserialize_with = "lenient::named")]
    pub id: String,
    /// Identifier of the conversation (A2A: context) that the task belongs to.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub context_id: Option<String>,
    /// Current status.
    pub status: A2aTaskStatus,
    /// Results of the task.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub artifacts: Vec<A2aArtifact>,
    /// Messages of the task. The server decides how many it returns.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub history: Vec<A2aMessage>,
    /// Additional fields set by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl A2aTask {
    /// Creates a task without artifacts and history.
    pub fn new(id: impl Into<String>, context: impl Into<String>, state: A2aTaskState) -> Self {
        Self {
            id: id.into(),
            context_id: Some(context.into()),
            status: A2aTaskStatus::new(state),
            artifacts: Vec::new(),
            history: Vec::new(),
            metadata: None,
        }
    }

    /// Returns the text of the artifacts, one per line. Without artifact text, returns the text of
    /// the status message, or an empty string.
    pub fn text(&self) -> String {
        let results = self.artifacts.iter().map(A2aArtifact::text).filter(|text| !text.is_empty());
        let results = results.collect::<Vec<_>>().join("\n");
        match results.is_empty() {
            true => self.said().unwrap_or_default(),
            false => results,
        }
    }

    /// Returns the text of the status message, or `None` if it is empty.
    pub fn said(&self) -> Option<String> {
        self.status.message.as_ref().map(A2aMessage::text).filter(|text| !text.is_empty())
    }

    /// Applies a status update: replaces the status.
    pub fn apply_status(&mut self, update: A2aStatusUpdate) {
        self.status = update.status;
    }

    /// Applies an artifact update: adds the artifact, replaces the artifact with the same id, or,
    /// if [`append`](A2aArtifactUpdate::append) is set, appends to it. A text chunk that follows a
    /// text part extends that part.
    pub fn apply_artifact(&mut self, update: A2aArtifactUpdate) {
        let A2aArtifactUpdate { artifact, append, .. } = update;
        let known =
            self.artifacts.iter_mut().find(|known| known.artifact_id == artifact.artifact_id);
        match known {
            Some(known) if append => {
                for part in artifact.parts {
                    append_part(&mut known.parts, part);
                }
            }
            Some(known) => *known = artifact,
            None => self.artifacts.push(artifact),
        }
    }
}

fn append_part(parts: &mut Vec<A2aPart>, part: A2aPart) {
    match (parts.last_mut().map(|last| &mut last.content), part.content) {
        // Streamed text arrives in chunks: consecutive text parts are one text.
        (Some(A2aContent::Text(text)), A2aContent::Text(more)) => text.push_str(&more),
        (_, content) => parts.push(A2aPart { content, ..part }),
    }
}

/// A page of a list of tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct A2aTasks {
    /// The tasks, most recently changed first.
    #[serde(deserialize_with = "lenient::or_default")]
    pub tasks: Vec<A2aTask>,
    /// Token that requests the next page; empty on the last page.
    #[serde(deserialize_with = "lenient::or_default")]
    pub next_page_token: String,
    /// Maximum number of tasks per page.
    #[serde(deserialize_with = "lenient::or_default")]
    pub page_size: i32,
    /// Total number of tasks.
    #[serde(deserialize_with = "lenient::or_default")]
    pub total_size: i32,
}
