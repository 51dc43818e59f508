//! What a server answers and what it streams: a task, a message, or a change of a task. It applies none.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::a2a_message::A2aMessage;
use super::a2a_task::{A2aArtifact, A2aTask, A2aTaskStatus};
use super::lenient;

/// A task has another state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aStatusUpdate {
    /// The task.
    #[serde(deserialize_with = "lenient::named")]
    pub task_id: String,
    /// Its conversation.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub context_id: String,
    /// The state.
    pub status: A2aTaskStatus,
    /// What else the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A task has a result, or a further piece of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aArtifactUpdate {
    /// The task.
    #[serde(deserialize_with = "lenient::named")]
    pub task_id: String,
    /// Its conversation.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub context_id: String,
    /// The result, or a piece of it.
    pub artifact: A2aArtifact,
    /// Whether the parts belong behind those of the same artifact.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "lenient::is_false")]
    pub append: bool,
    /// Whether it is the last piece.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "lenient::is_false")]
    pub last_chunk: bool,
    /// What else the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl A2aStatusUpdate {
    /// A task has this state now.
    pub fn new(task: impl Into<String>, context: impl Into<String>, status: A2aTaskStatus) -> Self {
        Self { task_id: task.into(), context_id: context.into(), status, metadata: None }
    }
}

impl A2aArtifactUpdate {
    /// A task has this result, which is whole.
    pub fn whole(task: impl Into<String>, context: impl Into<String>, artifact: A2aArtifact) -> Self {
        let (task_id, context_id) = (task.into(), context.into());
        Self { task_id, context_id, artifact, append: false, last_chunk: true, metadata: None }
    }
}

/// An item of a stream. The form of version 0.3, in which the field `kind` names the variant, is read and never written.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "UpdateJson")]
#[non_exhaustive]
pub enum A2aUpdate {
    /// A task as it is now. A stream of a task begins with it.
    Task(Box<A2aTask>),
    /// A message, which is the whole answer.
    Message(Box<A2aMessage>),
    /// The task has another state.
    Status(Box<A2aStatusUpdate>),
    /// The task has a result, or a further piece of one.
    Artifact(Box<A2aArtifactUpdate>),
}

impl A2aUpdate {
    /// The task that it is about.
    pub fn task_id(&self) -> Option<&str> {
        match self {
            Self::Task(task) => Some(&task.id),
            Self::Message(message) => message.task_id.as_deref(),
            Self::Status(update) => Some(&update.task_id),
            Self::Artifact(update) => Some(&update.task_id),
        }
    }

    /// Whether nothing follows it in its stream: a message, and a task that has ended.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Task(task) => task.status.state.is_terminal(),
            Self::Message(_) => true,
            Self::Status(update) => update.status.state.is_terminal(),
            Self::Artifact(_) => false,
        }
    }
}

/// The answer to a message. The form of version 0.3 is read as for [`A2aUpdate`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "UpdateJson")]
#[non_exhaustive]
pub enum A2aAnswer {
    /// A task, which may not have ended.
    Task(Box<A2aTask>),
    /// A message, and there is no task.
    Message(Box<A2aMessage>),
}

impl A2aAnswer {
    /// The text of the message, or of the task's results.
    pub fn text(&self) -> String {
        match self {
            Self::Task(task) => task.text(),
            Self::Message(message) => message.text(),
        }
    }

    /// The task, where it is one.
    pub fn task(&self) -> Option<&A2aTask> {
        match self {
            Self::Task(task) => Some(task),
            Self::Message(_) => None,
        }
    }
}

/// The form in JSON: the name of the field says what it is.
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
        match json {
            UpdateJson { task: Some(task), message: None, status_update: None, artifact_update: None } => {
                Ok(Self::Task(task))
            }
            UpdateJson { task: None, message: Some(message), status_update: None, artifact_update: None } => {
                Ok(Self::Message(message))
            }
            UpdateJson { task: None, message: None, status_update: Some(update), artifact_update: None } => {
                Ok(Self::Status(update))
            }
            UpdateJson { task: None, message: None, status_update: None, artifact_update: Some(update) } => {
                Ok(Self::Artifact(update))
            }
            _ => Err("it has not exactly one of `task`, `message`, `statusUpdate` and `artifactUpdate`"),
        }
    }
}

impl From<A2aUpdate> for UpdateJson {
    fn from(update: A2aUpdate) -> Self {
        match update {
            A2aUpdate::Task(task) => Self { task: Some(task), ..Self::default() },
            A2aUpdate::Message(message) => Self { message: Some(message), ..Self::default() },
            A2aUpdate::Status(update) => Self { status_update: Some(update), ..Self::default() },
            A2aUpdate::Artifact(update) => Self { artifact_update: Some(update), ..Self::default() },
        }
    }
}

impl<'de> Deserialize<'de> for A2aUpdate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        match json.get("kind").and_then(Value::as_str) {
            Some("task") => variant(json).map(Self::Task),
            Some("message") => variant(json).map(Self::Message),
            Some("status-update") => variant(json).map(Self::Status),
            Some("artifact-update") => variant(json).map(Self::Artifact),
            _ => variant::<UpdateJson, _>(json).and_then(|json| Self::try_from(json).map_err(D::Error::custom)),
        }
    }
}

/// Reads a value, with the path to a mistake in the error.
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
