//! A model request in a provider-neutral form. Cassettes contain requests in this form, and a
//! replay matches requests by it.
//!
//! It omits fields that do not change the meaning of a request: the streaming flag and the source
//! location of tools.

use agentflow::Message;
use agentflow::message::{Part, Role};
use agentflow::model::ModelRequest;
use serde_json::{Map, Value, json};

use super::layout;
use super::scrub::Ready;

/// The comparable content of a model request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) messages: Vec<Value>,
    /// Name, description and parameters of each tool.
    pub(super) tools: Vec<Value>,
    /// Name and schema of the output type.
    pub(super) output: Option<Value>,
    pub(super) settings: Map<String, Value>,
}

impl Asked {
    pub(super) fn new(request: &ModelRequest) -> Self {
        let tools = request.tools.definitions().iter().map(|tool| {
            as_read(json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters}))
        });
        let output = request
            .output
            .as_ref()
            .map(|output| as_read(json!({"name": output.name, "schema": output.schema})));
        let settings = match serde_json::to_value(&*request.settings).map(as_read) {
            Ok(Value::Object(settings)) => settings,
            _ => Map::new(),
        };
        let messages =
            request.messages.messages().iter().map(|message| message_form(message)).collect();
        Self { messages, tools: tools.collect(), output, settings }
    }

    pub(super) fn scrub(&mut self, ready: &Ready) {
        self.messages
            .iter_mut()
            .chain(&mut self.tools)
            .chain(&mut self.output)
            .for_each(|value| ready.value(value));
        let mut settings = Value::Object(std::mem::take(&mut self.settings));
        ready.value(&mut settings);
        if let Value::Object(settings) = settings {
            self.settings = settings;
        }
    }

    /// Returns the lines that a diff shows.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for message in &self.messages {
            lines.extend(layout::lines(message));
        }
        for tool in &self.tools {
            lines.extend(titled("tool", tool));
        }
        lines.extend(self.output.iter().flat_map(|output| titled("output", output)));
        if !self.settings.is_empty() {
            lines.extend(titled("settings", &Value::Object(self.settings.clone())));
        }
        lines
    }
}

/// Returns a value as it is after a round trip through a file, because the last digit of a number
/// may change.
fn as_read(value: Value) -> Value {
    serde_json::from_str(&value.to_string()).unwrap_or(value)
}

fn titled(title: &str, value: &Value) -> Vec<String> {
    let mut lines = layout::lines(value);
    if let Some(first) = lines.first_mut() {
        first.insert_str(0, &format!("{title} "));
    }
    lines
}

/// Returns a message as `{"user": "Hi"}`, or with a list of its parts unless it is a single text.
pub(super) fn message_form(message: &Message) -> Value {
    let role = match message.role() {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        _ => "other",
    };
    let content = match message.parts() {
        [Part::Text { text }] => Value::from(text.as_str()),
        parts => {
            parts.iter().map(|part| serde_json::to_value(part).unwrap_or(Value::Null)).collect()
        }
    };
    json!({role: content})
}
