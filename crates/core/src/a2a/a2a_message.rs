//! `A2aMessage`: what is said between a client and an agent. It sends nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::a2a_part::{A2aPart, text_of};
use super::lenient;

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum A2aRole {
    /// The client.
    #[serde(rename = "ROLE_USER", alias = "user")]
    User,
    /// The agent.
    #[serde(rename = "ROLE_AGENT", alias = "agent")]
    Agent,
}

/// A message of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aMessage {
    /// Its sender's name for it; a server may know by it that it got the message before.
    #[serde(deserialize_with = "lenient::named")]
    pub message_id: String,
    /// The conversation that it belongs to.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The task that it continues.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Who says it.
    pub role: A2aRole,
    /// Its parts, at least one.
    pub parts: Vec<A2aPart>,
    /// What else its sender says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The extensions of the protocol that it uses.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Tasks that it refers to.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub reference_task_ids: Vec<String>,
}

impl A2aMessage {
    /// A message of the client, with a new id.
    pub fn user(parts: impl IntoIterator<Item = A2aPart>) -> Self {
        Self::new(A2aRole::User, parts)
    }

    /// A text of the client, with a new id.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self::user([A2aPart::text(text)])
    }

    /// A message with a new id.
    pub fn new(role: A2aRole, parts: impl IntoIterator<Item = A2aPart>) -> Self {
        Self {
            message_id: format!("{:032x}", fastrand::u128(..)),
            context_id: None,
            task_id: None,
            role,
            parts: parts.into_iter().collect(),
            metadata: None,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// Gives it an id of the caller's. A server may answer a message with an id that it knows as the first time.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.message_id = id.into();
        self
    }

    /// Makes it one of a conversation that the server named.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.context_id = Some(context.into());
        self
    }

    /// Makes it the next one of a task that waits for input.
    #[must_use]
    pub fn task(mut self, task: impl Into<String>) -> Self {
        self.task_id = Some(task.into());
        self
    }

    /// All its texts, in lines.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}
