//! `McpAnswer`: one answer of a scripted server of the Model Context Protocol. It sends nothing.

use serde_json::{Value, json};

/// What the server does with one call of a tool, one read of a resource or one request for a prompt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum McpAnswer {
    /// A result as the protocol has it: of a tool an object with `content`, `structuredContent` and `isError`, of a resource
    /// one with `contents`, of a prompt one with `messages`.
    Result(Value),
    /// An error of JSON-RPC: its code and its message.
    Error(i32, String),
    /// These bytes and nothing else, such as half of a message.
    Raw(Vec<u8>),
    /// Nothing; the connection stays.
    Silence,
    /// Nothing; the connection ends.
    HangUp,
    /// Words of progress, and then the answer.
    Progress(Vec<Value>, Box<McpAnswer>),
    /// A word that the tools have changed to these, and then the answer.
    NewTools(Vec<Value>, Box<McpAnswer>),
    /// A word that the resources have changed to these, and then the answer.
    NewResources(Vec<Value>, Box<McpAnswer>),
    /// A word that the prompts have changed to these, and then the answer.
    NewPrompts(Vec<Value>, Box<McpAnswer>),
    /// A question to a person, the parameters of an elicitation, and when that is answered the answer.
    Asks(Value, Box<McpAnswer>),
}

impl McpAnswer {
    /// A result of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text.into()}]}))
    }

    /// A result with a structured value, and its JSON as the text.
    pub fn structured(value: Value) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value}))
    }

    /// The contents of a resource: one text.
    pub fn contents(uri: &str, text: impl Into<String>) -> Self {
        Self::Result(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text.into()}]}))
    }

    /// A prompt of one message: what the user says.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::Result(json!({"messages": [{"role": "user", "content": {"type": "text", "text": text.into()}}]}))
    }

    /// The same after a question to a person, whose answer has these properties, all of them required.
    #[must_use]
    pub fn after_asking(self, message: &str, properties: Value) -> Self {
        let required: Vec<&String> = properties.as_object().into_iter().flat_map(|all| all.keys()).collect();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        Self::Asks(json!({"mode": "form", "message": message, "requestedSchema": schema}), Box::new(self))
    }
}
