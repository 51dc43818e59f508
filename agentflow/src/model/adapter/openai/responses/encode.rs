//! From the neutral conversation to the bytes of a request.
//!
//! Each message and the tools are encoded once and kept beside the value; a request is their bytes in a row.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::PROVIDER;
use crate::message::{Media, Message, Part, Reasoning, Role, ToolCall, ToolResult};
use crate::model::adapter::openai::fields::{Fields, refuse_extra, write};
use crate::model::adapter::openai::strict_schema::strict;
use crate::model::{ModelError, ModelErrorKind, ModelRequest, ModelSettings, OutputSchema, ToolChoice};
use crate::tool_definition::ToolDefinition;

/// Fields that only the request itself may set: other values would make the answer unreadable.
const OURS: [&str; 2] = ["input", "stream"];

/// Asks for reasoning in a form that can be sent back although nothing is stored.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// The values on which the encoded pieces of a conversation depend; `name` stands for all of it.
pub(super) struct Format {
    pub(super) name: String,
    pub(super) model: Arc<str>,
    /// Whether the server is OpenAI itself.
    pub(super) official: bool,
}

/// The whole body.
pub(super) fn body(format: &Format, request: &ModelRequest) -> Result<Vec<u8>, ModelError> {
    let extra = &request.settings.extra;
    refuse_extra(extra, &OURS)?;
    let mut out = Vec::with_capacity(1024 + 256 * request.messages.len());
    out.extend_from_slice(b"{\"input\":[");
    let first = out.len();
    let messages = request.messages.messages();
    for (at, message) in messages.iter().enumerate() {
        let encoded = message.encoded(&format.name, |message| encoded_message(message, &messages[..at], format));
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

/// Whether a model may reason. Models that do not reason refuse the request for encrypted reasoning.
fn reasons(model: &str) -> bool {
    let model = model.strip_prefix("ft:").unwrap_or(model);
    !["gpt-4", "gpt-3", "chatgpt-", "gpt-5-chat"].iter().any(|prefix| model.starts_with(prefix))
}

/// The tools, and after them those of the provider's own that the host adds by `extra`.
fn tools(out: &mut Vec<u8>, format: &Format, request: &ModelRequest) -> Result<(), ModelError> {
    let more = match request.settings.extra.get("tools") {
        None => &[][..],
        Some(Value::Array(more)) => more,
        Some(_) => return Err(refused("`tools` in `ModelSettings::extra` must be a list".to_owned())),
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

fn settings(fields: &mut Fields<'_>, settings: &ModelSettings, tools: bool) -> Result<(), ModelError> {
    // This wire format has no seed.
    let ModelSettings { temperature, top_p, max_tokens, stop, tool_choice, .. } = settings;
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
    // A choice among no tools is refused.
    if let Some(choice) = tool_choice.as_ref().filter(|_| tools) {
        match choice {
            ToolChoice::Auto => fields.put("tool_choice", "auto"),
            ToolChoice::None => fields.put("tool_choice", "none"),
            ToolChoice::Required => fields.put("tool_choice", "required"),
            ToolChoice::Tool(name) => fields.put("tool_choice", &json!({"type": "function", "name": name})),
        }
    }
    Ok(())
}

/// The shape of the answer, beside the host's own `text`.
fn text(output: &OutputSchema, extra: Option<&Value>) -> Result<Value, ModelError> {
    let mut text = match extra {
        None => Map::new(),
        Some(Value::Object(text)) if !text.contains_key("format") => text.clone(),
        Some(_) => {
            return Err(refused("`text.format` cannot be set by `ModelSettings::extra` for a typed answer".to_owned()));
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

/// The tools with commas between them. A tool whose arguments fit strict mode as they are is called in strict mode.
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

/// One message as none, one or several items, with commas between them.
fn encoded_message(message: &Message, before: &[Arc<Message>], format: &Format) -> Vec<u8> {
    let mut out = Items(Vec::new());
    for result in message.results() {
        let custom =
            before.iter().rev().flat_map(|message| message.tool_calls()).find(|call| call.id == result.call_id);
        out.put(&WireItem::Result {
            kind: match custom.is_some_and(|call| own_item(call).is_some_and(is_custom)) {
                true => "custom_tool_call_output",
                false => "function_call_output",
            },
            call_id: &result.call_id,
            output: result_text(result),
        });
    }
    match message.role() {
        Role::Assistant => assistant(&mut out, message, format),
        Role::System => {
            if let Some(content) = content(message, false) {
                out.message("system", content);
            }
        }
        // A tool message has no place for anything beside results; a user message has.
        role => {
            let content = content(message, true);
            if content.is_some() || role != Role::Tool && message.results().next().is_none() {
                out.message("user", content.unwrap_or(Content::Text("")));
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

    fn message(&mut self, role: &'static str, content: Content<'_>) {
        self.put(&WireItem::Message { kind: "message", role, content, phase: None });
    }
}

/// The parts of an answer in their order. Reasoning of another model is left out.
fn assistant(out: &mut Items, message: &Message, format: &Format) {
    let parts = message.parts();
    let is_answer = |part: &Part| match part {
        Part::Reasoning(reasoning) => own_opaque(reasoning, format).is_some_and(|item| item["type"] != "reasoning"),
        Part::Text { .. } | Part::ToolCall(_) => true,
        _ => false,
    };
    // Reasoning that nothing follows is refused.
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
                let content = Content::Text(text);
                out.put(&WireItem::Message { kind: "message", role: "assistant", content, phase: phase.take() });
            }
            Part::ToolCall(call) => out.put(&wire_call(call)),
            _ => {}
        }
    }
}

/// The opaque item that this model made and must get back.
fn own_opaque<'a>(reasoning: &'a Reasoning, format: &Format) -> Option<&'a Value> {
    let item = reasoning.opaque.as_deref()?;
    let own = reasoning.provider == PROVIDER.name && reasoning.model == *format.model;
    // Without its content OpenAI looks for the item under its id, and it was not stored.
    let lost = format.official && item["type"] == "reasoning" && !item["encrypted_content"].is_string();
    (own && !lost).then_some(item)
}

fn own_item(call: &ToolCall) -> Option<&Map<String, Value>> {
    let opaque = call.opaque.as_deref().filter(|opaque| opaque["provider"] == PROVIDER.name)?;
    opaque["item"].as_object()
}

fn is_custom(item: &Map<String, Value>) -> bool {
    item.get("type").is_some_and(|kind| kind == "custom_tool_call")
}

fn wire_call(call: &ToolCall) -> WireItem<'_> {
    let beside = own_item(call);
    let (call_id, name) = (call.id.as_str(), call.name.as_str());
    if beside.is_some_and(is_custom) {
        return WireItem::Custom { call_id, name, input: &call.arguments, beside };
    }
    let arguments = if call.arguments.is_empty() { "{}" } else { &call.arguments };
    WireItem::Call { kind: "function_call", call_id, name, arguments, beside }
}

/// The wire has no place for a status that a model would see, so the text of a failure names it.
fn result_text(result: &ToolResult) -> Cow<'_, str> {
    match result.status.is_success() {
        true => result.text(),
        false => Cow::Owned(format!("Error ({}): {}", result.status, result.output)),
    }
}

/// The text and, where they are allowed, the files of a message; `None` when it has neither.
fn content(message: &Message, media: bool) -> Option<Content<'_>> {
    let mut parts = message.parts().iter().filter_map(|part| match part {
        Part::Text { text } => Some(WirePart::Text { text: Cow::Borrowed(text) }),
        Part::Media(file) if media => Some(wire_media(file)),
        Part::Media(file) => Some(WirePart::Text { text: Cow::Owned(format!("[{} left out]", file.mime_type)) }),
        _ => None,
    });
    let first = parts.next()?;
    match (first, parts.next()) {
        (WirePart::Text { text: Cow::Borrowed(text) }, None) => Some(Content::Text(text)),
        (first, second) => Some(Content::Parts([first].into_iter().chain(second).chain(parts).collect())),
    }
}

fn wire_media(file: &Media) -> WirePart<'_> {
    if file.mime_type.starts_with("image/") {
        return WirePart::Image { image_url: &file.url, detail: "auto" };
    }
    let filename = file.name.as_deref();
    match file.url.starts_with("data:") {
        // A file by content must have a name.
        true => {
            WirePart::File { file_data: Some(&file.url), file_url: None, filename: Some(filename.unwrap_or("file")) }
        }
        // One by address must have none.
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
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
    },
    Call {
        #[serde(rename = "type")]
        kind: &'static str,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
        #[serde(flatten)]
        beside: Option<&'a Map<String, Value>>,
    },
    /// Its type is among what is beside it.
    Custom {
        call_id: &'a str,
        name: &'a str,
        input: &'a str,
        #[serde(flatten)]
        beside: Option<&'a Map<String, Value>>,
    },
    Result {
        #[serde(rename = "type")]
        kind: &'static str,
        call_id: &'a str,
        output: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
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
mod tests {
    use serde_json::{Value, json};

    use super::{Format, body};
    use crate::message::{Conversation, Media, Message, Part, Reasoning, Role, ToolCall, ToolResult, ToolStatus};
    use crate::model::{ModelErrorKind, ModelRequest, ModelSettings, OutputSchema, ToolChoice};
    use crate::tool_definition::ToolDefinition;

    fn format(official: bool) -> Format {
        Format { name: format!("f{official}"), model: "m".into(), official }
    }

    fn sent(request: &ModelRequest) -> Value {
        serde_json::from_slice(&body(&format(false), request).expect("a body")).expect("JSON")
    }

    fn input(messages: impl IntoIterator<Item = Message>) -> Value {
        sent(&ModelRequest::new(messages.into_iter().collect::<Conversation>()))["input"].take()
    }

    fn opaque(model: &str, item: Value) -> Part {
        let (provider, opaque) = ("openai-responses".to_owned(), Some(Box::new(item)));
        Part::Reasoning(Reasoning { text: "shown".into(), provider, model: model.into(), opaque })
    }

    fn text(text: &str) -> Part {
        Part::Text { text: text.into() }
    }

    fn call(id: &str, beside: Option<Value>) -> Part {
        let mut call = ToolCall::new(id, "f", r#"{"a":1}"#);
        call.opaque = beside.map(|item| Box::new(json!({"provider": "openai-responses", "item": item})));
        Part::ToolCall(call.into())
    }

    fn result(id: &str, status: ToolStatus, output: &str) -> Message {
        let (call_id, name, output) = (id.to_owned(), "f".to_owned(), output.to_owned());
        Message::tool_results([ToolResult { call_id, name, status, output }.into()])
    }

    #[test]
    fn a_conversation_in_items() {
        let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gA+/="});
        let search = json!({"type": "web_search_call", "id": "ws"});
        let answer = vec![
            opaque("m", reasoning.clone()),
            opaque("m", search.clone()),
            opaque("m", json!({"type": "message", "phase": "commentary"})),
            text("Look:"),
            call("c1", Some(json!({"namespace": "n"}))),
            call("c2", Some(json!({"type": "custom_tool_call"}))),
        ];
        let sent = input([
            Message::system("Be brief."),
            Message::user("hi"),
            Message::new(Role::Assistant, answer),
            result("c1", ToolStatus::Success, "\"ok\""),
            result("c2", ToolStatus::Timeout, "too slow"),
        ]);
        let arguments = r#"{"a":1}"#;
        assert_eq!(
            sent,
            json!([
                {"type": "message", "role": "system", "content": "Be brief."},
                {"type": "message", "role": "user", "content": "hi"},
                reasoning,
                search,
                {"type": "message", "role": "assistant", "content": "Look:", "phase": "commentary"},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments, "namespace": "n"},
                {"type": "custom_tool_call", "call_id": "c2", "name": "f", "input": arguments},
                {"type": "function_call_output", "call_id": "c1", "output": "ok"},
                {"type": "custom_tool_call_output", "call_id": "c2", "output": "Error (timeout): too slow"},
            ])
        );
    }

    #[test]
    fn what_another_model_thought_stays_behind() {
        let reasoning = |id: &str| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "g"});
        let mut foreign = Reasoning { text: "x".into(), provider: "anthropic".into(), ..Reasoning::default() };
        foreign.opaque = Some(Box::new(json!({"signature": "s"})));
        let answer = vec![opaque("other", reasoning("a")), Part::Reasoning(foreign), call("c", None)];
        let sent = input([Message::new(Role::Assistant, answer), result("c", ToolStatus::Success, "1")]);
        let types: Vec<_> = sent.as_array().expect("a list").iter().map(|item| item["type"].clone()).collect();
        assert_eq!(types, ["function_call", "function_call_output"]);
        // Nothing follows the second one, so it would be refused.
        let answer = vec![opaque("m", reasoning("a")), text("Hm"), opaque("m", reasoning("b"))];
        let sent = input([Message::new(Role::Assistant, answer), Message::user("go on")]);
        assert_eq!((sent.as_array().map(Vec::len), &sent[0]["id"]), (Some(3), &json!("a")));
    }

    #[test]
    fn openai_is_not_asked_for_reasoning_that_it_did_not_keep() {
        let bare = json!({"type": "reasoning", "id": "a", "summary": []});
        let request = ModelRequest::new(Message::new(Role::Assistant, vec![opaque("m", bare), text("Hi")]));
        let items = |official| {
            let sent: Value =
                serde_json::from_slice(&body(&format(official), &request).expect("a body")).expect("JSON");
            sent["input"].as_array().expect("a list").len()
        };
        assert_eq!((items(true), items(false)), (1, 2));
    }

    #[test]
    fn files_go_where_they_may() {
        let media = |kind: &str, url: &str| Part::Media(Media { mime_type: kind.into(), url: url.into(), name: None });
        let parts = vec![
            text("see"),
            media("image/png", "data:image/png;base64,AA=="),
            media("application/pdf", "data:application/pdf;base64,AA=="),
            media("application/pdf", "https://h/a.pdf"),
        ];
        assert_eq!(
            input([Message::new(Role::User, parts)])[0]["content"],
            json!([
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "file"},
                {"type": "input_file", "file_url": "https://h/a.pdf"},
            ])
        );
    }

    #[test]
    fn tools_say_whether_they_are_strict() {
        let parameters = |required: Value| {
            json!({"type": "object", "properties": {"a": {"type": "integer", "format": "int64"}},
            "required": required})
        };
        let tools = [
            ToolDefinition::new("b", "", parameters(json!([]))),
            ToolDefinition::new("a", "A.", parameters(json!(["a"]))),
            ToolDefinition::new("c", "", json!({"type": "object", "additionalProperties": {"type": "integer"}})),
        ];
        let settings = ModelSettings::default()
            .tool_choice(ToolChoice::Tool("a".into()))
            .extra("tools", json!([{"type": "web_search"}]));
        let sent = sent(
            &ModelRequest::new("hi")
                .tools(tools.into_iter().collect::<crate::tool_definition::ToolManifest>())
                .settings(settings),
        );
        assert_eq!(
            sent["tools"],
            json!([
                {"type": "function", "name": "a", "description": "A.", "strict": true, "parameters": {"type": "object",
                    "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}},
                {"type": "function", "name": "b", "strict": false, "parameters": parameters(json!([]))},
                {"type": "function", "name": "c", "strict": false,
                    "parameters": {"type": "object", "additionalProperties": {"type": "integer"}}},
                {"type": "web_search"},
            ])
        );
        assert_eq!(sent["tool_choice"], json!({"type": "function", "name": "a"}));
    }

    #[test]
    fn fields_beside_the_conversation() {
        let settings = ModelSettings::default()
            .temperature(0.5)
            .top_p(0.9)
            .max_tokens(7)
            .seed(3)
            .tool_choice(ToolChoice::Required)
            .extra("reasoning", json!({"effort": "low"}))
            .extra("store", true)
            .extra("text", json!({"verbosity": "low"}));
        let mut request = ModelRequest::new("hi").settings(settings).streamed();
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        request.output = Some(OutputSchema::new("A", schema).into());
        let strict = json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"],
            "additionalProperties": false});
        assert_eq!(
            sent(&request),
            json!({
                "input": [{"type": "message", "role": "user", "content": "hi"}],
                "model": "m", "stream": true, "store": true, "include": ["reasoning.encrypted_content"],
                "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 7, "reasoning": {"effort": "low"},
                "text": {"verbosity": "low", "format":
                    {"type": "json_schema", "name": "A", "schema": strict, "strict": true}},
            })
        );
        let model = |name: &str| {
            let format = Format { name: name.into(), model: name.into(), official: true };
            let sent: Value =
                serde_json::from_slice(&body(&format, &ModelRequest::new("hi")).expect("a body")).expect("JSON");
            (sent["store"].clone(), sent.get("include").is_some())
        };
        for (name, reasons) in [("gpt-5-mini", true), ("o3", true), ("gpt-4o", false), ("ft:gpt-4.1:x", false)] {
            assert_eq!(model(name), (json!(false), reasons), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let mut typed = ModelRequest::new("hi").settings(ModelSettings::default().extra("text", json!({"format": {}})));
        typed.output = Some(OutputSchema::new("A", json!({"type": "object", "properties": {}})).into());
        let of = |settings| ModelRequest::new("hi").settings(settings);
        for (request, part) in [
            (of(ModelSettings::default().extra("input", "x")), "`input`"),
            (of(ModelSettings::default().extra("tools", "x")), "must be a list"),
            (of(ModelSettings::default().stop("x")), "openai-chat/"),
            (typed, "`text.format`"),
        ] {
            let error = body(&format(false), &request).expect_err(part);
            assert_eq!(error.kind(), ModelErrorKind::BadRequest);
            assert!(error.message().contains(part), "{error}");
        }
    }
}
