//! Encodes the neutral conversation as the body of a Responses request.
//!
//! [`body`] writes the messages as `input` items, then the tools, the settings and the output
//! schema. Each message and the list of tools are encoded once and cached under the name of the
//! [`Format`]; a request concatenates these bytes. Fields that would make the response unreadable
//! are refused in `ModelSettings::extra`.

use std::borrow::Cow;
use std::sync::Arc;

use agentflow_core::message::{Media, Message, Part, Reasoning, Role, ToolCall, ToolResult};
use agentflow_core::model::{
    ModelError, ModelErrorKind, ModelRequest, ModelSettings, OutputSchema, ToolChoice,
};
use agentflow_core::tool::ToolDefinition;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::PROVIDER;
use crate::openai::fields::{Fields, refuse_extra, write};
use crate::openai::strict_schema::strict;
use crate::sent_call::{arguments, as_text, identifier, tool_name};

/// Fields that the host may not set: other values would make the response unreadable.
const OURS: [&str; 2] = ["input", "stream"];

/// Requests reasoning in a form that can be sent back although the provider stores nothing.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// Maximum length of a call id that OpenAI accepts.
const MAX_ID: usize = 64;

/// The inputs on which the encoded pieces of a conversation depend. `name` is the cache key, which
/// identifies all of them.
pub(super) struct Format {
    pub(super) name: String,
    pub(super) model: Arc<str>,
    /// `true` if the server is OpenAI's.
    pub(super) official: bool,
}

/// Encodes the whole body.
pub(super) fn body(format: &Format, request: &ModelRequest) -> Result<Vec<u8>, ModelError> {
    let extra = request.settings.get_extra();
    refuse_extra(extra, &OURS)?;
    let mut out = Vec::with_capacity(1024 + 256 * request.messages.len());
    out.extend_from_slice(b"{\"input\":[");
    let first = out.len();
    let messages = request.messages.messages();
    for (at, message) in messages.iter().enumerate() {
        // The encoding of a result depends on the earlier call, which never changes. So it can be
        // cached.
        let encoded = message
            .encoded(&format.name, |message| encoded_message(message, &messages[..at], format));
        if !encoded.is_empty() {
            if out.len() > first {
                out.push(b',');
            }
            out.extend_from_slice(&encoded);
        }
    }
    out.push(b']');
    tools(&mut out, format, request)?;
    let mut fields = Fields::new(out, extra);
    if request.stream {
        fields.put("stream", &true);
    }
    fields.put("model", &*format.model);
    // The conversation is sent in full, so the provider need not store it.
    fields.put("store", &false);
    if reasons(&format.model) {
        fields.put("include", &[ENCRYPTED]);
    }
    settings(&mut fields, &request.settings, !request.tools.is_empty())?;
    if let Some(output) = &request.output {
        fields.write("text", &text(output, extra.get("text"))?);
    }
    Ok(fields.finish(if request.output.is_some() { &["tools", "text"] } else { &["tools"] }))
}

/// Returns true if a model may support reasoning. Models without reasoning refuse the request for
/// encrypted reasoning.
fn reasons(model: &str) -> bool {
    let model = model.strip_prefix("ft:").unwrap_or(model);
    !["gpt-4", "gpt-3", "chatgpt-", "gpt-5-chat"].iter().any(|prefix| model.starts_with(prefix))
}

/// Writes the tools, followed by the provider's tools that the host adds in `extra`.
fn tools(out: &mut Vec<u8>, format: &Format, request: &ModelRequest) -> Result<(), ModelError> {
    let more = match request.settings.get_extra().get("tools") {
        None => &[][..],
        Some(Value::Array(more)) => more,
        Some(_) => {
            return Err(refused("`tools` in `ModelSettings::extra` must be a list".to_owned()));
        }
    };
    if request.tools.is_empty() && more.is_empty() {
        return Ok(());
    }
    out.extend_from_slice(b",\"tools\":[");
    if !request.tools.is_empty() {
        out.extend_from_slice(&request.tools.encoded(&format.name, encoded_tools));
    }
    for (at, tool) in more.iter().enumerate() {
        if at > 0 || !request.tools.is_empty() {
            out.push(b',');
        }
        write(out, tool);
    }
    out.push(b']');
    Ok(())
}

fn settings(
    fields: &mut Fields<'_>,
    settings: &ModelSettings,
    tools: bool,
) -> Result<(), ModelError> {
    // The format has no seed.
    let (temperature, top_p, max_tokens) =
        (&settings.get_temperature(), &settings.get_top_p(), &settings.get_max_tokens());
    let (stop, tool_choice) = (settings.get_stop(), settings.get_tool_choice());
    if let Some(temperature) = temperature {
        fields.put("temperature", temperature);
    }
    if let Some(top_p) = top_p {
        fields.put("top_p", top_p);
    }
    if let Some(max_tokens) = max_tokens {
        fields.put("max_output_tokens", max_tokens);
    }
    if !stop.is_empty() {
        return Err(refused(
            "the Responses wire format has no stop texts; remove them or use the model by `openai-chat/`".to_owned(),
        ));
    }
    // The service refuses a tool choice without tools.
    if let Some(choice) = tool_choice.filter(|_| tools) {
        match choice {
            ToolChoice::Auto => fields.put("tool_choice", "auto"),
            ToolChoice::None => fields.put("tool_choice", "none"),
            ToolChoice::Required => fields.put("tool_choice", "required"),
            ToolChoice::Tool(name) => {
                fields.put("tool_choice", &json!({"type": "function", "name": name}));
            }
            other => {
                return Err(refused(format!(
                    "the Responses wire format has no tool choice `{other:?}`"
                )));
            }
        }
    }
    Ok(())
}

/// Returns the field `text` with the schema of the answer, merged with the host's `text`.
fn text(output: &OutputSchema, extra: Option<&Value>) -> Result<Value, ModelError> {
    let mut text = match extra {
        None => Map::new(),
        Some(Value::Object(text)) if !text.contains_key("format") => text.clone(),
        Some(_) => {
            return Err(refused(
                "`text.format` cannot be set by `ModelSettings::extra` for a typed answer"
                    .to_owned(),
            ));
        }
    };
    let schema = strict(&output.schema).map_err(refused)?.schema;
    text.insert(
        "format".to_owned(),
        json!({"type": "json_schema", "name": &*output.name, "schema": schema, "strict": true}),
    );
    Ok(text.into())
}

fn refused(problem: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, problem)
}

/// Encodes the tools, separated by commas. A tool uses strict mode if its schema fits strict mode
/// without changes.
fn encoded_tools(definitions: &[Arc<ToolDefinition>]) -> Vec<u8> {
    let mut out = Vec::new();
    for tool in definitions {
        let parameters = strict(&tool.parameters).ok().filter(|strict| !strict.nulled);
        if !out.is_empty() {
            out.push(b',');
        }
        write(
            &mut out,
            &WireTool {
                kind: "function",
                name: &tool.name,
                description: Some(&*tool.description).filter(|text| !text.is_empty()),
                strict: parameters.is_some(),
                parameters: parameters.as_ref().map_or(&tool.parameters, |strict| &strict.schema),
            },
        );
    }
    out
}

/// Encodes one message as zero or more items, separated by commas. `before` contains the earlier
/// messages.
fn encoded_message(message: &Message, before: &[Arc<Message>], format: &Format) -> Vec<u8> {
    let mut out = Items(Vec::new());
    for result in message.results() {
        let custom = before
            .iter()
            .rev()
            .flat_map(|message| message.tool_calls())
            .find(|call| call.id == result.call_id);
        out.put(&WireItem::Result {
            kind: match custom.is_some_and(|call| own_item(call).is_some_and(is_custom)) {
                true => "custom_tool_call_output",
                false => "function_call_output",
            },
            call_id: call_id(&result.call_id, format),
            output: result_content(result),
        });
    }
    match message.role() {
        Role::Assistant => assistant(&mut out, message, format),
        Role::System => {
            if let Some(content) = content(message, false) {
                out.message("system", content);
            }
        }
        // Only the results fit into tool messages, so other content of the message is sent as a
        // user message.
        role => {
            let content = content(message, true);
            if content.is_some() || role != Role::Tool && message.results().next().is_none() {
                out.message("user", content.unwrap_or(InputContent::Text("")));
            }
        }
    }
    out.0
}

struct Items(Vec<u8>);

impl Items {
    fn put(&mut self, item: &impl Serialize) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        write(&mut self.0, item);
    }

    fn message(&mut self, role: &'static str, content: InputContent<'_>) {
        self.put(&WireItem::Message { kind: "message", role, content, phase: None });
    }
}

/// Writes the parts of a response in order. Reasoning of other models is omitted.
fn assistant(out: &mut Items, message: &Message, format: &Format) {
    let parts = message.parts();
    let is_answer = |part: &Part| match part {
        Part::Reasoning(reasoning) => {
            own_opaque(reasoning, format).is_some_and(|item| item["type"] != "reasoning")
        }
        Part::Text { .. } | Part::ToolCall(_) => true,
        _ => false,
    };
    // The service refuses reasoning that is not followed by other output.
    let end = parts.iter().rposition(is_answer).map_or(0, |last| last + 1);
    let mut phase = None;
    for part in &parts[..end] {
        match part {
            Part::Reasoning(reasoning) => match own_opaque(reasoning, format) {
                Some(item) if item["type"] == "message" => phase = item["phase"].as_str(),
                Some(item) => out.put(item),
                None => {}
            },
            Part::Text { text } if text.is_empty() => {}
            Part::Text { text } => {
                let content = InputContent::Text(text);
                out.put(&WireItem::Message {
                    kind: "message",
                    role: "assistant",
                    content,
                    phase: phase.take(),
                });
            }
            Part::ToolCall(call) => out.put(&wire_call(call, format)),
            _ => {}
        }
    }
}

/// Returns the opaque item, if this model created it and it must be sent back.
fn own_opaque<'a>(reasoning: &'a Reasoning, format: &Format) -> Option<&'a Value> {
    let item = reasoning.opaque.as_deref()?;
    let own = reasoning.provider == PROVIDER.name && reasoning.model == *format.model;
    // Without the encrypted content, OpenAI would look up the item by its id, but it was not
    // stored.
    let lost =
        format.official && item["type"] == "reasoning" && !item["encrypted_content"].is_string();
    (own && !lost).then_some(item)
}

fn own_item(call: &ToolCall) -> Option<&Map<String, Value>> {
    let opaque = call.opaque.as_deref().filter(|opaque| opaque["provider"] == PROVIDER.name)?;
    opaque["item"].as_object()
}

fn is_custom(item: &Map<String, Value>) -> bool {
    item.get("type").is_some_and(|kind| kind == "custom_tool_call")
}

fn wire_call<'a>(call: &'a ToolCall, format: &Format) -> WireItem<'a> {
    let beside = own_item(call);
    let (call_id, name) = (call_id(&call.id, format), tool_name(&call.name));
    if beside.is_some_and(is_custom) {
        return WireItem::Custom { call_id, name, input: &call.arguments, beside };
    }
    WireItem::Call { kind: "function_call", call_id, name, arguments: arguments(call), beside }
}

/// Returns the id of a call as it is sent. OpenAI limits its length. Other servers may store data
/// in the id, so it is unchanged for them.
fn call_id<'a>(id: &'a str, format: &Format) -> Cow<'a, str> {
    if format.official { identifier(id, MAX_ID) } else { Cow::Borrowed(id) }
}

/// Encodes the content of a result. The format has no status that the model sees, so the text of a
/// failure contains it.
fn result_content(result: &ToolResult) -> ResultContent<'_> {
    let text = match result.status.is_success() {
        true => result.text_beside(|_| true),
        false => Cow::Owned(format!("Error ({}): {}", result.status, result.output)),
    };
    let mut files = result.media().map(wire_media).peekable();
    match files.peek() {
        None => ResultContent::Text(text),
        Some(_) => {
            let text =
                Some(text).filter(|text| !text.is_empty()).map(|text| WirePart::Text { text });
            ResultContent::Parts(text.into_iter().chain(files).collect())
        }
    }
}

/// Returns the text and, if `media` is set, the files of a message. Returns `None` if the message
/// has neither.
fn content(message: &Message, media: bool) -> Option<InputContent<'_>> {
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
        (WirePart::Text { text: Cow::Borrowed(text) }, None) => Some(InputContent::Text(text)),
        (first, second) => {
            Some(InputContent::Parts([first].into_iter().chain(second).chain(parts).collect()))
        }
    }
}

fn wire_media(file: &Media) -> WirePart<'_> {
    if file.mime_type.starts_with("image/") {
        return WirePart::Image { image_url: &file.url, detail: "auto" };
    }
    let filename = file.name.as_deref();
    match file.url.starts_with("data:") {
        // A file by content must have a name.
        true => WirePart::File {
            file_data: Some(&file.url),
            file_url: None,
            filename: Some(filename.unwrap_or("file")),
        },
        // A file by URL must not have a name.
        false => WirePart::File { file_data: None, file_url: Some(&file.url), filename: None },
    }
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    strict: bool,
    parameters: &'a Value,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireItem<'a> {
    Message {
        #[serde(rename = "type")]
        kind: &'static str,
        role: &'static str,
        content: InputContent<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
    },
    Call {
        #[serde(rename = "type")]
        kind: &'static str,
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        #[serde(serialize_with = "as_text")]
        arguments: Cow<'a, RawValue>,
        #[serde(flatten)]
        beside: Option<&'a Map<String, Value>>,
    },
    /// The call of a custom tool. The fields in `beside` include its type.
    Custom {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: &'a str,
        #[serde(flatten)]
        beside: Option<&'a Map<String, Value>>,
    },
    Result {
        #[serde(rename = "type")]
        kind: &'static str,
        call_id: Cow<'a, str>,
        output: ResultContent<'a>,
    },
}

/// The content of a result. A single text needs no list.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum InputContent<'a> {
    Text(&'a str),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum WirePart<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { image_url: &'a str, detail: &'static str },
    #[serde(rename = "input_file")]
    File {
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
    },
}

#[cfg(test)]
mod tests;
