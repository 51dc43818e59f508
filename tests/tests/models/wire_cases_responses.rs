//! The recorded traffic of the Responses API through `agentwf call`, and typed answers of both
//! OpenAI formats. Results equal those of OpenAI's own SDK, and requests match its types.

use std::sync::Arc;

use agentflow::Model;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::model::{ModelRequest, OutputMode, OutputSchema};
use agentflow::tool::ToolDefinition;
use agentflow_tests::{
    Agentwf, Ended, Replay, VARIANTS, WireCase, WireTurn, relevant, run_all, sdk_types, wire_cases,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const RESPONSES: &str = "openai-responses";

/// Builds a call with the model and the tools of a recorded request.
fn call(turn: &WireTurn, url: &str, files: &TempDir) -> Agentwf {
    let name = turn.request["model"].as_str().unwrap_or("some-model");
    let mut call = Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host")).args([
        "call",
        "--json",
        "--base-url",
        url,
    ]);
    call = call.args(["--model", &format!("{RESPONSES}/{name}")]);
    for (at, tool) in turn.request["tools"].as_array().into_iter().flatten().enumerate() {
        if tool["type"] == "function" {
            let path = files.path().join(format!("{at}.json"));
            std::fs::write(&path, tool.to_string()).unwrap();
            call = call.args(["--tool", path.to_str().unwrap()]);
        } else {
            call = call.args(["--setting", &format!("tools=[{tool}]")]);
        }
    }
    for key in ["reasoning", "text"] {
        if let Some(value) = turn.request.get(key) {
            call = call.args(["--setting", &format!("{key}={value}")]);
        }
    }
    if turn.streamed { call.args(["--stream"]) } else { call }
}

fn ask(call: Agentwf) -> Ended {
    call.args(["--", "What is asked here does not matter."]).run()
}

/// Returns the expected output of the command line for a turn.
fn expected(case: &WireCase, turn: &WireTurn) -> Value {
    let sdk = &turn.expected;
    if let Some(status) = sdk["status"].as_u64() {
        // Here an unknown model is a bad request.
        let kind = if status == 401 { "auth" } else { "not_found" };
        return json!({"status": status, "kind": kind, "retryable": false});
    }
    if let Some(message) = sdk["stream_error"].as_str() {
        return json!({"kind": "server", "message": message, "provider_code": null});
    }
    let usage = json!({
        "input_tokens": sdk["usage"]["in"], "output_tokens": sdk["usage"]["out"],
        "cached_tokens": sdk["usage"]["cached"], "reasoning_tokens": sdk["usage"]["reasoning"],
    });
    if case.id == "resp-reasoning-completed-empty-stream" {
        // The last event has no output, so the SDK returns none. Our adapter keeps the streamed
        // text.
        return json!({"tool_calls": [], "stop_reason": "stop", "usage": usage});
    }
    let calls = sdk["tool_calls"].as_array().unwrap().iter().map(|call| {
        let arguments = [&call["input"], &call["args"]["__invalid__"]].into_iter().find(|text| text.is_string());
        json!({"id": call["id"], "name": call["name"], "arguments": arguments.unwrap_or(&call["args"])})
    });
    let calls: Vec<Value> = calls.collect();
    let stop = match sdk["stop"].as_str().unwrap() {
        "completed" if calls.is_empty() => "stop",
        "completed" => "tool_calls",
        other => other,
    };
    json!({
        "text": sdk["text"], "reasoning": sdk["thinking"], "tool_calls": calls, "stop_reason": stop, "usage": usage,
    })
}

/// Returns every case with turns of this format, including conversations that changed the provider.
fn cases() -> Option<Vec<WireCase>> {
    let mut cases = wire_cases("")?;
    cases.retain(|case| case.turns.iter().any(|turn| turn.provider == RESPONSES));
    Some(cases)
}

/// Makes a separate call for each turn of this format in a case.
fn turn_by_turn(replay: &Replay, case: &WireCase, variant: &str) -> Result<(), String> {
    let files = TempDir::new().unwrap();
    let key = format!("{}{variant}", case.id);
    for (at, turn) in case.turns.iter().enumerate() {
        if turn.provider != RESPONSES {
            replay.skip_turn(&key);
            continue;
        }
        let ended = ask(call(turn, &replay.base_url(&key), &files));
        let (printed, expected) = (ended.lines(), expected(case, turn));
        if printed.len() != 1 || relevant(&printed[0], &expected) != expected {
            return Err(format!("{key}[{at}]: expected {expected}, got {ended:#?}"));
        }
        let code = i32::from(printed[0].get("error").is_some());
        if ended.code != Some(code) {
            return Err(format!("{key}[{at}]: expected the exit code {code}: {ended:#?}"));
        }
    }
    Ok(())
}

#[test]
fn every_answer_is_read_as_the_official_sdk_reads_it() {
    let (Some(cases), Some(replay)) = (cases(), Replay::start()) else { return };
    assert!(cases.len() >= 16, "only {} cases were found", cases.len());
    let mut jobs = Vec::new();
    for case in cases {
        jobs.extend(VARIANTS.map(|variant| (case.clone(), variant)));
    }
    let replay = Arc::new(replay);
    let server = Arc::clone(&replay);
    run_all(jobs, move |(case, variant)| turn_by_turn(&server, case, variant));
    if let Some(python) = sdk_types() {
        replay.validate(&python);
    }
}

#[test]
fn a_conversation_continues_with_reasoning_and_results_in_place() {
    let (Some(cases), Some(replay)) = (cases(), Replay::start()) else { return };
    let files = TempDir::new().unwrap();
    let mut conversations = 0;
    for case in cases.iter().filter(|case| case.turns.iter().all(|turn| turn.provider == RESPONSES))
    {
        let calls = |turn: &WireTurn| turn.expected["tool_calls"].as_array().map_or(0, Vec::len);
        let turns = 1 + case.turns.iter().take_while(|turn| calls(turn) > 0).count();
        if turns < 2 || turns > case.turns.len() {
            continue;
        }
        conversations += 1;
        let ended = ask(call(&case.turns[0], &replay.base_url(&case.id), &files)
            .args(["--turns", &turns.to_string()]));
        let printed = ended.lines();
        assert_eq!((ended.code, printed.len()), (Some(0), turns), "{}: {ended:#?}", case.id);
        for (turn, printed) in case.turns.iter().zip(&printed) {
            let expected = expected(case, turn);
            assert_eq!(relevant(printed, &expected), expected, "{}", case.id);
        }
        // The second request contains every output item unchanged, and a result for each call.
        let sent = replay.log_of(&case.id)[1]["body"]["input"].as_array().unwrap().clone();
        let output = output(&case.turns[0]);
        assert_eq!(sent.len(), 1 + output.len() + calls(&case.turns[0]), "{}: {sent:?}", case.id);
        for (sent, came) in sent[1..].iter().zip(&output) {
            match came["type"].as_str().unwrap() {
                "reasoning" => assert_eq!(sent, came, "{}", case.id),
                _ => {
                    for name in ["type", "call_id", "name", "arguments", "input"] {
                        assert_eq!(sent.get(name), came.get(name), "{}", case.id);
                    }
                }
            }
        }
        for (result, call) in sent[1 + output.len()..]
            .iter()
            .zip(output.iter().filter(|item| item["call_id"].is_string()))
        {
            let kind = format!("{}_output", call["type"].as_str().unwrap());
            assert_eq!(
                *result,
                json!({"type": kind, "call_id": call["call_id"], "output": "ok"}),
                "{}",
                case.id
            );
        }
    }
    assert!(conversations >= 4, "only {conversations} conversations were found");
    if let Some(python) = sdk_types() {
        replay.validate(&python);
    }
}

/// Returns the output items of a recorded answer.
fn output(turn: &WireTurn) -> Vec<Value> {
    let body = String::from_utf8(turn.body.clone()).unwrap();
    let whole: Value = if turn.streamed {
        let mut last = body
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .filter(|data| data.trim().starts_with('{'));
        serde_json::from_str::<Value>(last.next_back().unwrap()).unwrap()["response"].take()
    } else {
        serde_json::from_str(&body).unwrap()
    };
    whole["output"].as_array().unwrap().clone()
}

#[test]
fn half_an_answer_is_an_error() {
    let (Some(cases), Some(replay)) = (cases(), Replay::start()) else { return };
    let mut jobs = Vec::new();
    for case in cases
        .into_iter()
        .filter(|case| case.turns[0].status == 200 && case.turns[0].provider == RESPONSES)
    {
        let turn = &case.turns[0];
        if turn.expected["stream_error"].is_string() {
            continue;
        }
        // A stream is complete with its last event, a document with its last brace.
        let body = turn.body.trim_ascii_end();
        let whole = if turn.streamed {
            body.iter().rposition(|byte| *byte == b'{').unwrap()
        } else {
            body.len()
        };
        for (option, kind) in [("end", "truncated"), ("cut", "transport"), ("stall", "timeout")] {
            jobs.extend([1, whole / 2, whole - 1].map(|at| (case.clone(), option, kind, at)));
        }
    }
    let replay = Arc::new(replay);
    let server = Arc::clone(&replay);
    run_all(jobs, move |(case, option, kind, at)| {
        let files = TempDir::new().unwrap();
        let key = format!("{}@{option}={at}", case.id);
        let limits =
            ["--max-retries", "0", "--first-byte-timeout", "2s", "--idle-timeout", "300ms"];
        let ended = ask(call(&case.turns[0], &server.base_url(&key), &files).args(limits));
        let error = ended.line()["error"].clone();
        if error["kind"] == *kind && error["retryable"] == true && ended.code == Some(1) {
            return Ok(());
        }
        Err(format!("{key}: expected {kind}, got {ended:#?}"))
    });
}

/// Repeats a recorded typed request. The request format equals the recorded one, with and without
/// tools.
#[tokio::test]
async fn a_typed_answer_is_asked_for_as_it_was_recorded() {
    let (Some(cases), Some(replay)) = (wire_cases(""), Replay::start()) else { return };
    let mut typed = 0;
    for case in cases.iter().filter(|case| case.id.contains("-structured-")) {
        let turn = &case.turns[0];
        let (name, url) =
            (turn.request["model"].as_str().unwrap_or_default(), replay.base_url(&case.id));
        let native = OutputMode::Native;
        let (model, field): (Box<dyn Model>, _) = match turn.provider.as_str() {
            RESPONSES => {
                let model = OpenAiResponses::builder(name)
                    .base_url(url)
                    .output_mode(native)
                    .build()
                    .unwrap();
                (Box::new(model), "/text/format")
            }
            "openai-chat" => {
                let model =
                    OpenAiChat::builder(name).base_url(url).output_mode(native).build().unwrap();
                (Box::new(model), "/response_format/json_schema")
            }
            _ => continue,
        };
        typed += 1;
        let recorded = turn.request.pointer(field).expect("a typed request");
        let schema =
            OutputSchema::new(recorded["name"].as_str().unwrap(), recorded["schema"].clone());
        let tools: Vec<ToolDefinition> = turn.request["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|tool| tool.get("function").unwrap_or(tool))
            .map(|tool| {
                ToolDefinition::new(tool["name"].as_str().unwrap(), "", tool["parameters"].clone())
            })
            .collect();
        assert_eq!(model.output_mode(&schema, !tools.is_empty()), Ok(native), "{}", case.id);
        let mut request = ModelRequest::new("Answer.")
            .tools(tools.into_iter().collect::<agentflow::tool::ToolManifest>());
        request.stream = turn.streamed;
        request.output = Some(Arc::new(schema));
        let response = model.call(request).await.unwrap();
        assert_eq!(response.text(), turn.expected["text"].as_str().unwrap(), "{}", case.id);
        let body = replay.log_of(&case.id)[0]["body"].clone();
        let sent = body.pointer(field).expect("a typed request");
        assert_eq!(
            (&sent["schema"], &sent["strict"]),
            (&recorded["schema"], &json!(true)),
            "{}",
            case.id
        );
        assert_eq!(sent["name"], recorded["name"], "{}", case.id);
    }
    assert!(typed >= 4, "only {typed} typed requests were found");
    if let Some(python) = sdk_types() {
        replay.validate(&python);
    }
}
