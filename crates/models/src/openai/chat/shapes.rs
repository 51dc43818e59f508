//! Tests of encoded requests byte for byte, and of responses in the unusual forms that servers
//! send.

use std::sync::Arc;

use agentflow_core::message::{
    Conversation, Media, Message, Part, ResourceLink, Role, ToolCall, ToolContent, ToolPart,
    ToolResult, ToolStatus,
};
use agentflow_core::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelResponse, ModelSettings,
    OutputSchema, StopReason, ToolChoice,
};
use agentflow_core::tool::{ToolDefinition, ToolManifest};
use serde_json::{Value, json};

use super::decode::ChatDecoder;
use super::encode;
use crate::assembly::reasoning;
use crate::http::{Decode, Deltas, SseEvent, SseFlow};

fn body(request: &ModelRequest) -> Value {
    let bytes = encode::body("m", "openai-chat/m", false, request).expect("a request");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn wire(message: Message) -> Value {
    body(&ModelRequest::new(message))["messages"].take()
}

fn call(id: &str, arguments: &str) -> Part {
    Part::ToolCall(Arc::new(ToolCall::new(id, "look", arguments)))
}

fn result(id: &str, status: ToolStatus, output: &str) -> Arc<ToolResult> {
    Arc::new(ToolResult::new(&ToolCall::new(id, "look", ""), status, output))
}

#[test]
fn a_whole_request_byte_for_byte() {
    let conversation: Conversation = [
        Message::system("Be \"brief\"."),
        Message::user("Look."),
        Message::new(Role::Assistant, vec![call("a", "{\"x\": 1}"), call("b", "")]),
        Message::tool_results([
            result("a", ToolStatus::Success, "\"seen\""),
            result("b", ToolStatus::Timeout, "it took more than 1 s"),
        ]),
    ]
    .into_iter()
    .collect();
    let look = ToolDefinition::new("look", "Looks.", json!({"type": "object", "properties": {}}));
    let settings = ModelSettings::default().temperature(0.5).max_tokens(9).stop("END");
    let request = ModelRequest::new(conversation)
        .tools(ToolManifest::from_iter([look]))
        .settings(settings)
        .streamed();
    let bytes = encode::body("m", "openai-chat/m", false, &request).expect("a request");
    let expected = concat!(
        r#"{"messages":[{"role":"system","content":"Be \"brief\"."},{"role":"user","content":"Look."},"#,
        r#"{"role":"assistant","content":null,"tool_calls":["#,
        r#"{"id":"a","type":"function","function":{"name":"look","arguments":"{\"x\": 1}"}},"#,
        r#"{"id":"b","type":"function","function":{"name":"look","arguments":"{}"}}]},"#,
        r#"{"role":"tool","content":"seen","tool_call_id":"a"},"#,
        r#"{"role":"tool","content":"Error (timeout): it took more than 1 s","tool_call_id":"b"}],"#,
        r#""tools":[{"type":"function","function":{"name":"look","description":"Looks.","#,
        r#""parameters":{"properties":{},"type":"object"}}}],"stream":true,"stream_options":{"include_usage":true},"#,
        r#""model":"m","temperature":0.5,"max_tokens":9,"stop":["END"]}"#,
    );
    assert_eq!(String::from_utf8(bytes).expect("text"), expected);
    // Encoding the same request again gives the same bytes.
    let again = encode::body("m", "openai-chat/m", false, &request).expect("a request");
    assert_eq!(String::from_utf8(again).expect("text"), expected);
}

#[test]
fn a_message_is_encoded_once() {
    let request = ModelRequest::new("hi");
    let bytes = |format| encode::body("m", format, false, &request).expect("a request");
    bytes("openai-chat/m");
    let message = &request.messages.messages()[0];
    message.encoded("openai-chat/m", |_| panic!("encoded before"));
}

#[test]
fn files_go_where_the_format_has_a_place_for_them() {
    let media = |mime_type: &str, url: &str, name: Option<&str>| {
        let media = Media::new(mime_type, url);
        Part::Media(name.map_or_else(|| media.clone(), |name| media.clone().name(name)))
    };
    let parts = vec![
        Part::Text { text: "See".into() },
        media("image/png", "https://h/p.png", None),
        media("audio/wav", "data:audio/wav;base64,AAAA", None),
        media("application/pdf", "data:application/pdf;base64,BBBB", Some("a.pdf")),
    ];
    assert_eq!(
        wire(Message::new(Role::User, parts.clone())),
        json!([{"role": "user", "content": [
            {"type": "text", "text": "See"},
            {"type": "image_url", "image_url": {"url": "https://h/p.png"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,BBBB", "filename": "a.pdf"}},
        ]}])
    );
    // An image from a tool is sent in a user message, because tool messages contain only text.
    let tool = Message::new(
        Role::Tool,
        vec![
            Part::ToolResult(result("a", ToolStatus::Success, "1")),
            media("image/png", "https://h/p.png", None),
        ],
    );
    let roles: Vec<Value> = wire(tool)
        .as_array()
        .expect("a list")
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(roles, ["tool", "user"]);
    assert_eq!(
        wire(Message::new(Role::System, parts))[0]["content"][1],
        json!({"type": "text", "text": "[image/png left out]"})
    );
}

#[test]
fn odd_messages_stay_valid() {
    assert_eq!(wire(Message::new(Role::User, vec![])), json!([{"role": "user", "content": ""}]));
    assert_eq!(
        wire(Message::new(Role::Assistant, vec![])),
        json!([{"role": "assistant", "content": ""}])
    );
    assert_eq!(wire(Message::new(Role::Tool, vec![])), json!([]));
    let parts = vec![Part::Text { text: "a".into() }, Part::Text { text: "b".into() }];
    assert_eq!(
        wire(Message::new(Role::Assistant, parts)),
        json!([{"role": "assistant", "content": "ab"}])
    );
}

#[test]
fn reasoning_goes_back_to_the_model_that_made_it_only() {
    let message = |provider: &str, model: &str, opaque: Value| {
        let opaque = (!opaque.is_null()).then_some(opaque);
        let reasoning = reasoning("hm".into(), provider.into(), model.into(), opaque);
        wire(Message::new(
            Role::Assistant,
            vec![Part::Reasoning(reasoning), Part::Text { text: "yes".into() }],
        ))[0]
            .take()
    };
    let plain = json!({"role": "assistant", "content": "yes"});
    let (content, details) =
        (json!({"reasoning_content": true}), json!({"reasoning_details": [{"data": "x"}]}));
    assert_eq!(message("openai-chat", "m", content.clone())["reasoning_content"], "hm");
    assert_eq!(
        message("openai-chat", "m", details.clone())["reasoning_details"],
        details["reasoning_details"]
    );
    assert_eq!(message("openai-chat", "m", Value::Null), plain);
    assert_eq!(message("openai-chat", "other", content.clone()), plain);
    assert_eq!(message("anthropic", "m", details), plain);
}

#[test]
fn settings_and_further_fields() {
    let of = |official: bool, settings: ModelSettings| {
        let look = ToolDefinition::new("look", "", json!({"type": "object"}));
        let request =
            ModelRequest::new("hi").tools(ToolManifest::from_iter([look])).settings(settings);
        encode::body("m", "f", official, &request).map(|bytes| {
            serde_json::from_slice::<Value>(&bytes).expect("JSON without a name twice")
        })
    };
    let extra = |fields: Value| {
        let settings = ModelSettings::default().max_tokens(9);
        fields
            .as_object()
            .expect("fields")
            .clone()
            .into_iter()
            .fold(settings, |settings, (k, v)| settings.extra(k, v))
    };
    let official = of(true, extra(json!({}))).expect("a request");
    assert_eq!(
        (&official["max_completion_tokens"], &official["max_tokens"]),
        (&json!(9), &Value::Null)
    );
    assert!(official["tools"][0]["function"].get("description").is_none());
    assert_eq!(of(false, extra(json!({}))).expect("a request")["max_tokens"], 9);
    // The fields from `extra` take precedence, and no key is duplicated.
    let own = of(true, extra(json!({"max_tokens": 5, "model": "n", "reasoning_effort": "low"})))
        .expect("a request");
    assert_eq!(own["model"], "n");
    assert_eq!((&own["max_completion_tokens"], &own["max_tokens"]), (&Value::Null, &json!(5)));
    assert_eq!(own["reasoning_effort"], "low");
    for name in ["messages", "tools", "stream"] {
        let error = of(true, extra(json!({name: []}))).expect_err("ours");
        assert_eq!(error.kind(), ModelErrorKind::BadRequest);
        assert!(error.message().contains(name), "{error}");
    }
    let chosen = |choice| {
        of(true, ModelSettings::default().tool_choice(choice)).expect("a request")["tool_choice"]
            .take()
    };
    assert_eq!(chosen(ToolChoice::Required), "required");
    assert_eq!(chosen(ToolChoice::Tool("look".into()))["function"]["name"], "look");
    let settings = ModelSettings::default().tool_choice(ToolChoice::Auto);
    let without = body(&ModelRequest::new("hi").settings(settings));
    assert!(without.get("tool_choice").is_none() && without.get("tools").is_none(), "{without}");
}

/// Reads chunks as a stream of events.
fn read(chunks: &[Value]) -> Result<(Vec<ModelEvent>, Option<ModelResponse>), ModelError> {
    let mut decoder = ChatDecoder::new("asked".into(), 3);
    let mut deltas = Deltas::new(true);
    for chunk in chunks {
        let data = chunk.to_string();
        let flow = decoder.event(SseEvent { name: b"", data: data.as_bytes() }, &mut deltas)?;
        assert_ne!(flow, SseFlow::End);
    }
    Ok((deltas.drain(), decoder.complete()))
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn answer(chunks: &[Value]) -> ModelResponse {
    read(chunks).expect("readable").1.expect("whole")
}

fn calls(chunks: &[Value]) -> Vec<(String, String, String)> {
    let response = answer(chunks);
    response
        .tool_calls()
        .map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone()))
        .collect()
}

fn piece(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    delta(
        json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}),
    )
}

/// The arguments are not parsed again for each piece that ends with a brace.
#[test]
fn the_cost_of_a_piece_does_not_grow_with_the_arguments() {
    let null = || Value::Null;
    let mut chunks = vec![piece(json!(0), json!("a"), json!("look"), json!("{\"x\":\""))];
    chunks.extend((0..50_000).map(|_| piece(json!(0), null(), null(), json!("}"))));
    chunks.extend([piece(json!(0), null(), null(), json!("\"}")), finish("tool_calls")]);
    let begin = std::time::Instant::now();
    let found = calls(&chunks);
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!((found.len(), found[0].2.len()), (1, 50_008));
}

#[test]
fn pieces_of_calls_find_their_call() {
    let triple = |id: &str, name: &str, arguments: &str| {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    };
    let (a, b) = (triple("a", "look", "{\"x\":1}"), triple("b", "see", "{}"));
    let null = Value::Null;
    // By index, interleaved.
    let chunks = [
        piece(json!(0), json!("a"), json!("look"), json!("")),
        piece(json!(1), json!("b"), json!("see"), json!("{")),
        piece(json!(0), null.clone(), null.clone(), json!("{\"x\":1}")),
        piece(json!(1), null.clone(), null.clone(), json!("}")),
        finish("tool_calls"),
    ];
    assert_eq!(calls(&chunks), [a.clone(), b.clone()]);
    // The same index for every call, with different ids.
    let chunks = [
        piece(json!(0), json!("a"), json!("look"), json!("{\"x\":1}")),
        piece(json!(0), json!("b"), json!("see"), json!("{")),
        piece(json!(0), json!("b"), null.clone(), json!("}")),
        finish("tool_calls"),
    ];
    assert_eq!(calls(&chunks), [a.clone(), b.clone()]);
    // Without an index.
    let chunks = [
        piece(null.clone(), json!("a"), json!("look"), json!("{\"x\"")),
        piece(null.clone(), null.clone(), null.clone(), json!(":1}")),
        piece(null.clone(), json!("b"), json!("see"), json!({})),
        finish("stop"),
    ];
    assert_eq!(calls(&chunks), [a, b]);
    // Without index and id: a name after complete arguments starts another call, and ids are
    // assigned.
    let chunks = [
        piece(null.clone(), json!(""), json!("look"), json!("{}")),
        piece(null.clone(), json!(""), json!("look"), json!("{}")),
        finish("stop"),
    ];
    assert_eq!(
        calls(&chunks),
        [triple("call_3_0", "look", "{}"), triple("call_3_1", "look", "{}")]
    );
    // A name that is repeated in every piece is reported once.
    let chunks = [
        piece(json!(0), json!("a"), json!("look"), json!("{")),
        piece(json!(0), json!("a"), json!("look"), json!("}")),
        finish("tool_calls"),
    ];
    assert_eq!(calls(&chunks), [triple("a", "look", "{}")]);
}

#[test]
fn pieces_handed_on_say_ids_and_names_once() {
    let chunks = [
        piece(json!(0), json!("a"), json!("look"), json!("")),
        piece(json!(0), json!("a"), json!("look"), json!("{}")),
        finish("tool_calls"),
    ];
    let (events, _) = read(&chunks).expect("readable");
    let said: Vec<_> = events
        .iter()
        .map(|event| match event {
            ModelEvent::ToolCall(call) => {
                (call.index, call.id.as_deref(), call.name.as_deref(), &*call.arguments)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(said, [(0, Some("a"), Some("look"), ""), (0, None, None, "{}")]);
}

#[test]
fn an_answer_is_whole_only_with_its_reason() {
    let text = delta(json!({"role": "assistant", "content": "hi"}));
    assert_eq!(read(std::slice::from_ref(&text)).expect("readable").1, None);
    for (reason, expected) in [
        ("stop", StopReason::Stop),
        ("length", StopReason::Length),
        ("content_filter", StopReason::ContentFilter),
        ("tool_calls", StopReason::ToolCalls),
        ("function_call", StopReason::ToolCalls),
        ("odd", StopReason::Other("odd".into())),
    ] {
        assert_eq!(answer(&[text.clone(), finish(reason)]).stop_reason, expected);
    }
    let call = piece(json!(0), json!("a"), json!("look"), json!("{}"));
    assert_eq!(answer(&[call.clone(), finish("stop")]).stop_reason, StopReason::ToolCalls);
    assert_eq!(answer(&[call, finish("length")]).stop_reason, StopReason::Length);
    let refused = answer(&[delta(json!({"refusal": "I will not."})), finish("stop")]);
    assert_eq!((&refused.stop_reason, &*refused.text()), (&StopReason::Refusal, "I will not."));
}

#[test]
fn usage_is_read_wherever_it_is() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4,
        "prompt_tokens_details": null, "completion_tokens_details": {"reasoning_tokens": 1}});
    let last = json!({"choices": [], "usage": usage});
    let first = json!({"choices": [{"delta": {"content": "x"}}], "usage": null});
    let response = answer(&[first.clone(), finish("stop"), last]);
    let got = response.usage;
    assert_eq!(
        (got.input_tokens, got.output_tokens, got.cached_tokens, got.reasoning_tokens),
        (5, 2, Some(4), Some(1))
    );
    assert_eq!(got.raw.as_deref(), Some(&usage));
    let in_choice = json!({"choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]});
    assert_eq!(answer(&[first, in_choice]).usage.input_tokens, 5);
    // An invalid count must not discard the response.
    let odd = json!({"choices": [], "usage": {"prompt_tokens": "many"}});
    assert_eq!(answer(&[finish("stop"), odd]).usage.input_tokens, 0);
}

#[test]
fn reasoning_is_kept_by_whatever_name_it_has() {
    let response = answer(&[
        delta(json!({"reasoning_content": "a"})),
        delta(json!({"reasoning_content": "b", "reasoning": "b"})),
        delta(json!({"content": "yes"})),
        finish("stop"),
    ]);
    let Part::Reasoning(reasoning) = &response.message.parts()[0] else { panic!("{response:?}") };
    assert_eq!((&*reasoning.text, &*reasoning.model), ("ab", "asked"));
    assert_eq!(reasoning.opaque.as_deref(), Some(&json!({"reasoning_content": true})));

    let text = |text: &str| json!({"type": "reasoning.text", "text": text, "index": 0});
    let response = answer(&[
        delta(json!({"reasoning": "a", "reasoning_details": [text("a")]})),
        delta(json!({"reasoning_details": [text("b")]})),
        delta(
            json!({"reasoning_details": [{"type": "reasoning.text", "text": "", "signature": "s", "index": 0}]}),
        ),
        delta(
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1}]}),
        ),
        finish("stop"),
    ]);
    let Part::Reasoning(reasoning) = &response.message.parts()[0] else { panic!("{response:?}") };
    assert_eq!(reasoning.text, "ab");
    let details = json!({"reasoning_details": [
        {"type": "reasoning.text", "text": "ab", "signature": "s", "index": 0},
        {"type": "reasoning.encrypted", "data": "x", "index": 1},
    ]});
    assert_eq!(reasoning.opaque.as_deref(), Some(&details));
}

#[test]
fn a_calls_further_content_goes_back_to_its_model() {
    let extra = json!({"google": {"thought_signature": "s"}});
    let chunk = delta(json!({"tool_calls": [{"index": 0, "id": "a", "extra_content": extra,
        "function": {"name": "look", "arguments": "{}"}}]}));
    let message = answer(&[chunk, finish("tool_calls")]).message;
    let of = |model: &str| {
        let request = ModelRequest::new(Message::clone(&message));
        let bytes = encode::body(model, model, false, &request).expect("a request");
        serde_json::from_slice::<Value>(&bytes).expect("JSON")["messages"][0]["tool_calls"][0]["extra_content"].take()
    };
    assert_eq!(of("asked"), extra);
    assert_eq!(of("other"), Value::Null);
}

#[test]
fn only_the_first_choice_is_read() {
    let chunk = json!({"choices": [
        {"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"},
        {"index": 0, "delta": {"content": "yes"}, "finish_reason": null},
    ]});
    assert_eq!(answer(&[chunk, finish("stop")]).text(), "yes");
}

#[test]
fn errors_in_the_stream_end_it() {
    for chunk in [
        json!({"error": {"message": "oops", "code": 500}}),
        json!({"error": "oops"}),
        json!({"object": "error", "message": "oops", "code": 500}),
        json!({"choices": [{"index": 0, "error": {"message": "oops", "code": 502}, "finish_reason": "error"}]}),
    ] {
        let error = read(std::slice::from_ref(&chunk)).expect_err("an error");
        assert_eq!((error.kind(), error.message()), (ModelErrorKind::Server, "oops"), "{chunk}");
    }
    let error = read(&[json!({"choices": 5})]).expect_err("unreadable");
    assert_eq!(error.kind(), ModelErrorKind::InvalidResponse);
}

#[test]
fn a_document_without_an_answer_is_an_error() {
    let read = |body: &str| {
        let mut decoder = ChatDecoder::new("asked".into(), 1);
        let read = decoder.document(body.as_bytes(), &mut Deltas::new(false));
        read.map(|()| decoder.complete().expect("whole"))
    };
    assert_eq!(
        read("{\"choices\":[{\"message\":{\"content\":\"hi\"}}]}").expect("an answer").text(),
        "hi"
    );
    for (body, kind) in [
        ("{\"ok\":true}", ModelErrorKind::InvalidResponse),
        ("{\"choices\":[]}", ModelErrorKind::InvalidResponse),
        ("nonsense", ModelErrorKind::InvalidResponse),
        ("{\"choices\":[{\"mess", ModelErrorKind::Truncated),
        ("", ModelErrorKind::Truncated),
        ("{\"error\":{\"message\":\"x\",\"code\":429}}", ModelErrorKind::RateLimited),
    ] {
        assert_eq!(read(body).expect_err(body).kind(), kind, "{body}");
    }
}

#[test]
fn any_piece_of_json_is_taken_or_refused_but_never_panics() {
    for odd in [
        "null",
        "[]",
        "1",
        "\"x\"",
        "{}",
        "{\"choices\":null}",
        "{\"choices\":[{}]}",
        "{\"choices\":[{\"delta\":null}]}",
    ] {
        let mut decoder = ChatDecoder::new("asked".into(), 1);
        let _ = decoder.event(SseEvent { name: b"", data: odd.as_bytes() }, &mut Deltas::new(true));
        assert!(decoder.complete().is_none(), "{odd}");
    }
}

#[test]
fn a_typed_answer_is_asked_for_in_strict_form() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let mut request = ModelRequest::new("hi");
    request.output = Some(Arc::new(OutputSchema::new("A", schema)));
    let strict = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": false});
    assert_eq!(
        body(&request)["response_format"],
        json!({"type": "json_schema", "json_schema": {"name": "A", "schema": strict, "strict": true}})
    );
    request.settings =
        Arc::new(ModelSettings::default().extra("response_format", json!({"type": "json_object"})));
    let error = encode::body("m", "openai-chat/m", false, &request).expect_err("two shapes");
    assert!(error.message().contains("`response_format`"), "{error}");
    request.settings = Arc::default();
    request.output = Some(Arc::new(OutputSchema::new("A", json!({"type": "object"}))));
    let error = encode::body("m", "openai-chat/m", false, &request).expect_err("any object");
    assert_eq!(error.kind(), ModelErrorKind::BadRequest);
}

#[test]
fn files_in_an_answer_are_sentences() {
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
    let text = "Seen.\n[image/png left out]\n[video/mp4 at https://example.com/v.mp4 left out]\n[all: file:///a]";
    assert_eq!(wire(Message::tool_results([Arc::new(result)]))[0]["content"], json!(text));
}
