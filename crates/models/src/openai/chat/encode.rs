//! Encodes the neutral conversation as the body of a request.
//!
//! Each message and the tools are encoded once and cached. A request concatenates these bytes.

use std::borrow::Cow;
use std::sync::Arc;

use agentflow_core::message::{Media, Message, Part, Reasoning, Role, ToolCall, ToolResult};
use agentflow_core::model::{
    ModelError, ModelErrorKind, ModelRequest, ModelSettings, OutputSchema, ToolChoice,
};
use agentflow_core::tool::ToolDefinition;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::PROVIDER;
use crate::openai::fields::{Fields, refuse_extra, write};
use crate::openai::strict_schema::strict;
use crate::sent_call::{arguments, as_text, identifier, tool_name};

/// Fields that the host may not set: other values would make the response unreadable.
const OURS: [&str; 3] = ["messages", "stream", "tools"];

/// Maximum length of a call id that OpenAI accepts.
const MAX_ID: usize = 40;

/// Encodes the whole body. `format` is the cache key of the encoded pieces: it names the inputs on
/// which they depend.
pub(super) fn body(
    model: &str,
    format: &str,
    official: bool,
    request: &ModelRequest,
) -> Result<Vec<u8>, ModelError> {
    let extra = request.settings.get_extra();
    refuse_extra(extra, &OURS)?;
    if request.output.is_some() {
        refuse_extra(extra, &["response_format"])?;
    }
    let mut out = b"{\"messages\":[".to_vec();
    request
        .messages
        .encode_into(&mut out, format, |message| encoded_message(message, model, official));
    out.push(b']');
    if !request.tools.is_empty() {
        out.extend_from_slice(b",\"tools\":");
        out.extend_from_slice(&request.tools.encoded(format, encoded_tools));
    }
    let mut fields = Fields::new(out, extra);
    if request.stream {
        fields.put("stream", &true);
        fields.put("stream_options", &serde_json::json!({"include_usage": true}));
    }
    fields.put("model", &model);
    settings(&mut fields, &request.settings, official, !request.tools.is_empty());
    if let Some(output) = &request.output {
        fields.put("response_format", &response_format(output)?);
    }
    Ok(fields.finish(&[]))
}

fn response_format(output: &OutputSchema) -> Result<Value, ModelError> {
    let schema = strict(&output.schema)
        .map_err(|problem| ModelError::new(ModelErrorKind::BadRequest, problem))?
        .schema;
    Ok(serde_json::json!({
        "type": "json_schema",
        "json_schema": {"name": &*output.name, "schema": schema, "strict": true},
    }))
}

fn settings(fields: &mut Fields<'_>, settings: &ModelSettings, official: bool, tools: bool) {
    let (temperature, top_p) = (&settings.get_temperature(), &settings.get_top_p());
    let (max_tokens, seed) = (&settings.get_max_tokens(), &settings.get_seed());
    let (stop, tool_choice) = (settings.get_stop(), settings.get_tool_choice());
    if let Some(temperature) = temperature {
        fields.put("temperature", temperature);
    }
    if let Some(top_p) = top_p {
        fields.put("top_p", top_p);
    }
    if let Some(max_tokens) = max_tokens {
        // OpenAI's reasoning models refuse `max_tokens`, and most other servers do not know
        // `max_completion_tokens`.
        let (ours, other) = ("max_completion_tokens", "max_tokens");
        let (ours, other) = if official { (ours, other) } else { (other, ours) };
        if !settings.get_extra().contains_key(other) {
            fields.put(ours, max_tokens);
        }
    }
    if let Some(seed) = seed {
        fields.put("seed", seed);
    }
    if !stop.is_empty() {
        fields.put("stop", stop);
    }
    // Servers refuse a tool choice without tools.
    if let Some(choice) = tool_choice.filter(|_| tools) {
        match choice {
            ToolChoice::None => fields.put("tool_choice", &"none"),
            ToolChoice::Required => fields.put("tool_choice", &"required"),
            ToolChoice::Tool(name) => {
                fields.put(
                    "tool_choice",
                    &serde_json::json!({"type": "function", "function": {"name": name}}),
                );
            }
            _ => fields.put("tool_choice", &"auto"),
        }
    }
}

fn encoded_tools(definitions: &[Arc<ToolDefinition>]) -> Vec<u8> {
    let tools: Vec<WireTool<'_>> = definitions
        .iter()
        .map(|tool| WireTool {
            kind: "function",
            function: WireToolFunction {
                name: &tool.name,
                description: Some(&*tool.description).filter(|text| !text.is_empty()),
                parameters: &tool.parameters,
            },
        })
        .collect();
    let mut out = Vec::new();
    write(&mut out, &tools);
    out
}

/// Encodes one message as zero or more objects, separated by commas.
fn encoded_message(message: &Message, model: &str, official: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |wire: &WireMessage<'_>| {
        if !out.is_empty() {
            out.push(b',');
        }
        write(&mut out, wire);
    };
    for result in message.results() {
        put(&WireMessage {
            content: Some(ChatContent::Text(result_text(result))),
            tool_call_id: Some(call_id(&result.call_id, official)),
            ..WireMessage::new("tool")
        });
    }
    match message.role() {
        Role::Assistant => put(&assistant(message, model, official)),
        Role::System => {
            put(&WireMessage { content: content(message, false), ..WireMessage::new("system") });
        }
        // Only the results fit into tool messages, so other content of the message is sent as a
        // user message.
        role => {
            let content = content(message, true);
            if content.is_some() || role != Role::Tool && message.results().next().is_none() {
                let content = content.or(Some(ChatContent::Text(Cow::Borrowed(""))));
                put(&WireMessage { content, ..WireMessage::new("user") });
            }
        }
    }
    out
}

fn assistant<'a>(message: &'a Message, model: &str, official: bool) -> WireMessage<'a> {
    let text = message.text();
    let calls: Vec<_> = message.tool_calls().map(|call| wire_call(call, model, official)).collect();
    let mut wire = WireMessage::new("assistant");
    wire.content = match text.is_empty() && !calls.is_empty() {
        true => None,
        false => Some(ChatContent::Text(text)),
    };
    wire.tool_calls = calls;
    let opaque = own_reasoning(message, model).find_map(|reasoning| reasoning.opaque.as_deref());
    if let Some(opaque) = opaque {
        wire.reasoning_details = opaque.get("reasoning_details");
        if opaque.get("reasoning_content").is_some() {
            wire.reasoning_content = Some(
                own_reasoning(message, model).map(|reasoning| reasoning.text.as_str()).collect(),
            );
        }
    }
    wire
}

/// Returns the reasoning that this model created in this wire format. Other reasoning is not sent.
fn own_reasoning<'a>(message: &'a Message, model: &str) -> impl Iterator<Item = &'a Reasoning> {
    message.parts().iter().filter_map(move |part| match part {
        Part::Reasoning(reasoning)
            if reasoning.provider == PROVIDER.name && reasoning.model == model =>
        {
            Some(reasoning)
        }
        _ => None,
    })
}

fn wire_call<'a>(call: &'a ToolCall, model: &str, official: bool) -> WireCall<'a> {
    let own = call
        .opaque
        .as_deref()
        .filter(|opaque| opaque["provider"] == PROVIDER.name && opaque["model"] == model);
    WireCall {
        id: call_id(&call.id, official),
        kind: "function",
        function: WireFunction { name: tool_name(&call.name), arguments: arguments(call) },
        extra_content: own.and_then(|opaque| opaque.get("extra_content")),
    }
}

/// Returns the id of a call as it is sent. OpenAI limits its length. Other servers may store data
/// in the id, so it is unchanged for them.
fn call_id(id: &str, official: bool) -> Cow<'_, str> {
    if official { identifier(id, MAX_ID) } else { Cow::Borrowed(id) }
}

/// Returns the text of a result. The format has no field for a status, so the text of a failure
/// contains it.
fn result_text(result: &ToolResult) -> Cow<'_, str> {
    match result.status.is_success() {
        true => result.text_beside(|_| false),
        false => Cow::Owned(format!("Error ({}): {}", result.status, result.output)),
    }
}

/// Returns the text and, if `media` is set, the files of a message. Returns `None` if the message
/// has neither.
fn content(message: &Message, media: bool) -> Option<ChatContent<'_>> {
    let mut parts = message.parts().iter().filter_map(|part| match part {
        Part::Text { text } => Some(WirePart::Text { text: Cow::Borrowed(text) }),
        Part::Media(file) if media => Some(wire_media(file)),
        Part::Media(file) => {
            Some(WirePart::Text { text: Cow::Owned(format!("[{} left out]", file.mime_type)) })
        }
        _ => None,
    });
    let first = parts.next()?;
    match (first, parts.next()) {
        // Many servers accept a list only where it is necessary.
        (WirePart::Text { text }, None) => Some(ChatContent::Text(text)),
        (first, second) => {
            Some(ChatContent::Parts([first].into_iter().chain(second).chain(parts).collect()))
        }
    }
}

fn wire_media(file: &Media) -> WirePart<'_> {
    if file.mime_type.starts_with("image/") {
        return WirePart::ImageUrl { image_url: ImageUrl { url: &file.url } };
    }
    let format = match &*file.mime_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    };
    match (format, file.url.split_once(";base64,")) {
        (Some(format), Some((_, data))) => {
            WirePart::InputAudio { input_audio: InputAudio { data, format } }
        }
        // OpenAI's format does not support files by URL. Servers that support them accept the URL
        // here; others refuse the request.
        _ => WirePart::File {
            file: File { file_data: &file.url, filename: file.name.as_deref().unwrap_or("file") },
        },
    }
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireToolFunction<'a>,
}

#[derive(Serialize)]
struct WireToolFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: &'a Value,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    /// `null` if the response consists of tool calls only.
    content: Option<ChatContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
}

impl WireMessage<'_> {
    fn new(role: &'static str) -> Self {
        Self {
            role,
            content: None,
            reasoning_content: None,
            reasoning_details: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum ChatContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
    InputAudio { input_audio: InputAudio<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: &'a str,
}

#[derive(Serialize)]
struct InputAudio<'a> {
    data: &'a str,
    format: &'static str,
}

#[derive(Serialize)]
struct File<'a> {
    file_data: &'a str,
    filename: &'a str,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: Cow<'a, str>,
    #[serde(serialize_with = "as_text")]
    arguments: Cow<'a, RawValue>,
}
