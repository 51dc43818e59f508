//! `A2aMessage`: a message between a client and an agent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::a2a_part::{A2aPart, text_of};
use super::lenient;

/// Sender of a message.
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

/// A message between a client and an agent.
///
/// ```
/// use agentflow::a2a::{A2aMessage, A2aPart};
/// use agentflow::serde_json::json;
///
/// let parts = [A2aPart::text("Check this order."), A2aPart::data(json!({"order": 17}))];
/// let message = A2aMessage::user(parts).context("support-3");
/// assert_eq!(message.text(), "Check this order.");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aMessage {
    /// Identifier chosen by the sender. A server may use it to recognize a message that was sent
    /// twice.
    #[serde(deserialize_with = "lenient::named")]
    pub message_id: String,
    /// Identifier of the conversation (A2A: context) that the message belongs to.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub context_id: Option<String>,
    /// Identifier of the task that the message continues.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub task_id: Option<String>,
    /// Sender of the message.
    pub role: A2aRole,
    /// Contents of the message, at least one part.
    pub parts: Vec<A2aPart>,
    /// Additional fields set by the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// URIs of the protocol extensions that the message uses.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub extensions: Vec<String>,
    /// Identifiers of tasks that the message refers to.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub reference_task_ids: Vec<String>,
}

impl A2aMessage {
    /// Creates a message from the client, with a new random id.
    pub fn user(parts: impl IntoIterator<Item = A2aPart>) -> Self {
        Self::new(A2aRole::User, parts)
    }

    /// Creates a text message from the client, with a new random id.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self::user([A2aPart::text(text)])
    }

    /// Creates a message with a new random id.
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

    /// Sets the id of the message. A server may recognize a known id and return its first response
    /// again.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.message_id = id.into();
        self
    }

    /// Adds the message to an existing conversation, by the context id that the server assigned.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.context_id = Some(context.into());
        self
    }

    /// Makes the message the next input of a task that waits for input.
    #[must_use]
    pub fn task(mut self, task: impl Into<String>) -> Self {
        self.task_id = Some(task.into());
        self
    }

    /// Returns the text of all parts, one per line.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}
