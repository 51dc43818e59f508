//! `A2aTask`: work of an agent, its state and its results. It changes nothing on a server.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::a2a_message::A2aMessage;
use super::a2a_part::{A2aContent, A2aPart, text_of};
use super::a2a_update::{A2aArtifactUpdate, A2aStatusUpdate};
use super::lenient;

/// The state of a task. The names of version 0.3, such as `input-required`, are read and never written: servers of 1.0 that
/// wrap an older library send them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum A2aTaskState {
    /// The server has it.
    #[serde(rename = "TASK_STATE_SUBMITTED", alias = "submitted")]
    Submitted,
    /// The agent works on it.
    #[serde(rename = "TASK_STATE_WORKING", alias = "working")]
    Working,
    /// It has ended with its result.
    #[serde(rename = "TASK_STATE_COMPLETED", alias = "completed")]
    Completed,
    /// It has ended without one.
    #[serde(rename = "TASK_STATE_FAILED", alias = "failed")]
    Failed,
    /// It was cancelled.
    #[serde(rename = "TASK_STATE_CANCELED", alias = "canceled")]
    Canceled,
    /// The agent asks something, and waits for another message of the task.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED", alias = "input-required")]
    InputRequired,
    /// The agent does not do it.
    #[serde(rename = "TASK_STATE_REJECTED", alias = "rejected")]
    Rejected,
    /// The agent waits for credentials.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED", alias = "auth-required")]
    AuthRequired,
}

impl A2aTaskState {
    /// Whether the task has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether the task waits for its client.
    pub fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }

    /// Its name in JSON, such as `TASK_STATE_WORKING`.
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

/// The state of a task, since when, and what the agent says about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct A2aTaskStatus {
    /// The state.
    pub state: A2aTaskState,
    /// What the agent says, such as its question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<A2aMessage>,
    /// Since when, as `2026-01-31T10:30:00.000Z`.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

impl A2aTaskStatus {
    /// A state about which nothing is said.
    pub fn new(state: A2aTaskState) -> Self {
        Self { state, message: None, timestamp: None }
    }
}

/// A result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aArtifact {
    /// Its id, within the task.
    #[serde(deserialize_with = "lenient::named")]
    pub artifact_id: String,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its parts.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub parts: Vec<A2aPart>,
    /// What else the agent says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The extensions of the protocol that it uses.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

impl A2aArtifact {
    /// A result.
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

    /// All its texts, in lines.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// Work of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aTask {
    /// The server's id of it.
    #[serde(deserialize_with = "lenient::named")]
    pub id: String,
    /// The conversation that it belongs to.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// Its state.
    pub status: A2aTaskStatus,
    /// Its results.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<A2aArtifact>,
    /// What was said, as far as the server gives it.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<A2aMessage>,
    /// What else the server says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl A2aTask {
    /// A task.
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

    /// The texts of its results, in lines; without one, what the agent says of its state.
    pub fn text(&self) -> String {
        let results = self.artifacts.iter().map(A2aArtifact::text).filter(|text| !text.is_empty());
        let results = results.collect::<Vec<_>>().join("\n");
        match results.is_empty() {
            true => self.said().unwrap_or_default(),
            false => results,
        }
    }

    /// What the agent says of its state.
    pub fn said(&self) -> Option<String> {
        self.status.message.as_ref().map(A2aMessage::text).filter(|text| !text.is_empty())
    }

    /// Follows a new state.
    pub fn apply_status(&mut self, update: A2aStatusUpdate) {
        self.status = update.status;
    }

    /// Follows a result, or a further piece of one: a text behind a text makes it longer.
    pub fn apply_artifact(&mut self, update: A2aArtifactUpdate) {
        let A2aArtifactUpdate { artifact, append, .. } = update;
        let known = self.artifacts.iter_mut().find(|known| known.artifact_id == artifact.artifact_id);
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
        (Some(A2aContent::Text(text)), A2aContent::Text(more)) => text.push_str(&more),
        (_, content) => parts.push(A2aPart { content, ..part }),
    }
}

/// A page of a list of tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct A2aTasks {
    /// The tasks, the one that changed last first.
    #[serde(deserialize_with = "lenient::or_default")]
    pub tasks: Vec<A2aTask>,
    /// What the next page is asked for by; empty on the last one.
    #[serde(deserialize_with = "lenient::or_default")]
    pub next_page_token: String,
    /// How many tasks a page has at most.
    #[serde(deserialize_with = "lenient::or_default")]
    pub page_size: i32,
    /// How many tasks there are.
    #[serde(deserialize_with = "lenient::or_default")]
    pub total_size: i32,
}
