//! Defines `McpAnswer`, one scripted answer of a [`ScriptedMcp`](crate::ScriptedMcp) server.

use serde_json::{Value, json};

/// The response of a scripted server to a tool call, a resource read or a prompt request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum McpAnswer {
    /// A result in the form of the protocol: an object with `content`, `structuredContent` and
    /// `isError` for a tool, with `contents` for a resource, and with `messages` for a prompt.
    Result(Value),
    /// A JSON-RPC error with its code and message.
    Error(i32, String),
    /// Raw bytes that are sent unchanged, such as half of a message.
    Raw(Vec<u8>),
    /// No answer. The connection stays open.
    Silence,
    /// No answer. The server closes the connection.
    HangUp,
    /// Progress notifications, followed by the answer.
    Progress(Vec<Value>, Box<McpAnswer>),
    /// A notification that the tool list has changed to these tools, followed by the answer.
    NewTools(Vec<Value>, Box<McpAnswer>),
    /// A notification that the resource list has changed to these resources, followed by the
    /// answer.
    NewResources(Vec<Value>, Box<McpAnswer>),
    /// A notification that the prompt list has changed to these prompts, followed by the answer.
    NewPrompts(Vec<Value>, Box<McpAnswer>),
    /// An elicitation with these parameters. The answer is sent after the client has replied to it.
    Asks(Value, Box<McpAnswer>),
}

impl McpAnswer {
    /// Creates a result with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text.into()}]}))
    }

    /// Creates a result with a structured value and the same value as JSON text.
    pub fn structured(value: Value) -> Self {
        Self::Result(
            json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value}),
        )
    }

    /// Creates the contents of a resource: one plain text.
    pub fn contents(uri: &str, text: impl Into<String>) -> Self {
        Self::Result(
            json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text.into()}]}),
        )
    }

    /// Creates a prompt with one message of the user.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::Result(
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": text.into()}}]}),
        )
    }

    /// Sends an elicitation first and this answer after the reply. The form has these properties,
    /// and all of them are required.
    #[must_use]
    pub fn after_asking(self, message: &str, properties: Value) -> Self {
        let required: Vec<&String> =
            properties.as_object().into_iter().flat_map(|all| all.keys()).collect();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        Self::Asks(
            json!({"mode": "form", "message": message, "requestedSchema": schema}),
            Box::new(self),
        )
    }
}
