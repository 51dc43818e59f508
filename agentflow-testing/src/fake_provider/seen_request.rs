//! Parses requests of each wire format into turns with their authors, tool calls and results.
//!
//! `request_rules.rs` checks the turns.

use serde_json::Value;

use super::ProviderFormat;

/// A turn of a conversation.
pub(super) struct SeenTurn {
    pub(super) speaker: Speaker,
    /// Location in the request body, in the notation of the provider.
    pub(super) at: String,
    /// `true` if the turn has no content at all: no text, file, call, result or other part.
    pub(super) is_empty: bool,
    pub(super) calls: Vec<SeenCall>,
    pub(super) results: Vec<SeenResult>,
}

/// The author of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    System,
    User,
    Model,
    Tool,
}

/// A call to a tool.
pub(super) struct SeenCall {
    pub(super) at: String,
    /// Id of the call. Empty in a format without required ids.
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments, or `None` if they are a string that is not JSON.
    pub(super) arguments: Option<Value>,
}

/// The result of a call.
pub(super) struct SeenResult {
    pub(super) at: String,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) value: Value,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items<'a>(value: &'a Value, at: &str) -> Vec<(String, &'a Value)> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().enumerate().map(|(number, item)| (format!("{at}[{number}]"), item)).collect()
}

/// Returns `true` if the content has no item and no visible character.
fn is_empty(content: &Value) -> bool {
    match content {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(parts) => parts.is_empty(),
        _ => true,
    }
}

impl SeenTurn {
    fn new(speaker: Speaker, at: String, is_empty: bool) -> Self {
        Self { speaker, at, is_empty, calls: Vec::new(), results: Vec::new() }
    }

    /// Parses the turns of a request.
    pub(super) fn all(format: ProviderFormat, body: &Value) -> Vec<Self> {
        match format {
            ProviderFormat::OpenAiChat => items(&body["messages"], "messages")
                .into_iter()
                .map(|(at, message)| parse_chat(at, message))
                .collect(),
            ProviderFormat::OpenAiResponses => parse_responses(&body["input"]),
            ProviderFormat::Anthropic => items(&body["messages"], "messages")
                .into_iter()
                .map(|(at, message)| parse_anthropic(at, message))
                .collect(),
            ProviderFormat::Gemini => items(&body["contents"], "contents")
                .into_iter()
                .map(|(at, turn)| parse_gemini(at, turn))
                .collect(),
        }
    }
}

fn parse_chat(at: String, message: &Value) -> SeenTurn {
    let speaker = match message["role"].as_str() {
        Some("system" | "developer") => Speaker::System,
        Some("assistant") => Speaker::Model,
        Some("tool") => Speaker::Tool,
        _ => Speaker::User,
    };
    // This format allows an empty string, but not a missing one.
    let is_missing = message["content"].is_null() && message["refusal"].is_null();
    let mut turn = SeenTurn::new(speaker, at, is_missing);
    for (at, call) in items(&message["tool_calls"], &format!("{}.tool_calls", turn.at)) {
        let function = &call["function"];
        // `?` is not JSON, so missing arguments are reported like malformed ones.
        let arguments = serde_json::from_str(function["arguments"].as_str().unwrap_or("?")).ok();
        turn.calls.push(SeenCall {
            at,
            id: text(&call["id"]),
            name: text(&function["name"]),
            arguments,
        });
    }
    if speaker == Speaker::Tool {
        let (at, id) = (turn.at.clone(), text(&message["tool_call_id"]));
        turn.results.push(SeenResult {
            at,
            id,
            name: String::new(),
            value: message["content"].clone(),
        });
    }
    turn.is_empty &= turn.calls.is_empty();
    turn
}

/// Parses turns from items. Consecutive items of one author form a turn.
fn parse_responses(input: &Value) -> Vec<SeenTurn> {
    let mut turns: Vec<SeenTurn> = Vec::new();
    if input.is_string() {
        turns.push(SeenTurn::new(Speaker::User, "input".to_owned(), is_empty(input)));
    }
    for (at, item) in items(input, "input") {
        let speaker = match (item["type"].as_str(), item["role"].as_str()) {
            (None | Some("message"), Some("system" | "developer")) => Speaker::System,
            (None | Some("message"), Some("user")) => Speaker::User,
            (Some("function_call_output" | "custom_tool_call_output"), _) => Speaker::Tool,
            _ => Speaker::Model,
        };
        if turns.last().is_none_or(|last| last.speaker != speaker) {
            turns.push(SeenTurn::new(speaker, at.clone(), false));
        }
        let Some(turn) = turns.last_mut() else { continue };
        match item["type"].as_str() {
            Some("function_call") => {
                let arguments =
                    serde_json::from_str(item["arguments"].as_str().unwrap_or("?")).ok();
                turn.calls.push(SeenCall {
                    at,
                    id: text(&item["call_id"]),
                    name: text(&item["name"]),
                    arguments,
                });
            }
            // The input of a custom tool is free text, so there are no JSON arguments to check.
            Some("custom_tool_call") => {
                let arguments = Some(Value::Object(serde_json::Map::new()));
                turn.calls.push(SeenCall {
                    at,
                    id: text(&item["call_id"]),
                    name: text(&item["name"]),
                    arguments,
                });
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                let value = item["output"].clone();
                turn.results.push(SeenResult {
                    at,
                    id: text(&item["call_id"]),
                    name: String::new(),
                    value,
                });
            }
            None | Some("message") => turn.is_empty |= item["content"].is_null(),
            Some(_) => {}
        }
    }
    turns
}

fn parse_anthropic(at: String, message: &Value) -> SeenTurn {
    let content = &message["content"];
    let is_model = message["role"] == "assistant";
    let mut turn =
        SeenTurn::new(if is_model { Speaker::Model } else { Speaker::User }, at, is_empty(content));
    for (at, block) in items(content, &format!("{}.content", turn.at)) {
        match block["type"].as_str() {
            Some("text") => turn.is_empty |= is_empty(&block["text"]),
            Some("tool_use") => {
                let arguments = Some(block["input"].clone());
                turn.calls.push(SeenCall {
                    at,
                    id: text(&block["id"]),
                    name: text(&block["name"]),
                    arguments,
                });
            }
            Some("tool_result") => {
                let (id, value) = (text(&block["tool_use_id"]), block["content"].clone());
                turn.results.push(SeenResult { at, id, name: String::new(), value });
            }
            _ => {}
        }
    }
    turn
}

fn parse_gemini(at: String, content: &Value) -> SeenTurn {
    let is_model = content["role"] == "model";
    let mut turn = SeenTurn::new(
        if is_model { Speaker::Model } else { Speaker::User },
        at,
        is_empty(&content["parts"]),
    );
    for (at, part) in items(&content["parts"], &format!("{}.parts", turn.at)) {
        if let Some(call) = part.get("functionCall") {
            let arguments = Some(call["args"].clone());
            turn.calls.push(SeenCall {
                at,
                id: text(&call["id"]),
                name: text(&call["name"]),
                arguments,
            });
        } else if let Some(result) = part.get("functionResponse") {
            let (id, name) = (text(&result["id"]), text(&result["name"]));
            turn.results.push(SeenResult { at, id, name, value: result["response"].clone() });
        }
    }
    turn
}
