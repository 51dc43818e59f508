//! Tests of encoded requests.

use agentflow_core::message::{
    Conversation, Media, Message, Part, Reasoning, ResourceLink, Role, ToolCall, ToolContent,
    ToolPart, ToolResult, ToolStatus,
};
use agentflow_core::model::{
    ModelErrorKind, ModelRequest, ModelSettings, OutputSchema, ToolChoice,
};
use agentflow_core::tool::ToolDefinition;
use serde_json::{Value, json};

use super::{Format, body};
use crate::assembly::reasoning;

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
    Part::Reasoning(reasoning("shown".into(), "openai-responses".into(), model.into(), Some(item)))
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn call(id: &str, beside: Option<Value>) -> Part {
    let mut call = ToolCall::new(id, "f", r#"{"a":1}"#);
    call.opaque =
        beside.map(|item| Box::new(json!({"provider": "openai-responses", "item": item})));
    Part::ToolCall(call.into())
}

fn result(id: &str, status: ToolStatus, output: &str) -> Message {
    Message::tool_results([ToolResult::new(&ToolCall::new(id, "f", ""), status, output).into()])
}

#[test]
fn a_conversation_in_items() {
    let reasoning =
        json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gA+/="});
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
    let reasoning =
        |id: &str| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "g"});
    let mut foreign = Reasoning::new("x", "anthropic");
    foreign.opaque = Some(Box::new(json!({"signature": "s"})));
    let answer = vec![opaque("other", reasoning("a")), Part::Reasoning(foreign), call("c", None)];
    let sent =
        input([Message::new(Role::Assistant, answer), result("c", ToolStatus::Success, "1")]);
    let types: Vec<_> =
        sent.as_array().expect("a list").iter().map(|item| item["type"].clone()).collect();
    assert_eq!(types, ["function_call", "function_call_output"]);
    // No output follows the second reasoning item, so it must be omitted.
    let answer = vec![opaque("m", reasoning("a")), text("Hm"), opaque("m", reasoning("b"))];
    let sent = input([Message::new(Role::Assistant, answer), Message::user("go on")]);
    assert_eq!((sent.as_array().map(Vec::len), &sent[0]["id"]), (Some(3), &json!("a")));
}

#[test]
fn openai_is_not_asked_for_reasoning_that_it_did_not_keep() {
    let bare = json!({"type": "reasoning", "id": "a", "summary": []});
    let request =
        ModelRequest::new(Message::new(Role::Assistant, vec![opaque("m", bare), text("Hi")]));
    let items = |official| {
        let sent: Value =
            serde_json::from_slice(&body(&format(official), &request).expect("a body"))
                .expect("JSON");
        sent["input"].as_array().expect("a list").len()
    };
    assert_eq!((items(true), items(false)), (1, 2));
}

#[test]
fn files_go_where_they_may() {
    let media = |kind: &str, url: &str| Part::Media(Media::new(kind, url));
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
        ToolDefinition::new(
            "c",
            "",
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        ),
    ];
    let settings = ModelSettings::default()
        .tool_choice(ToolChoice::Tool("a".into()))
        .extra("tools", json!([{"type": "web_search"}]));
    let sent = sent(
        &ModelRequest::new("hi")
            .tools(tools.into_iter().collect::<agentflow_core::tool::ToolManifest>())
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
            serde_json::from_slice(&body(&format, &ModelRequest::new("hi")).expect("a body"))
                .expect("JSON");
        (sent["store"].clone(), sent.get("include").is_some())
    };
    for (name, reasons) in
        [("gpt-5-mini", true), ("o3", true), ("gpt-4o", false), ("ft:gpt-4.1:x", false)]
    {
        assert_eq!(model(name), (json!(false), reasons), "{name}");
    }
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let mut typed = ModelRequest::new("hi")
        .settings(ModelSettings::default().extra("text", json!({"format": {}})));
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

#[test]
fn files_in_an_answer_are_parts() {
    let mut result =
        ToolResult::new(&ToolCall::new("c", "f", "{}"), ToolStatus::Success, r#"{"n":1}"#);
    let parts = vec![
        ToolPart::Media(Media::of_bytes("image/png", [1, 2, 3])),
        ToolPart::Media(Media::new("video/mp4", "https://example.com/v.mp4")),
        ToolPart::Link(ResourceLink::new("file:///a").name("all")),
    ];
    let mut content = ToolContent::default();
    (content.text, content.parts) = (Some("Seen.".to_owned()), parts);
    result.content = Some(Box::new(content));
    let items = input([Message::tool_results([result.into()])]);
    let expected = json!([
        {"type": "input_text", "text": "Seen.\n[all: file:///a]"},
        {"type": "input_image", "image_url": "data:image/png;base64,AQID", "detail": "auto"},
        {"type": "input_file", "file_url": "https://example.com/v.mp4"},
    ]);
    assert_eq!(
        (&items[0]["type"], &items[0]["output"]),
        (&json!("function_call_output"), &expected)
    );
}
