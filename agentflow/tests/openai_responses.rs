//! Tests the Responses adapter over real sockets: requests, ends of answers, recorded traffic.
//!
//! The tests of the Chat adapter cover time-outs, retries and broken connections, because the
//! adapters share that code.
#![cfg(feature = "openai-responses")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentflow::message::{Conversation, ToolCall, ToolResult, ToolStatus};
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::model::{
    HttpSettings, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelResponse, OutputMode,
    OutputSchema, Secret,
};
use agentflow::{Message, Model};
use agentflow_testing::within;
use futures_util::StreamExt;
use serde_json::{Value, json};
use support::{Act, Server, chunked, event, response};

const KEY: &str = "sk-do-not-show";

fn model(server: &Server) -> OpenAiResponses {
    let http = HttpSettings::default().retry_base(Duration::from_millis(1));
    OpenAiResponses::builder("m")
        .base_url(&*server.base_url)
        .api_key(Secret::new(KEY))
        .http(http)
        .build()
        .expect("usable")
}

/// Returns all events of a call, and its result.
async fn read(
    model: &OpenAiResponses,
    request: ModelRequest,
) -> (Vec<ModelEvent>, Result<ModelResponse, ModelError>) {
    let mut events = Vec::new();
    let mut stream = model.stream(request);
    while let Some(item) = within("the next event", stream.next()).await {
        match item {
            Ok(ModelEvent::Completed(response)) => {
                assert!(
                    within("the next event", stream.next()).await.is_none(),
                    "the answer is the last item"
                );
                return (events, Ok(*response));
            }
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
                return (events, Err(error));
            }
        }
    }
    panic!("the stream just stopped");
}

fn streamed() -> ModelRequest {
    ModelRequest::new("hi").streamed()
}

fn text_event(text: &str) -> Act {
    event(
        &json!({"type": "response.output_text.delta", "output_index": 0, "delta": text})
            .to_string(),
    )
}

fn completed(output: &Value) -> Act {
    event(&json!({"type": "response.completed", "response": {"status": "completed", "output": output}}).to_string())
}

#[tokio::test]
async fn a_call_and_its_answer() {
    let script =
        vec![chunked("text/event-stream"), text_event("Hello"), completed(&json!([])), Act::End];
    let server = Server::start(vec![script.clone(), script]).await;
    let model = model(&server);
    for _ in 0..2 {
        let (events, ended) = read(&model, streamed()).await;
        assert_eq!(events, [ModelEvent::Text("Hello".into())]);
        assert_eq!(ended.expect("an answer").text(), "Hello");
    }
    let received = server.received();
    assert!(received.iter().all(|request| request.connection == 0), "{received:?}");
    let head = received[0].head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/responses http/1.1"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head}");
    let body: Value = serde_json::from_str(&received[0].body).expect("JSON");
    assert_eq!(
        (&body["store"], &body["include"]),
        (&json!(false), &json!(["reasoning.encrypted_content"]))
    );
}

#[tokio::test]
async fn the_first_piece_is_handed_on_before_the_second_arrives() {
    let mut server =
        Server::start(vec![vec![chunked("text/event-stream"), text_event("first"), Act::Stall]])
            .await;
    let mut stream = model(&server).stream(streamed());
    assert_eq!(
        within("the next event", stream.next()).await.expect("a piece").expect("no error"),
        ModelEvent::Text("first".into())
    );
    drop(stream);
    server.closed().await;
}

#[tokio::test]
async fn an_answer_without_its_end_is_an_error() {
    let failed = r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"oops"}}}"#;
    for (ending, kind) in [
        (vec![Act::Close], ModelErrorKind::Transport),
        (vec![Act::End], ModelErrorKind::Truncated),
        (vec![event("[DONE]"), Act::End], ModelErrorKind::Truncated),
        (vec![event("{not json"), Act::End], ModelErrorKind::InvalidResponse),
        (vec![event(failed), Act::End], ModelErrorKind::Server),
    ] {
        let script =
            [vec![chunked("text/event-stream"), text_event("Hel")], ending.clone()].concat();
        let server = Server::start(vec![script]).await;
        let (events, ended) = read(&model(&server), streamed()).await;
        assert_eq!(events.len(), 1, "{ending:?}");
        let error = ended.expect_err("no end");
        assert_eq!(
            (error.kind(), error.request_id()),
            (kind, Some("req_1")),
            "{ending:?}: {error}"
        );
        assert_eq!(server.received().len(), 1, "{ending:?}");
    }
}

#[tokio::test]
async fn reasoning_goes_back_unchanged_and_in_place() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA+/==\u{e9}"});
    let output = json!([
        reasoning,
        {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"},
    ]);
    let whole = json!({"status": "completed", "output": output}).to_string();
    let answer = vec![Act::Write(response(200, "application/json", &whole))];
    let server = Server::start(vec![answer.clone(), answer]).await;
    let model = model(&server);
    let mut conversation = Conversation::from("hi");
    let first = read(&model, ModelRequest::new(conversation.clone())).await.1.expect("an answer");
    // Messages are stored as JSON.
    let kept: Message =
        serde_json::from_value(serde_json::to_value(&*first.message).expect("JSON"))
            .expect("a message");
    conversation.push(kept);
    let result = ToolResult::new(&ToolCall::new("c1", "f", "{}"), ToolStatus::Success, "2");
    conversation.push(Message::tool_results([result.into()]));
    read(&model, ModelRequest::new(conversation)).await.1.expect("an answer");
    let body: Value = serde_json::from_str(&server.received()[1].body).expect("JSON");
    assert_eq!(body["input"][1], reasoning);
    assert_eq!(
        body["input"][2],
        json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"})
    );
    assert_eq!(
        body["input"][3],
        json!({"type": "function_call_output", "call_id": "c1", "output": "2"})
    );
}

#[tokio::test]
async fn a_shape_that_cannot_be_asked_for_is_known_before_the_call() {
    let model = OpenAiResponses::builder("m").build().expect("usable");
    let of = |schema: Value, tools| model.output_mode(&OutputSchema::new("A", schema), tools);
    let fine =
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    assert_eq!(of(fine.clone(), true), Ok(OutputMode::Native));
    let map = json!({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": fine}}});
    assert!(of(map, true).expect_err("a map").contains("`a`"));
}

/// Compares the recorded answers, each split in several ways, with the results of the official
/// client.
#[tokio::test]
async fn recorded_answers_are_read_as_the_official_client_reads_them() {
    let root = std::env::var_os("AGENTFLOW_WIRE_CASES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/wire-cases"),
        PathBuf::from,
    );
    let Ok(cases) = std::fs::read_dir(root.join("cases")) else {
        println!("skipped: there is no recorded traffic at {}", root.display());
        return;
    };
    let mut turns = 0;
    for case in cases.map(|case| case.expect("readable").path()) {
        let name = case.file_name().expect("named").to_string_lossy().into_owned();
        turns += check_case(&case, &name).await;
    }
    assert!(turns > 25, "only {turns} recorded turns were found");
}

async fn check_case(case: &Path, name: &str) -> usize {
    let json = |file: &str| -> Value {
        serde_json::from_slice(&std::fs::read(case.join(file)).expect("recorded")).expect("JSON")
    };
    let (recorded, expected) = (json("case.json"), json("expected.json"));
    let mut turns = 0;
    for (turn, want) in recorded["interactions"]
        .as_array()
        .expect("a list")
        .iter()
        .zip(expected["turns"].as_array().expect("a list"))
    {
        if turn["provider"] != "openai-responses" {
            continue;
        }
        turns += 1;
        let head = &turn["response"];
        let body = std::fs::read(case.join(head["body_file"].as_str().expect("a name")))
            .expect("recorded");
        let crlf =
            String::from_utf8(body.clone()).expect("text").replace('\n', "\r\n").into_bytes();
        for (bytes, size) in [(&body, usize::MAX), (&body, 1), (&body, 7), (&crlf, 5)] {
            let mut script = vec![Act::Write(recorded_head(head))];
            script.extend(bytes.chunks(size).map(|piece| Act::Chunk(piece.to_vec())));
            script.push(Act::End);
            // An error before the first event is retried.
            let server = Server::start(vec![script; 6]).await;
            let model = model(&server);
            // The content type of the answer determines how it is read, so the splits are tested
            // with streaming requests only.
            let asked = if size == usize::MAX { &[true, false][..] } else { &[true][..] };
            for &stream in asked {
                let request = if stream { streamed() } else { ModelRequest::new("hi") };
                let (events, ended) = read(&model, request).await;
                let what = format!("{name}, pieces of {size}, stream {stream}");
                match ended {
                    Ok(response) => {
                        assert_eq!(events.is_empty(), !stream, "{what}");
                        check_answer(&response, &events, want, &what, name);
                    }
                    Err(error) if want["stream_error"].is_string() => {
                        assert_eq!(Some(error.message()), want["stream_error"].as_str(), "{what}");
                        assert_eq!(
                            (error.kind(), error.provider_code()),
                            (ModelErrorKind::Server, None),
                            "{what}"
                        );
                        assert_eq!(events.len(), usize::from(stream), "{what}");
                    }
                    Err(error) => {
                        assert_eq!(
                            error.status().map(u64::from),
                            want["status"].as_u64(),
                            "{what}"
                        );
                        let message = want["message"].as_str().expect("a message");
                        assert!(message.ends_with(error.message()), "{what}: {error}");
                        let kind = match name {
                            "resp-error-auth" => ModelErrorKind::Auth,
                            _ => ModelErrorKind::NotFound,
                        };
                        assert_eq!((error.kind(), error.is_retryable()), (kind, false), "{what}");
                        assert_eq!(
                            error.request_id(),
                            head["headers"]["x-request-id"].as_str(),
                            "{what}"
                        );
                    }
                }
            }
        }
    }
    turns
}

fn recorded_head(head: &Value) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n", head["status"]);
    for (name, value) in head["headers"].as_object().expect("headers") {
        text += &format!("{name}: {}\r\n", value.as_str().expect("a text"));
    }
    (text + "\r\n").into_bytes()
}

fn check_answer(
    response: &ModelResponse,
    events: &[ModelEvent],
    want: &Value,
    what: &str,
    name: &str,
) {
    assert_eq!(response.model, want["model"].as_str().expect("a name"), "{what}");
    let usage = &response.usage;
    let got = json!({
        "in": usage.input_tokens, "out": usage.output_tokens,
        "cached": usage.cached_tokens, "reasoning": usage.reasoning_tokens,
    });
    assert_eq!(got, want["usage"], "{what}");
    assert!(usage.raw.is_some(), "{what}");
    let said = |read: fn(&ModelEvent) -> &str| events.iter().map(read).collect::<String>();
    let text = said(|event| if let ModelEvent::Text(text) = event { text } else { "" });
    let reasoning = said(|event| if let ModelEvent::Reasoning(text) = event { text } else { "" });
    // The pieces make up the whole text.
    assert!(events.is_empty() || text == response.text(), "{what}");
    assert!(events.is_empty() || reasoning == response.message.reasoning(), "{what}");
    // The last event of this case has no output, so the official client returns no answer.
    if name == "resp-reasoning-completed-empty-stream" {
        assert!(response.text().starts_with("The sky looks blue"), "{what}: {}", response.text());
        assert_eq!(response.stop_reason.as_str(), "stop", "{what}");
        let Some(agentflow::message::Part::Reasoning(reasoning)) = response.message.parts().first()
        else {
            panic!("{what}")
        };
        assert!(
            reasoning.opaque.as_ref().is_some_and(|item| item["encrypted_content"].is_string()),
            "{what}"
        );
        return;
    }
    assert_eq!(response.text(), want["text"].as_str().expect("a text"), "{what}");
    assert_eq!(response.message.reasoning(), want["thinking"].as_str().expect("a text"), "{what}");
    let calls: Vec<Value> = response
        .tool_calls()
        .zip(want["tool_calls"].as_array().expect("a list"))
        .map(|(call, want)| {
            if want["input"].is_string() {
                return json!({"id": call.id, "name": call.name, "input": call.arguments});
            }
            let arguments = serde_json::from_str(&call.arguments);
            let arguments: Value =
                arguments.unwrap_or_else(|_| json!({"__invalid__": call.arguments}));
            json!({"id": call.id, "name": call.name, "args": arguments})
        })
        .collect();
    assert_eq!(Value::from(calls), want["tool_calls"], "{what}");
    assert_eq!(
        response.tool_calls().count(),
        want["tool_calls"].as_array().map_or(0, Vec::len),
        "{what}"
    );
    let stop =
        match (want["stop"].as_str().expect("a status"), response.tool_calls().next().is_some()) {
            ("completed", true) => "tool_calls",
            ("completed", false) => "stop",
            (other, _) => want["incomplete"].as_str().unwrap_or(other),
        };
    assert_eq!(response.stop_reason.as_str(), stop, "{what}");
    let encrypted: usize = response
        .message
        .parts()
        .iter()
        .filter_map(|part| match part {
            agentflow::message::Part::Reasoning(reasoning) => {
                reasoning.opaque.as_ref()?["encrypted_content"].as_str()
            }
            _ => None,
        })
        .map(str::len)
        .sum();
    assert_eq!(Some(encrypted as u64), want["encrypted"].as_u64(), "{what}");
    let _ = Arc::clone(&response.message);
}
