//! Conversion of messages to the JSON text of OpenTelemetry's GenAI conventions. Only used if the
//! host enabled the recording of contents.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::message::{Conversation, Media, Message, Part, Role};
use crate::model::{ModelResponse, StopReason};
use crate::tool_definition::ToolDefinition;

pub(super) fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Splits a conversation into the instructions at its beginning, if any, and the other messages.
pub(super) fn input(conversation: &Conversation) -> (Option<String>, String) {
    let messages = conversation.messages();
    let first = messages.iter().take_while(|message| message.role() == Role::System).count();
    let (instructions, rest) = messages.split_at(first);
    let instructions: Vec<Value> = instructions.iter().flat_map(|message| parts(message)).collect();
    let rest: Vec<Value> = rest
        .iter()
        .map(|message| json!({"role": role(message.role()), "parts": parts(message)}))
        .collect();
    ((!instructions.is_empty()).then(|| json(&instructions)), json(&rest))
}

/// Converts a response to a list with one message.
pub(super) fn output(response: &ModelResponse) -> String {
    let message = &response.message;
    json(&[json!({
        "role": role(message.role()),
        "parts": parts(message),
        "finish_reason": finish_reason(&response.stop_reason),
    })])
}

pub(super) fn tools(definitions: &[Arc<ToolDefinition>]) -> String {
    let tools: Vec<Value> = definitions
        .iter()
        .map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            })
        })
        .collect();
    json(&tools)
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn finish_reason(reason: &StopReason) -> &str {
    match reason {
        StopReason::ToolCalls => "tool_call",
        other => other.as_str(),
    }
}

fn parts(message: &Message) -> Vec<Value> {
    message.parts().iter().map(part).collect()
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "content": text}),
        Part::Reasoning(reasoning) => json!({"type": "reasoning", "content": reasoning.text}),
        Part::ToolCall(call) => {
            json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": value(&call.arguments)})
        }
        Part::ToolResult(result) => {
            let response = if result.status.is_success() {
                value(&result.output)
            } else {
                json!(result.output)
            };
            json!({"type": "tool_call_response", "id": result.call_id, "response": response})
        }
        Part::Media(media) => file(media),
    }
}

/// Parses JSON text. Other text becomes a JSON string.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// Converts a file. A `data:` URL is recorded as content, any other URL as an address.
fn file(media: &Media) -> Value {
    let kind = media.mime_type.split('/').next().unwrap_or_default();
    let modality = if ["image", "audio", "video"].contains(&kind) { kind } else { "document" };
    match media.url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
        Some((_, content)) => {
            json!({"type": "blob", "modality": modality, "mime_type": media.mime_type, "content": content})
        }
        None => {
            json!({"type": "uri", "modality": modality, "mime_type": media.mime_type, "uri": media.url})
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::{input, output};
    use crate::message::{
        Conversation, Media, Message, Part, Reasoning, Role, ToolCall, ToolResult, ToolStatus,
    };
    use crate::model::ModelResponse;

    #[test]
    fn messages_have_the_form_of_the_conventions() {
        let media = |url: &str| {
            Part::Media(Media { mime_type: "image/png".into(), url: url.into(), name: None })
        };
        let reasoning = Reasoning { text: "Hm.".into(), ..Reasoning::default() };
        let call = ToolCall::new("c1", "add", r#"{"a": 1}"#);
        let result = |status, output: &str| {
            Arc::new(ToolResult::new(&ToolCall::new("c1", "add", ""), status, output))
        };
        let answer = Message::new(
            Role::Assistant,
            [Part::Reasoning(reasoning), Part::ToolCall(call.into())],
        );
        let conversation: Conversation = vec![
            Message::system("Be exact."),
            Message::new(
                Role::User,
                [media("https://h/a.png"), media("data:image/png;base64,AAAA")],
            ),
            answer.clone(),
            Message::tool_results([
                result(ToolStatus::Success, "[2]"),
                result(ToolStatus::Error, "no"),
            ]),
        ]
        .into();
        let (instructions, messages) = input(&conversation);
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&instructions.unwrap()), json!([{"type": "text", "content": "Be exact."}]));
        let parts = json!([
            {"type": "reasoning", "content": "Hm."},
            {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}},
        ]);
        assert_eq!(
            read(&messages),
            json!([
                {"role": "user", "parts": [
                    {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "https://h/a.png"},
                    {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
                ]},
                {"role": "assistant", "parts": parts},
                {"role": "tool", "parts": [
                    {"type": "tool_call_response", "id": "c1", "response": [2]},
                    {"type": "tool_call_response", "id": "c1", "response": "no"},
                ]},
            ])
        );
        let said = read(&output(&ModelResponse::new(answer)));
        assert_eq!(
            said,
            json!([{"role": "assistant", "parts": parts, "finish_reason": "tool_call"}])
        );
    }
}
