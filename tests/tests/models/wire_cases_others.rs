//! The recorded traffic of Anthropic Messages and Gemini through `agentwf call`. Results equal
//! those of the provider's own SDK, and requests match its types.

use std::sync::Arc;

use agentflow::message::{Conversation, ToolResult, ToolStatus};
use agentflow::model::anthropic::Anthropic;
use agentflow::model::gemini::Gemini;
use agentflow::model::{ModelErrorKind, ModelRequest, Secret};
use agentflow::{Message, Model};
use agentflow_tests::{
    Agentwf, Replay, VARIANTS, WireCase, WireTurn, relevant, run_all, sdk_types, wire_cases,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Builds a call with the model and the tools of a recorded request.
fn call(turn: &WireTurn, url: &str, files: &TempDir) -> Agentwf {
    let name = turn.request["model"].as_str().unwrap_or("some-model");
    let mut call = Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host")).args([
        "call",
        "--json",
        "--base-url",
        url,
    ]);
    call = call.args(["--model", &format!("{}/{name}", turn.provider)]);
    let tools = turn.request["tools"].as_array().into_iter().flatten();
    let functions = tools.flat_map(|tool| match tool["functionDeclarations"].as_array() {
        Some(functions) => functions.clone(),
        None => vec![tool.clone()],
    });
    for (at, tool) in functions.filter(|tool| tool["name"].is_string()).enumerate() {
        // Tools that run at the provider have a special type and no schema.
        if tool["type"].is_string() && tool["type"] != "custom" {
            continue;
        }
        let schema = ["input_schema", "parameters", "parametersJsonSchema"]
            .iter()
            .find_map(|key| tool.get(key));
        let schema =
            schema.map_or_else(|| json!({"type": "object", "properties": {}}), lower_types);
        let path = files.path().join(format!("{at}.json"));
        std::fs::write(&path, json!({"name": tool["name"], "parameters": schema}).to_string())
            .unwrap();
        call = call.args(["--tool", path.to_str().unwrap()]);
    }
    if turn.streamed { call.args(["--stream"]) } else { call }
}

/// Converts the type names of Gemini's schemas, such as `OBJECT`, to lower case.
fn lower_types(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match value.as_str().filter(|_| key == "type") {
                Some(name) => (key.clone(), json!(name.to_lowercase())),
                None => (key.clone(), lower_types(value)),
            })
            .collect(),
        other => other.clone(),
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn expected_anthropic(sdk: &Value) -> Value {
    let usage = &sdk["usage"];
    let calls = sdk["tool_calls"].as_array().unwrap().iter().filter(|call| call["server"] != true);
    json!({
        "text": sdk["text"],
        "tool_calls": calls
            .map(|call| json!({"id": call["id"], "name": call["name"], "arguments": call["args"]}))
            .collect::<Vec<_>>(),
        "stop_reason": match sdk["stop"].as_str().unwrap() {
            "end_turn" | "stop_sequence" => "stop",
            "tool_use" => "tool_calls",
            "max_tokens" => "length",
            other => other,
        },
        "input": count(&usage["in"]) + count(&usage["cache_read"]) + count(&usage["cache_write"]),
        "output": count(&usage["out"]),
        "reasoning": sdk["thinking"],
    })
}

fn expected_gemini(sdk: &Value) -> Value {
    let usage = &sdk["usage"];
    let calls: Vec<Value> = sdk["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| json!({"name": call["name"], "arguments": call["args"]}))
        .collect();
    json!({
        "text": sdk["text"],
        "stop_reason": match (sdk["stop"].as_str().unwrap(), calls.is_empty()) {
            ("STOP", true) => "stop",
            ("STOP", false) => "tool_calls",
            ("MAX_TOKENS", _) => "length",
            (other, _) => other,
        },
        "tool_calls": calls,
        "input": count(&usage["in"]),
        "output": count(&usage["out"]) + count(&usage["thoughts"]),
        "reasoning": sdk["thinking"],
    })
}

/// Returns the expected output of the command line for a turn.
fn expected(turn: &WireTurn) -> Value {
    let sdk = &turn.expected;
    if let Some(status) = sdk["status"].as_u64() {
        // Gemini answers an invalid key with 400.
        let kind = if status == 404 { "not_found" } else { "auth" };
        return json!({"status": status, "kind": kind, "retryable": false});
    }
    match turn.provider.as_str() {
        "anthropic" => expected_anthropic(sdk),
        _ => expected_gemini(sdk),
    }
}

/// Converts the output to the form of the expectation.
fn printed_as(printed: &Value, expected: &Value) -> Value {
    let mut printed = printed.clone();
    printed["input"] = json!(count(&printed["usage"]["input_tokens"]));
    printed["output"] = json!(count(&printed["usage"]["output_tokens"]));
    // The adapter generates the ids that Gemini leaves out.
    let with_ids = expected["tool_calls"]
        .as_array()
        .is_some_and(|calls| calls.iter().all(|call| call.get("id").is_some()));
    if let Some(calls) = printed["tool_calls"].as_array_mut().filter(|_| !with_ids) {
        for call in calls {
            assert!(
                call["id"].as_str().is_some_and(|id| !id.is_empty()),
                "a call without an id: {call}"
            );
            call.as_object_mut().unwrap().remove("id");
        }
    }
    relevant(&printed, expected)
}

/// Makes a separate call for each turn of a case in one format.
fn turn_by_turn(
    replay: &Replay,
    format: &str,
    case: &WireCase,
    variant: &str,
) -> Result<(), String> {
    let files = TempDir::new().unwrap();
    let key = format!("{}{variant}~{format}", case.id);
    for (at, turn) in case.turns.iter().enumerate() {
        if turn.provider != format {
            replay.skip_turn(&key);
            continue;
        }
        let call = call(turn, &replay.root_url(&key), &files);
        let ended = call.args(["--", "What is asked here does not matter."]).run();
        let (lines, expected) = (ended.lines(), expected(turn));
        if lines.len() != 1 || printed_as(&lines[0], &expected) != expected {
            return Err(format!("{key}[{at}]: expected {expected}, got {ended:#?}"));
        }
    }
    Ok(())
}

fn every_answer(format: &'static str) {
    let (Some(mut cases), Some(replay)) = (wire_cases(""), Replay::start()) else { return };
    cases.retain(|case| case.turns.iter().any(|turn| turn.provider == format));
    assert!(cases.len() > 5, "only {} cases", cases.len());
    let validator = sdk_types();
    let jobs = cases
        .into_iter()
        .flat_map(|case| VARIANTS.map(|variant| (case.clone(), variant)))
        .collect();
    let replay = Arc::new(replay);
    let server = Arc::clone(&replay);
    run_all(jobs, move |(case, variant)| turn_by_turn(&server, format, case, variant));
    if let Some(python) = validator {
        replay.validate(&python);
    }
}

#[test]
fn every_answer_of_anthropic_is_read_as_its_sdk_reads_it() {
    every_answer("anthropic");
}

#[test]
fn every_answer_of_gemini_is_read_as_its_sdk_reads_it() {
    every_answer("gemini");
}

fn model(format: &str, url: &str) -> Arc<dyn Model> {
    let key = Secret::new("test");
    match format {
        "anthropic" => {
            Arc::new(Anthropic::builder("some-model").base_url(url).api_key(key).build().unwrap())
        }
        _ => Arc::new(Gemini::builder("some-model").base_url(url).api_key(key).build().unwrap()),
    }
}

/// Sends the first two turns of a case as one conversation. Returns the second request as it was
/// received.
async fn second_request(replay: &Replay, case: &WireCase) -> Value {
    let url = replay.root_url(&case.id);
    let mut conversation = Conversation::from("Go on.");
    let first = model(&case.turns[0].provider, &url)
        .call(ModelRequest::new(conversation.clone()))
        .await
        .unwrap();
    let results: Vec<_> = first
        .tool_calls()
        .map(|call| Arc::new(ToolResult::new(call, ToolStatus::Success, "\"ok\"")))
        .collect();
    conversation.push(Arc::clone(&first.message));
    conversation.push(if results.is_empty() {
        Message::user("And now?")
    } else {
        Message::tool_results(results)
    });
    let second = model(&case.turns[1].provider, &url).call(ModelRequest::new(conversation)).await;
    assert!(second.is_ok(), "{}: {second:?}", case.id);
    replay.log_of(&case.id)[1]["body"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_made_goes_back_to_it_as_it_was() {
    let (Some(cases), Some(replay)) = (wire_cases(""), Replay::start()) else { return };
    let case = |id: &str| cases.iter().find(|case| case.id == id).unwrap();
    for id in ["ant-thinking-sync", "ant-redacted-thinking", "ant-tool-error"] {
        let recorded: Value = serde_json::from_slice(&case(id).turns[0].body).unwrap();
        let sent = second_request(&replay, case(id)).await;
        assert_eq!(sent["messages"][1]["content"], recorded["content"], "{id}");
    }
    for id in ["gem-tool-error", "gem-thinking-sync"] {
        let recorded: Value = serde_json::from_slice(&case(id).turns[0].body).unwrap();
        let sent = second_request(&replay, case(id)).await;
        assert_eq!(
            sent["contents"][1]["parts"], recorded["candidates"][0]["content"]["parts"],
            "{id}"
        );
    }
    // From Anthropic to Gemini: the call and its result are sent, the other provider's reasoning is
    // not.
    let sent = second_request(&replay, case("gem-resume-thinking-tools")).await;
    let text = sent.to_string();
    assert!(text.contains("functionCall") && text.contains("functionResponse"), "{text}");
    assert!(!text.contains("thought\":true") && !text.contains("signature"), "{text}");
    if let Some(python) = sdk_types() {
        replay.validate(&python);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_whole_only_by_the_providers_own_sign() {
    let (Some(cases), Some(replay)) = (wire_cases(""), Replay::start()) else { return };
    for (id, sign) in [
        ("ant-tools-loop-stream", "event: message_delta"),
        ("gem-tools-loop-stream", "finishReason"),
    ] {
        let turn = &cases.iter().find(|case| case.id == id).unwrap().turns[0];
        let body = String::from_utf8(turn.body.clone()).unwrap();
        let signed = body.find(sign).unwrap();
        for (option, kind) in
            [("end", ModelErrorKind::Truncated), ("cut", ModelErrorKind::Transport)]
        {
            for at in [signed, signed / 2, signed / 5] {
                let url = replay.root_url(&format!("{id}@{option}={at}"));
                let answer =
                    model(&turn.provider, &url).call(ModelRequest::new("Go on.").streamed()).await;
                let error = answer.expect_err("half an answer");
                assert_eq!(error.kind(), kind, "{id}@{option}={at}: {error}");
            }
        }
    }
}

#[test]
fn no_key_is_shown() {
    let (ant, gem) = (Anthropic::builder("m"), Gemini::builder("m"));
    let shown = format!(
        "{:?} {:?}",
        ant.base_url("http://h?key=sk-1")
            .api_key(Secret::new("sk-2"))
            .header("x-a", "sk-3")
            .build()
            .unwrap(),
        gem.base_url("http://h?key=sk-4")
            .api_key(Secret::new("sk-5"))
            .header("x-a", "sk-6")
            .build()
            .unwrap()
    );
    assert!(!shown.contains("sk-"), "{shown}");
    let shown = format!(
        "{:?} {:?}",
        Anthropic::builder("m").api_key(Secret::new("sk-7")),
        Gemini::builder("m").api_key(Secret::new("sk-8"))
    );
    assert!(!shown.contains("sk-"), "{shown}");
}
