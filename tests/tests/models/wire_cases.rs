//! `agentwf call` with the recorded traffic of real providers. For every split of the bytes the
//! result equals that of the provider's own SDK, and an incomplete answer is an error.

use std::ffi::OsStr;
use std::io::Write;
use std::sync::Arc;

use agentflow_tests::{
    Agentwf, Ended, Replay, VARIANTS, WireCase, WireTurn, relevant, run_all, sdk_types, wire_cases,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const CHAT: &str = "openai-chat";

fn agentwf() -> Agentwf {
    Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host"))
}

/// Builds a call with the model, the tools and the output format of a recorded request.
fn call(turn: &WireTurn, url: &str, files: &TempDir) -> Agentwf {
    let recorded = &turn.request;
    let name = recorded["model"].as_str().unwrap_or("some-model");
    let mut call = agentwf().args([
        "call",
        "--json",
        "--base-url",
        url,
        "--model",
        &format!("openai-chat/{name}"),
    ]);
    for tool in recorded["tools"].as_array().into_iter().flatten() {
        let mut file = tempfile::Builder::new().suffix(".json").tempfile_in(files).unwrap();
        file.write_all(tool.to_string().as_bytes()).unwrap();
        let (_, path) = file.keep().unwrap();
        call = call.args([OsStr::new("--tool"), path.as_os_str()]);
    }
    for key in ["response_format", "tool_choice"] {
        if let Some(value) = recorded.get(key) {
            call = call.args(["--setting", &format!("{key}={value}")]);
        }
    }
    call
}

/// Runs the call. The prompt is last, after `--`, so that it may start with any character.
fn ask(call: Agentwf) -> Ended {
    call.args(["--", "What is asked here does not matter."]).run()
}

/// Returns the expected output of the command line for a turn.
fn expected(case: &WireCase, turn: &WireTurn) -> Value {
    let sdk = &turn.expected;
    if case.id == "oai-mistral-thinking" {
        // OpenAI's SDK fails at Mistral's form of content, so the expectation comes from the
        // recording.
        return json!({
            "text": "391", "reasoning": "17 x 23 = 391.", "tool_calls": [], "stop_reason": "stop",
            "usage": {"input_tokens": null, "output_tokens": null, "cached_tokens": null, "reasoning_tokens": null},
        });
    }
    if let Some(status) = sdk["status"].as_u64() {
        let kind = match status {
            401 => "auth",
            404 => "not_found",
            other => panic!("no kind is known for the status {other}"),
        };
        return json!({"status": status, "kind": kind, "retryable": false});
    }
    let calls = sdk["tool_calls"].as_array().unwrap().iter();
    json!({
        "text": sdk["text"],
        "tool_calls": calls
            .map(|call| json!({"id": call["id"], "name": call["name"], "arguments": call["args"]}))
            .collect::<Vec<_>>(),
        "stop_reason": sdk["stop"],
        "usage": {
            "input_tokens": sdk["usage"]["in"], "output_tokens": sdk["usage"]["out"],
            "cached_tokens": sdk["usage"]["cached"], "reasoning_tokens": sdk["usage"]["reasoning"],
        },
    })
}

/// Makes a separate call for each turn of a case in one format.
fn turn_by_turn(
    replay: &Replay,
    case: &WireCase,
    variant: &str,
    streamed: bool,
) -> Result<(), String> {
    let files = TempDir::new().unwrap();
    let key = format!("{}{variant}~{}", case.id, if streamed { "streamed" } else { "whole" });
    for (at, turn) in case.turns.iter().enumerate() {
        if turn.provider != CHAT {
            replay.skip_turn(&key);
            continue;
        }
        let mut call = call(turn, &replay.base_url(&key), &files);
        if streamed {
            call = call.args(["--stream"]);
        }
        let ended = ask(call);
        let expected = expected(case, turn);
        let printed = ended.lines();
        if printed.len() != 1 || relevant(&printed[0], &expected) != expected {
            return Err(format!("{key}[{at}]: expected {expected}, got {ended:#?}"));
        }
        let code = if printed[0].get("error").is_some() { 1 } else { 0 };
        if ended.code != Some(code) {
            return Err(format!("{key}[{at}]: expected the exit code {code}: {ended:#?}"));
        }
    }
    Ok(())
}

#[test]
fn every_answer_is_read_as_the_official_sdk_reads_it() {
    let (Some(cases), Some(replay)) = (wire_cases("oai-"), Replay::start()) else { return };
    let validator = sdk_types();
    let mut jobs = Vec::new();
    for case in cases {
        for variant in VARIANTS {
            // A response is parsed by its content type, so each one is requested streamed and
            // unstreamed.
            jobs.extend([true, false].map(|streamed| (case.clone(), variant, streamed)));
        }
    }
    let replay = Arc::new(replay);
    let server = Arc::clone(&replay);
    run_all(jobs, move |(case, variant, streamed)| turn_by_turn(&server, case, variant, *streamed));
    if let Some(python) = validator {
        replay.validate(&python);
    }
}

#[test]
fn a_conversation_continues_with_results() {
    let (Some(cases), Some(replay)) = (wire_cases("oai-"), Replay::start()) else { return };
    let mut conversations = 0;
    for case in cases
        .iter()
        .filter(|case| case.turns.len() > 1 && case.turns.iter().all(|turn| turn.status == 200))
    {
        let calls = |turn: &WireTurn| turn.expected["tool_calls"].as_array().map_or(0, Vec::len);
        // A conversation continues after a turn with tool calls.
        let turns = 1 + case.turns.iter().take_while(|turn| calls(turn) > 0).count();
        if turns < 2 || case.turns.iter().any(|turn| turn.provider != CHAT) {
            continue;
        }
        conversations += 1;
        let files = TempDir::new().unwrap();
        let mut call =
            call(&case.turns[0], &replay.base_url(&case.id), &files).args(["--turns", "5"]);
        if case.turns[0].streamed {
            call = call.args(["--stream"]);
        }
        let ended = ask(call);
        let printed = ended.lines();
        assert_eq!((ended.code, printed.len()), (Some(0), turns), "{}: {ended:#?}", case.id);
        for (turn, printed) in case.turns.iter().zip(&printed) {
            let expected = expected(case, turn);
            assert_eq!(relevant(printed, &expected), expected, "{}", case.id);
        }
        // The second request contains the calls unchanged, and one result for each.
        let sent = replay.log_of(&case.id)[1]["body"]["messages"].clone();
        let roles: Vec<_> =
            sent.as_array().unwrap().iter().map(|message| message["role"].clone()).collect();
        let results = vec![json!("tool"); calls(&case.turns[0])];
        assert_eq!(roles[..2], [json!("user"), json!("assistant")], "{sent}");
        assert_eq!(roles[2..], results, "{sent}");
        assert_eq!(sent[2]["content"], "ok", "{sent}");
    }
    assert!(conversations >= 3, "only {conversations} conversations were found");
    if let Some(python) = sdk_types() {
        replay.validate(&python);
    }
}

/// Returns the position of the stop reason. Shorter answers are incomplete.
fn whole_from(body: &[u8]) -> usize {
    let reason = br#""finish_reason""#;
    let stops = body
        .windows(reason.len())
        .enumerate()
        .filter(|(_, window)| window == reason)
        .map(|(at, _)| at);
    stops
        .map(|at| at + reason.len())
        .find(|at| !body[at + 1..].trim_ascii_start().starts_with(b"null"))
        .expect("an answer says why it stopped")
}

#[derive(Clone, Copy)]
struct Broken {
    option: &'static str,
    kind: &'static str,
}

#[test]
fn half_an_answer_is_an_error() {
    let (Some(cases), Some(replay)) = (wire_cases("oai-"), Replay::start()) else { return };
    let broken = [
        Broken { option: "end", kind: "truncated" },
        Broken { option: "cut", kind: "transport" },
        Broken { option: "stall", kind: "timeout" },
    ];
    let mut jobs = Vec::new();
    for case in cases
        .into_iter()
        .filter(|case| case.turns[0].status == 200 && case.turns[0].provider == CHAT)
    {
        let whole = if case.turns[0].streamed {
            whole_from(&case.turns[0].body)
        } else {
            case.turns[0].body.trim_ascii_end().len()
        };
        for fault in broken {
            // At the start, in the middle, and just before the answer is complete.
            jobs.extend([1, whole / 2, whole - 1].map(|at| (case.clone(), fault, at)));
        }
    }
    let replay = Arc::new(replay);
    let server = Arc::clone(&replay);
    run_all(jobs, move |(case, Broken { option, kind }, at)| {
        let files = TempDir::new().unwrap();
        let (turn, key) = (&case.turns[0], format!("{}@{option}={at}", case.id));
        let mut call = call(turn, &server.base_url(&key), &files).args([
            "--max-retries",
            "0",
            "--first-byte-timeout",
            "2s",
            "--idle-timeout",
            "300ms",
        ]);
        if turn.streamed {
            call = call.args(["--stream"]);
        }
        let ended = ask(call);
        let error = ended.line()["error"].clone();
        if error["kind"] == *kind && error["retryable"] == true && ended.code == Some(1) {
            return Ok(());
        }
        Err(format!("{key}: expected {kind}, got {ended:#?}"))
    });
    if let Some(python) = sdk_types() {
        replay.validate(&python);
    }
}

#[test]
fn a_refused_call_is_retried_when_the_provider_says() {
    let (Some(cases), Some(replay)) = (wire_cases("oai-tools-loop-stream"), Replay::start()) else {
        return;
    };
    let files = TempDir::new().unwrap();
    let (case, turn) = (&cases[0], &cases[0].turns[0]);
    for streamed in [true, false] {
        let key = format!("{}@fail=429,after=2~{streamed}", case.id);
        let mut call = call(turn, &replay.base_url(&key), &files);
        if streamed {
            call = call.args(["--stream"]);
        }
        let ended = ask(call);
        let expected = expected(case, turn);
        assert_eq!(relevant(&ended.line(), &expected), expected, "{ended:#?}");
        let times: Vec<f64> =
            replay.log_of(&key).iter().map(|entry| entry["at"].as_f64().unwrap()).collect();
        assert_eq!(times.len(), 2, "one call and one retry");
        let waited = times[1] - times[0];
        assert!(
            (2.0..4.0).contains(&waited),
            "the provider said 2 s, the retry came after {waited} s"
        );
    }
}

#[test]
fn a_refused_call_is_an_error_in_the_end() {
    let (Some(cases), Some(replay)) = (wire_cases("oai-tools-loop-stream"), Replay::start()) else {
        return;
    };
    let files = TempDir::new().unwrap();
    let turn = &cases[0].turns[0];
    for (options, kind, requests) in [
        ("fail=429,times=9,after=0", "rate_limited", 2),
        ("fail=503,times=9,after=0", "overloaded", 2),
        ("fail=401,times=9", "auth", 1),
        ("fail=400,times=9", "bad_request", 1),
    ] {
        let key = format!("{}@{options}", cases[0].id);
        let ended = ask(call(turn, &replay.base_url(&key), &files).args(["--max-retries", "1"]));
        assert_eq!(
            (ended.code, &ended.line()["error"]["kind"]),
            (Some(1), &json!(kind)),
            "{ended:#?}"
        );
        assert_eq!(replay.log_of(&key).len(), requests, "{key}");
    }
}
