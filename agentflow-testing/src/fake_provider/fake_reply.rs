//! Defines `FakeReply`, an answer of a fake provider, and its encoding in each wire format.

use serde::Serialize;
use serde_json::{Value, json};

use super::ProviderFormat;

/// An answer of a [`FakeProvider`](super::FakeProvider): text, tool calls, or both.
///
/// ```
/// use agentflow_testing::FakeReply;
/// use serde_json::json;
///
/// let reply = FakeReply::call("weather", json!({"city": "Oslo"})).and_call("weather", json!({"city": "Rome"}));
/// # let _ = reply;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a reply does nothing until a provider sends it"]
pub struct FakeReply {
    text: String,
    /// Tool calls with names and arguments.
    calls: Vec<FakeCall>,
}

#[derive(Clone, Debug)]
struct FakeCall {
    name: String,
    arguments: Value,
}

impl FakeReply {
    /// Creates a text reply.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), calls: Vec::new() }
    }

    /// Creates a reply with a tool call. The tool need not exist.
    ///
    /// # Panics
    /// If the arguments have no JSON form.
    pub fn call(tool: impl Into<String>, arguments: impl Serialize) -> Self {
        Self::default().and_call(tool, arguments)
    }

    /// Adds a tool call. Formats that encode arguments as a string send a string value unchanged,
    /// so it may be invalid JSON.
    ///
    /// # Panics
    /// If the arguments have no JSON form.
    pub fn and_call(mut self, tool: impl Into<String>, arguments: impl Serialize) -> Self {
        let arguments = serde_json::to_value(arguments).expect("arguments with a JSON form");
        self.calls.push(FakeCall { name: tool.into(), arguments });
        self
    }

    /// Returns the body of an answer that is not streamed. `turn` makes the ids of its calls unique.
    pub(super) fn whole(&self, format: ProviderFormat, turn: usize) -> Value {
        let calls = self.calls.iter();
        let id = |at: usize| format!("call_{turn}_{at}");
        match format {
            ProviderFormat::OpenAiChat => {
                let reason = if self.calls.is_empty() { "stop" } else { "tool_calls" };
                json!({"id": format!("chatcmpl-{turn}"), "object": "chat.completion", "model": "fake",
                    "choices": [{"index": 0, "message": self.chat_message(turn), "finish_reason": reason}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
            }
            ProviderFormat::OpenAiResponses => {
                let text = json!({"type": "message", "id": format!("msg_{turn}"), "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": self.text, "annotations": []}]});
                let calls = calls.enumerate().map(|(at, call)| {
                    json!({"type": "function_call", "id": format!("fc_{turn}_{at}"), "call_id": id(at), "name": call.name,
                        "arguments": call.arguments_text(), "status": "completed"})
                });
                let output: Vec<Value> =
                    (!self.text.is_empty()).then_some(text).into_iter().chain(calls).collect();
                json!({"id": format!("resp_{turn}"), "object": "response", "model": "fake", "status": "completed",
                    "output": output, "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}})
            }
            ProviderFormat::Anthropic => {
                let reason = if self.calls.is_empty() { "end_turn" } else { "tool_use" };
                let calls = calls.enumerate().map(
                    |(at, call)| json!({"type": "tool_use", "id": id(at), "name": call.name, "input": call.arguments}),
                );
                let text =
                    (!self.text.is_empty()).then(|| json!({"type": "text", "text": self.text}));
                json!({"id": format!("msg_{turn}"), "type": "message", "role": "assistant", "model": "fake",
                    "content": text.into_iter().chain(calls).collect::<Vec<Value>>(), "stop_reason": reason,
                    "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
            }
            ProviderFormat::Gemini => {
                let calls = calls.map(
                    |call| json!({"functionCall": {"name": call.name, "args": call.arguments}}),
                );
                let text = (!self.text.is_empty()).then(|| json!({"text": self.text}));
                let parts: Vec<Value> = text.into_iter().chain(calls).collect();
                json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
                    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
                    "modelVersion": "fake"})
            }
        }
    }

    fn chat_message(&self, turn: usize) -> Value {
        let calls: Vec<Value> = self
            .calls
            .iter()
            .enumerate()
            .map(|(at, call)| {
                json!({"index": at, "id": format!("call_{turn}_{at}"), "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments_text()}})
            })
            .collect();
        let text = if self.text.is_empty() { Value::Null } else { self.text.as_str().into() };
        match calls.is_empty() {
            true => json!({"role": "assistant", "content": text}),
            false => json!({"role": "assistant", "content": text, "tool_calls": calls}),
        }
    }

    /// Returns the body of a streamed answer.
    pub(super) fn events(&self, format: ProviderFormat, turn: usize) -> String {
        let whole = self.whole(format, turn);
        let events = match format {
            ProviderFormat::OpenAiChat => {
                let chunk = |delta: Value, reason: Value| {
                    json!({"id": whole["id"], "object": "chat.completion.chunk", "model": "fake",
                        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
                };
                let usage = json!({"id": whole["id"], "object": "chat.completion.chunk", "model": "fake", "choices": [],
                    "usage": whole["usage"]});
                let end = chunk(json!({}), whole["choices"][0]["finish_reason"].clone());
                vec![chunk(self.chat_message(turn), Value::Null), end, usage]
            }
            ProviderFormat::OpenAiResponses => {
                let output = whole["output"].as_array().cloned().unwrap_or_default();
                let items = output
                    .into_iter()
                    .enumerate()
                    .map(|(at, item)| json!({"type": "response.output_item.done", "output_index": at, "item": item}));
                items.chain([json!({"type": "response.completed", "response": whole})]).collect()
            }
            ProviderFormat::Anthropic => self.anthropic_events(&whole),
            ProviderFormat::Gemini => vec![whole],
        };
        // Only Chat Completions ends its stream with this marker.
        let end = if format == ProviderFormat::OpenAiChat { "data: [DONE]\n\n" } else { "" };
        // Responses and Anthropic name their events. The other formats send only data.
        let named = |event: &Value| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        };
        events.iter().map(named).collect::<String>() + end
    }

    fn anthropic_events(&self, whole: &Value) -> Vec<Value> {
        let mut head = whole.clone();
        // The first event is the message without its content.
        (head["content"], head["stop_reason"]) = (json!([]), Value::Null);
        let mut events = vec![json!({"type": "message_start", "message": head})];
        for (at, block) in whole["content"].as_array().into_iter().flatten().enumerate() {
            let mut start = block.clone();
            let delta = match block["type"].as_str() {
                Some("text") => {
                    start["text"] = "".into();
                    json!({"type": "text_delta", "text": block["text"]})
                }
                _ => {
                    // The arguments follow as JSON text in a delta.
                    start["input"] = json!({});
                    json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
                }
            };
            events
                .push(json!({"type": "content_block_start", "index": at, "content_block": start}));
            events.push(json!({"type": "content_block_delta", "index": at, "delta": delta}));
            events.push(json!({"type": "content_block_stop", "index": at}));
        }
        let delta = json!({"stop_reason": whole["stop_reason"], "stop_sequence": null});
        events
            .push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}));
        events.push(json!({"type": "message_stop"}));
        events
    }
}

impl FakeCall {
    fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}
