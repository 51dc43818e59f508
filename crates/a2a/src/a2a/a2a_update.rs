//! Responses and stream items of a server: a task, a message, or an update of a task.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::a2a_message::A2aMessage;
use super::a2a_task::{A2aArtifact, A2aTask, A2aTaskStatus};
use super::lenient;

/// A change of a task's status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aStatusUpdate {
    /// Identifier of the task.
    #[serde(deserialize_with = "lenient::named")]
    pub task_id: String,
    /// Identifier of the task's conversation (A2A: context).
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub context_id: String,
    /// The new status.
    pub status: A2aTaskStatus,
    /// Additional fields set by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A new artifact of a task, or a further chunk of an artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aArtifactUpdate {
    /// Identifier of the task.
    #[serde(deserialize_with = "lenient::named")]
    pub task_id: String,
    /// Identifier of the task's conversation (A2A: context).
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub context_id: String,
    /// The artifact, or the chunk.
    pub artifact: A2aArtifact,
    /// `true` if the parts are appended to the artifact with the same id.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "lenient::is_false"
    )]
    pub append: bool,
    /// `true` for the last chunk of the artifact.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "lenient::is_false"
    )]
    pub last_chunk: bool,
    /// Additional fields set by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl A2aStatusUpdate {
    /// Creates an update of a task's status.
    pub fn new(task: impl Into<String>, context: impl Into<String>, status: A2aTaskStatus) -> Self {
        Self { task_id: task.into(), context_id: context.into(), status, metadata: None }
    }
}

impl A2aArtifactUpdate {
    /// Creates an update with a complete artifact.
    pub fn whole(
        task: impl Into<String>,
        context: impl Into<String>,
        artifact: A2aArtifact,
    ) -> Self {
        let (task_id, context_id) = (task.into(), context.into());
        Self { task_id, context_id, artifact, append: false, last_chunk: true, metadata: None }
    }
}

/// An item of a stream. The form of version 0.3, in which the field `kind` names the variant, is
/// accepted and never written.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "UpdateJson")]
#[non_exhaustive]
pub enum A2aUpdate {
    /// The current task. A stream of a task begins with it.
    Task(Box<A2aTask>),
    /// A message. It is the complete response.
    Message(Box<A2aMessage>),
    /// The status of the task changed.
    Status(Box<A2aStatusUpdate>),
    /// The task has a new artifact, or a further chunk of one.
    Artifact(Box<A2aArtifactUpdate>),
}

impl A2aUpdate {
    /// Returns the identifier of the task, or `None` for a message without a task.
    pub fn task_id(&self) -> Option<&str> {
        match self {
            Self::Task(task) => Some(&task.id),
            Self::Message(message) => message.task_id.as_deref(),
            Self::Status(update) => Some(&update.task_id),
            Self::Artifact(update) => Some(&update.task_id),
        }
    }

    /// Returns `true` if no item follows in the stream: the item is a message, or the task has
    /// ended.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Task(task) => task.status.state.is_terminal(),
            Self::Message(_) => true,
            Self::Status(update) => update.status.state.is_terminal(),
            Self::Artifact(_) => false,
        }
    }
}

/// The response to a message. The form of version 0.3 is accepted as for [`A2aUpdate`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "UpdateJson")]
#[non_exhaustive]
pub enum A2aAnswer {
    /// A task. It may still be running.
    Task(Box<A2aTask>),
    /// A message. The server created no task.
    Message(Box<A2aMessage>),
}

impl A2aAnswer {
    /// Returns the text of the message, or of the task ([`A2aTask::text`]).
    pub fn text(&self) -> String {
        match self {
            Self::Task(task) => task.text(),
            Self::Message(message) => message.text(),
        }
    }

    /// Returns the task, or `None` if the response is a message.
    pub fn task(&self) -> Option<&A2aTask> {
        match self {
            Self::Task(task) => Some(task),
            Self::Message(_) => None,
        }
    }
}

/// JSON form of version 1.0. The name of the field identifies the variant.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdateJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Box<A2aTask>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Box<A2aMessage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_update: Option<Box<A2aStatusUpdate>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_update: Option<Box<A2aArtifactUpdate>>,
}

impl TryFrom<UpdateJson> for A2aUpdate {
    type Error = &'static str;

    fn try_from(json: UpdateJson) -> Result<Self, Self::Error> {
        // Exactly one of the fields must be present.
        match json {
            UpdateJson {
                task: Some(task),
                message: None,
                status_update: None,
                artifact_update: None,
            } => Ok(Self::Task(task)),
            UpdateJson {
                task: None,
                message: Some(message),
                status_update: None,
                artifact_update: None,
            } => Ok(Self::Message(message)),
            UpdateJson {
                task: None,
                message: None,
                status_update: Some(update),
                artifact_update: None,
            } => Ok(Self::Status(update)),
            UpdateJson {
                task: None,
                message: None,
                status_update: None,
                artifact_update: Some(update),
            } => Ok(Self::Artifact(update)),
            _ => Err(
                "it has not exactly one of `task`, `message`, `statusUpdate` and `artifactUpdate`",
            ),
        }
    }
}

impl From<A2aUpdate> for UpdateJson {
    fn from(update: A2aUpdate) -> Self {
        match update {
            A2aUpdate::Task(task) => Self { task: Some(task), ..Self::default() },
            A2aUpdate::Message(message) => Self { message: Some(message), ..Self::default() },
            A2aUpdate::Status(update) => Self { status_update: Some(update), ..Self::default() },
            A2aUpdate::Artifact(update) => {
                Self { artifact_update: Some(update), ..Self::default() }
            }
        }
    }
}

impl<'de> Deserialize<'de> for A2aUpdate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Only version 0.3 has a `kind` on this level.
        let json = Value::deserialize(deserializer)?;
        match json.get("kind").and_then(Value::as_str) {
            Some("task") => variant(json).map(Self::Task),
            Some("message") => variant(json).map(Self::Message),
            Some("status-update") => variant(json).map(Self::Status),
            Some("artifact-update") => variant(json).map(Self::Artifact),
            _ => variant::<UpdateJson, _>(json)
                .and_then(|json| Self::try_from(json).map_err(D::Error::custom)),
        }
    }
}

/// Reads a value. The error contains the path of the invalid field.
fn variant<T: DeserializeOwned, E: serde::de::Error>(json: Value) -> Result<T, E> {
    serde_path_to_error::deserialize(json).map_err(E::custom)
}

impl<'de> Deserialize<'de> for A2aAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match A2aUpdate::deserialize(deserializer)? {
            A2aUpdate::Task(task) => Ok(Self::Task(task)),
            A2aUpdate::Message(message) => Ok(Self::Message(message)),
            _ => Err(D::Error::custom("it has not exactly one of `task` and `message`")),
        }
    }
}

impl From<A2aAnswer> for UpdateJson {
    fn from(answer: A2aAnswer) -> Self {
        match answer {
            A2aAnswer::Task(task) => A2aUpdate::Task(task),
            A2aAnswer::Message(message) => A2aUpdate::Message(message),
        }
        .into()
    }
}
