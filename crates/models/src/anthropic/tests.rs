//! Tests of encoded requests and decoded responses, without a server.

use std::sync::Arc;

use agentflow_core::message::{
    Conversation, Media, Message, Part, ResourceLink, Role, ToolCall, ToolContent, ToolPart,
    ToolResult, ToolStatus,
};
use agentflow_core::model::{
    Model, ModelErrorKind, ModelEvent, ModelRequest, ModelResponse, ModelSettings, OutputMode,
    OutputSchema, PromptCache, StopReason, ToolChoice,
};
use agentflow_core::tool::{ToolDefinition, ToolManifest};
use serde_json::{Value, json};

use super::decode::MessagesDecoder;
use super::{Anthropic, default_output_mode, encode};
use crate::assembly::reasoning;
use crate::http::{Decode, Deltas, SseEvent, SseFlow};

fn bytes(model: &str, request: &ModelRequest) -> Vec<u8> {
    encode::body(model, &format!("anthropic/{model}"), request).expect("encoded")
}

fn body(request: &ModelRequest) -> Value {
    serde_json::from_slice(&bytes("claude-x", request)).expect("JSON")
}

fn conversation(messages: impl IntoIterator<Item = Message>) -> ModelRequest {
    ModelRequest::new(messages.into_iter().collect::<Conversation>())
}

fn sent(messages: impl IntoIterator<Item = Message>) -> Value {
    body(&conversation(messages))["messages"].take()
}

fn read(events: &[Value]) -> (Vec<ModelEvent>, Option<ModelResponse>) {
    let (mut decoder, mut deltas) = (MessagesDecoder::new("claude-x".into(), 3), Deltas::new(true));
    for event in events {
        let data = event.to_string();
        let flow = decoder
            .event(SseEvent { name: b"", data: data.as_bytes() }, &mut deltas)
            .expect("readable");
        assert_eq!(flow == SseFlow::End, event["type"] == "message_stop");
    }
    (deltas.drain(), decoder.complete())
}

fn document(body: &str) -> ModelResponse {
    let (mut decoder, mut deltas) =
        (MessagesDecoder::new("claude-x".into(), 3), Deltas::new(false));
    decoder.document(body.as_bytes(), &mut deltas).expect("readable");
    decoder.complete().expect("whole")
}

fn whole(content: &Value, stop: &str) -> ModelResponse {
    document(&json!({"type": "message", "content": content, "stop_reason": stop}).to_string())
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude-x-1", "content": [],
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1}}})
}

fn result(id: &str, status: ToolStatus, output: &str) -> Part {
    Part::ToolResult(Arc::new(ToolResult::new(&ToolCall::new(id, "f", ""), status, output)))
}

#[test]
fn a_conversation_with_calls_of_tools_that_are_not_offered_any_more_names_them() {
    let call = ToolCall::new("call_1", "look", "{}");
    let result = ToolResult::new(&call, ToolStatus::Success, "7");
    let asked = [
        Message::user("Look."),
        Message::new(Role::Assistant, [Part::ToolCall(Arc::new(call))]),
        Message::tool_results([Arc::new(result)]),
    ];
    let sent = body(&conversation(asked));
    assert_eq!(sent["tools"], json!([{"name": "look", "input_schema": {"type": "object"}}]));
    assert_eq!(sent["tool_choice"], json!({"type": "none"}));
    assert_eq!(body(&conversation([Message::user("Hi")])).get("tools"), None);
}

#[test]
fn a_prompt_cache_marks_the_end_of_what_is_the_same_in_every_call() {
    let mark = json!({"type": "ephemeral"});
    let cached = |mut request: ModelRequest, kept| {
        request.settings = ModelSettings::default().prompt_cache(kept).into();
        request
    };
    let tool = ToolDefinition::new("look", "Looks.", json!({"type": "object"}));
    let mut request = conversation([
        Message::system("Be short."),
        Message::system("Be kind."),
        Message::user("Hi"),
    ]);
    request.tools = [tool].into_iter().collect();

    let sent = body(&cached(request.clone(), PromptCache::FiveMinutes));
    assert_eq!(sent["system"][0].get("cache_control"), None);
    assert_eq!(sent["system"][1]["cache_control"], mark);
    assert_eq!(
        sent["tools"][0].get("cache_control"),
        None,
        "the mark at the instruction counts for the tools"
    );
    assert_eq!(sent["messages"], body(&request)["messages"]);

    let sent = body(&cached(request.clone(), PromptCache::OneHour));
    assert_eq!(sent["system"][1]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));

    // Without an instruction, the mark is at the tools. Without both, there is no mark.
    request.messages =
        [Message::system(""), Message::user("Hi")].into_iter().collect::<Conversation>();
    let sent = body(&cached(request.clone(), PromptCache::FiveMinutes));
    assert_eq!(sent["tools"][0]["cache_control"], mark);
    request.tools = ToolManifest::default();
    assert_eq!(body(&cached(request.clone(), PromptCache::FiveMinutes)), body(&request));

    let settings = ModelSettings::default().prompt_cache(PromptCache::OneHour);
    assert_eq!(
        serde_json::to_value(settings).expect("JSON"),
        json!({}),
        "the answer does not depend on it"
    );
}

#[test]
fn every_block_goes_back_as_it_came_and_where_it_was() {
    let content = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "sig+/=="},
        {"type": "redacted_thinking", "data": "cryp/t=="},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "rain"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"encrypted_content": "e"}]},
        {"type": "text", "text": "It rains.", "citations": [{"type": "char_location", "encrypted_index": "i"}]},
        {"type": "brand_new", "anything": null},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"b": 1}, "caller": {"type": "direct"}},
    ]);
    let response = whole(&content, "tool_use");
    assert_eq!((&*response.text(), &*response.message.reasoning()), ("It rains.", "Hm."));
    assert_eq!(response.stop_reason, StopReason::ToolCalls);
    // The result is the same after storing and loading the message.
    let stored = serde_json::to_string(&*response.message).expect("stored");
    let message: Message = serde_json::from_str(&stored).expect("read again");
    let answered =
        Message::new(Role::Tool, vec![result("toolu_1", ToolStatus::Success, "\"sunny\"")]);
    let request = conversation([Message::user("Rain?"), message, answered]);
    let messages = body(&request)["messages"].take();
    assert_eq!(messages[1], json!({"role": "assistant", "content": content}));
    assert_eq!(
        messages[2]["content"],
        json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}])
    );

    // Another model receives no thinking. The reasoning of another provider is never sent.
    let other: Value = serde_json::from_slice(&bytes("claude-y", &request)).expect("JSON");
    assert_eq!(
        other["messages"][1]["content"],
        Value::from(&content.as_array().expect("a list")[2..])
    );
    let opaque = json!({"signature": "s", "block": "{\"type\":\"x\"}"});
    let foreign =
        reasoning("thought".into(), "openai-chat".into(), "claude-x".into(), Some(opaque));
    assert_eq!(sent([Message::new(Role::Assistant, vec![Part::Reasoning(foreign)])]), json!([]));
}

#[test]
fn the_bytes_of_a_kept_block_stay_the_same() {
    let input = r#"{"z": 1.50, "a": 123456789012345678901234567890}"#;
    let block =
        format!(r#"{{"id":"s","input":{input},"name":"web_search","type":"server_tool_use"}}"#);
    let response = document(&format!(
        r#"{{"type":"message","stop_reason":"pause_turn","content":[{block}]}}"#
    ));
    assert_eq!(response.stop_reason, StopReason::PauseTurn);
    let sent =
        bytes("claude-x", &conversation([Message::user("q"), Message::clone(&response.message)]));
    assert!(String::from_utf8(sent).expect("text").contains(&block));
}

#[test]
fn a_stream_of_every_kind_of_piece_becomes_the_whole() {
    let begin = |index, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let piece = |index, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let end = |index| json!({"type": "content_block_stop", "index": index});
    let (events, response) = read(&[
        end(0),
        start(),
        json!({"type": "ping"}),
        begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        piece(0, json!({"type": "thinking_delta", "thinking": "H"})),
        piece(0, json!({"type": "thinking_delta", "thinking": "m"})),
        piece(0, json!({"type": "signature_delta", "signature": "s1"})),
        end(0),
        begin(1, json!({"type": "text", "text": ""})),
        piece(1, json!({"type": "text_delta", "text": ""})),
        piece(1, json!({"type": "text_delta", "text": "Hi"})),
        piece(1, json!({"type": "citations_delta", "citation": {"type": "char_location"}})),
        piece(1, json!({"type": "from_the_future", "text": {"no": "text"}})),
        end(1),
        json!({"type": "from_the_future", "message": "no object", "usage": 3}),
        begin(2, json!({"type": "tool_use", "id": "t1", "name": "f", "input": {}})),
        begin(3, json!({"type": "tool_use", "id": "t2", "name": "g", "input": {"whole": true}})),
        piece(2, json!({"type": "input_json_delta", "partial_json": "{\"a\""})),
        piece(2, json!({"type": "input_json_delta", "partial_json": ": 1}"})),
        end(2),
        end(3),
        begin(4, json!({"type": "server_tool_use", "id": "s", "name": "x", "input": {}})),
        piece(4, json!({"type": "input_json_delta", "partial_json": "{\"q\":1.0}"})),
        end(4),
        begin(5, json!({"type": "compaction", "content": null})),
        piece(
            5,
            json!({"type": "compaction_delta", "content": "So far.", "encrypted_content": "e=="}),
        ),
        end(5),
        begin(6, json!({"type": "tool_use", "id": "t3", "name": "h", "input": {}})),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9,
            "input_tokens": null, "cache_creation_input_tokens": 2, "output_tokens_details": {"thinking_tokens": 4}}}),
        json!({"type": "message_stop"}),
    ]);
    let response = response.expect("whole");
    let usage = &response.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.reasoning_tokens), (14, 9, Some(4)));
    assert_eq!((usage.cached_tokens, usage.cache_write_tokens), (Some(7), Some(2)));
    assert_eq!((&*response.id, &*response.model), ("msg_1", "claude-x-1"));
    let calls: Vec<&str> = response.tool_calls().map(|call| call.arguments.as_str()).collect();
    assert_eq!(calls, ["{\"a\": 1}", "{\"whole\":true}", "{}"]);
    assert_eq!(
        sent([Message::clone(&response.message)])[0]["content"],
        json!([
            {"type": "thinking", "thinking": "Hm", "signature": "s1"},
            {"type": "text", "text": "Hi", "citations": [{"type": "char_location"}]},
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "t2", "name": "g", "input": {"whole": true}},
            {"type": "server_tool_use", "id": "s", "name": "x", "input": {"q": 1.0}},
            {"type": "compaction", "content": "So far.", "encrypted_content": "e=="},
            {"type": "tool_use", "id": "t3", "name": "h", "input": {}},
        ])
    );
    // The pieces add up to the whole, and no piece is empty.
    let mut arguments = vec![String::new(); 3];
    for event in events {
        match event {
            ModelEvent::ToolCall(delta) => arguments[delta.index] += &delta.arguments,
            ModelEvent::Text(text) => assert_eq!(text, "Hi"),
            ModelEvent::Reasoning(text) => assert!(text == "H" || text == "m", "{text}"),
            _ => unreachable!("the decoder hands on neither progress nor the whole"),
        }
    }
    assert_eq!(arguments, ["{\"a\": 1}", "{\"whole\":true}", ""]);
}

#[test]
fn a_reason_and_message_stop_are_ends() {
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}});
    assert_eq!(read(&[start()]).1, None);
    assert!(read(&[start(), delta.clone()]).1.is_some());
    assert_eq!(read(std::slice::from_ref(&delta)).1, None);
    assert_eq!(read(&[json!({"type": "message_stop"})]).1, None);
    assert!(read(&[start(), delta, json!({"type": "message_stop"})]).1.is_some());
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let event = |name: &[u8], data: &[u8]| {
        let (mut decoder, mut deltas) = (MessagesDecoder::new("m".into(), 1), Deltas::new(true));
        decoder.event(SseEvent { name, data }, &mut deltas).expect_err("an error").kind()
    };
    assert_eq!(event(b"", b"{not json"), ModelErrorKind::InvalidResponse);
    let block = br#"{"type":"content_block_start","index":0,"content_block":7}"#;
    assert_eq!(event(b"", block), ModelErrorKind::InvalidResponse);
    let delta = br#"{"type":"content_block_delta","index":0,"delta":"text"}"#;
    assert_eq!(event(b"", delta), ModelErrorKind::InvalidResponse);
    let busy = br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(event(b"error", busy), ModelErrorKind::Overloaded);
    assert_eq!(event(b"", busy), ModelErrorKind::Overloaded);
    let document = |body: &str| {
        let (mut decoder, mut deltas) = (MessagesDecoder::new("m".into(), 1), Deltas::new(true));
        decoder.document(body.as_bytes(), &mut deltas).expect_err("an error").kind()
    };
    assert_eq!(document(r#"{"choices":[]}"#), ModelErrorKind::InvalidResponse);
    assert_eq!(document(r#"{"type":"mess"#), ModelErrorKind::Truncated);
    assert_eq!(
        document(r#"{"type":"error","error":{"type":"api_error"}}"#),
        ModelErrorKind::Server
    );
}

#[test]
fn every_stop_reason_has_its_meaning() {
    let text = json!([{"type": "text", "text": "x"}]);
    for (said, meant) in [
        ("end_turn", StopReason::Stop),
        ("stop_sequence", StopReason::Stop),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("refusal", StopReason::Refusal),
        ("pause_turn", StopReason::PauseTurn),
        ("compaction", StopReason::Other("compaction".into())),
    ] {
        assert_eq!(whole(&text, said).stop_reason, meant, "{said}");
    }
}

#[test]
fn results_and_what_follows_them_are_one_message_results_first() {
    let call = ToolCall::new("functions.f:0", "f", "{broken");
    let messages = sent([
        Message::user("go"),
        Message::new(Role::Assistant, vec![Part::ToolCall(Arc::new(call))]),
        Message::new(
            Role::Tool,
            vec![
                Part::Text { text: "by the way".into() },
                result("functions.f:0", ToolStatus::Timeout, ""),
                result("b", ToolStatus::Success, ""),
            ],
        ),
        Message::user("  \n"),
        Message::user("and now?"),
    ]);
    let call = &messages[1]["content"][0];
    let id = call["id"].as_str().expect("an id");
    assert!(id.starts_with("functions_f_0_"), "{id}");
    assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{id}");
    assert_eq!(call["input"], json!({"INVALID_JSON": "{broken"}));
    assert_eq!(
        messages[2],
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": "timeout", "is_error": true},
            {"type": "tool_result", "tool_use_id": "b"},
            {"type": "text", "text": "by the way"},
            {"type": "text", "text": "and now?"},
        ]})
    );
    assert_eq!(messages.as_array().map(Vec::len), Some(3));
}

#[test]
fn thinking_that_was_cut_off_is_shown_and_not_sent_back() {
    let response =
        whole(&json!([{"type": "thinking", "thinking": "Hm", "signature": ""}]), "max_tokens");
    assert_eq!(response.message.reasoning(), "Hm");
    assert_eq!(
        sent([Message::user("q"), Message::clone(&response.message)]).as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn files_are_sent_as_what_they_are() {
    let file = |mime: &str, url: &str| {
        let media = Media::new(mime, url).name("n");
        sent([Message::new(Role::User, vec![Part::Media(media)])])[0]["content"][0].take()
    };
    assert_eq!(
        file("image/png", "data:image/png;base64,iVBO"),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}})
    );
    assert_eq!(
        file("image/webp", "https://h/i"),
        json!({"type": "image", "source": {"type": "url", "url": "https://h/i"}})
    );
    assert_eq!(
        file("application/pdf", "https://h/p"),
        json!({"type": "document", "title": "n", "source": {"type": "url", "url": "https://h/p"}})
    );
    assert_eq!(
        file("text/markdown", "data:text/markdown;base64,SGkh"),
        json!({"type": "document", "title": "n", "source": {"type": "text", "media_type": "text/plain", "data": "Hi!"}})
    );
    for (mime, url) in [
        ("audio/wav", "data:audio/wav;base64,AA"),
        ("image/heic", "https://h/i"),
        ("text/plain", "data:,"),
    ] {
        assert_eq!(
            file(mime, url),
            json!({"type": "text", "text": format!("[a file of type {mime} is left out]")})
        );
    }
}

#[test]
fn settings_tools_and_fields_of_the_host() {
    let tools = || -> ToolManifest {
        [ToolDefinition::new("f", "Does f.", json!({"type": "object", "properties": {}}))]
            .into_iter()
            .collect()
    };
    let request =
        |settings: ModelSettings| ModelRequest::new("q").tools(tools()).settings(settings);
    let own = json!({"type": "web_search_20250305", "name": "web_search"});
    let settings = ModelSettings::default()
        .temperature(0.5)
        .stop("END")
        .seed(1)
        .tool_choice(ToolChoice::Required)
        .extra("tools", json!([own]))
        .extra("service_tier", "auto");
    assert_eq!(
        body(&request(settings).streamed()),
        json!({
            "model": "claude-x", "max_tokens": 16384, "stream": true, "temperature": 0.5, "stop_sequences": ["END"],
            "tools": [{"name": "f", "description": "Does f.", "input_schema": {"type": "object", "properties": {}}}, own],
            "tool_choice": {"type": "any"}, "service_tier": "auto",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}],
        })
    );
    let thinking = json!({"type": "enabled", "budget_tokens": 2000});
    let sent = body(&request(
        ModelSettings::default().tool_choice(ToolChoice::Required).extra("thinking", thinking),
    ));
    assert_eq!(
        (&sent["max_tokens"], &sent["tool_choice"]),
        (&json!(18384), &json!({"type": "auto"}))
    );
    let sent = body(&request(
        ModelSettings::default().max_tokens(9).tool_choice(ToolChoice::Tool("f".into())),
    ));
    assert_eq!(
        (&sent["max_tokens"], &sent["tool_choice"]),
        (&json!(9), &json!({"type": "tool", "name": "f"}))
    );
    for name in ["messages", "stream", "system"] {
        let request = ModelRequest::new("q").settings(ModelSettings::default().extra(name, 1));
        assert!(
            encode::body("m", "anthropic/m", &request).expect_err(name).message().contains(name)
        );
    }
    let sent =
        body(&conversation([Message::system("a"), Message::user("q"), Message::system("b")]));
    assert_eq!(
        sent["system"],
        json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    );
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_schema_of_an_answer_goes_with_the_request_where_the_model_takes_one() {
    let schema =
        OutputSchema::new("A", json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
    let mut request = ModelRequest::new("q");
    request.output = Some(Arc::new(schema.clone()));
    request.settings =
        Arc::new(ModelSettings::default().extra("output_config", json!({"effort": "low"})));
    let config = body(&request)["output_config"].take();
    assert_eq!(
        (&config["effort"], &config["format"]["type"]),
        (&json!("low"), &json!("json_schema"))
    );
    assert_eq!(config["format"]["schema"]["additionalProperties"], false);

    for (name, mode) in [
        ("claude-sonnet-4-5", OutputMode::Native),
        ("claude-opus-4-1-20250805", OutputMode::Native),
        ("claude-sonnet-4-20250514", OutputMode::Tool),
        ("claude-opus-4-0", OutputMode::Tool),
        ("claude-3-7-sonnet-latest", OutputMode::Tool),
        ("qwen3-8b", OutputMode::Tool),
    ] {
        assert_eq!(default_output_mode(name), mode, "{name}");
    }
    let map = OutputSchema::new(
        "M",
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
    );
    let native = Anthropic::builder("claude-sonnet-4-5").build().expect("usable");
    assert_eq!(native.output_mode(&schema, true), Ok(OutputMode::Native));
    assert!(native.output_mode(&map, false).expect_err("a map").starts_with("the answer is a map"));
    let by_tool = Anthropic::builder("claude-sonnet-4-5")
        .output_mode(OutputMode::Tool)
        .build()
        .expect("usable");
    assert_eq!(by_tool.output_mode(&map, false), Ok(OutputMode::Tool));
}

#[test]
fn a_call_without_an_id_gets_one_of_its_own() {
    let call = |input: u32| json!({"type": "tool_use", "name": "add", "input": {"a": input}});
    let response = whole(
        &json!([call(1), call(2), {"type": "tool_use", "id": "theirs", "name": "add", "input": {}}]),
        "tool_use",
    );
    let ids: Vec<&str> = response.message.tool_calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_3_0", "call_3_1", "theirs"]);
}

#[test]
fn files_in_an_answer_are_blocks_where_the_service_reads_them() {
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
    let messages = sent([Message::tool_results([Arc::new(result)])]);
    let text = "Seen.\n[video/mp4 at https://example.com/v.mp4 left out]\n[all: file:///a]";
    let expected = json!([
        {"type": "text", "text": text},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AQID"}},
    ]);
    assert_eq!(messages[0]["content"][0]["content"], expected);
}
