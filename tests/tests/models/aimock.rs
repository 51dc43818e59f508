//! An agent against a third-party server that follows our script, in each wire format: a turn with
//! two tool calls, a turn with one, and an answer. The script continues only with the expected tool
//! results.

use std::path::Path;
use std::process::Command;

use agentflow_tests::{Agentwf, Process, free_port, get};
use serde_json::{Value, json};

const ANSWER: &str = "The sum is 5, and with the 12 degrees of Oslo it is 17.";

fn server() -> Option<(Process, String)> {
    let package = agentflow_tests::aimock()?;
    let port = free_port();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/aimock/two-tools.json");
    let mut command = Command::new("node");
    command.arg(package.join("dist/cli.js")).args([
        "--strict",
        "--validate-on-load",
        "--port",
        &port.to_string(),
    ]);
    command.arg("--fixtures").arg(fixtures);
    let mut process = Process::start(&mut command).expect("node can be started");
    let base = format!("http://127.0.0.1:{port}");
    process.wait_until("it answers", |_| get(&format!("{base}/__aimock/journal")).ok());
    Some((process, base))
}

fn run(base: &str, format: &str, version: &str) -> Agentwf {
    Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host")).args([
        "run",
        "--model",
        &format!("{format}/scripted"),
        "--base-url",
        &format!("{base}{version}"),
        "--tools",
        "add,get_weather",
        "--task",
        "Tell me the sum and the weather.",
    ])
}

/// Wire formats: name, path of the base URL, suffix of the path of a streamed call, and the form of
/// the answer 5.
const FORMATS: [(&str, &str, &str, &str); 4] = [
    ("openai-chat", "/v1", "/v1/chat/completions", "5"),
    ("openai-responses", "/v1", "/v1/responses", "5"),
    ("anthropic", "", "/v1/messages", "5"),
    ("gemini", "", "/v1beta/models/scripted:streamGenerateContent?alt=sse", r#"{"output":5}"#),
];

#[test]
fn an_agent_gets_through_a_scripted_conversation() {
    let Some((_process, base)) = server() else { return };
    for (format, version, path, five) in FORMATS {
        let ended = run(&base, format, version).run();
        assert_eq!((ended.code, ended.stdout.trim()), (Some(0), ANSWER), "{format}: {ended:#?}");
        for said in ["step 3", "2 calls of add", "1 call of get_weather"] {
            assert!(ended.stderr.contains(said), "{format}: nothing says {said}: {}", ended.stderr);
        }

        // The server records all requests in the shape of the Chat format.
        let journal = get(&format!("{base}/__aimock/journal")).unwrap().json();
        let of_format = journal.as_array().unwrap().iter().filter(|entry| entry["path"] == path);
        let requests: Vec<&Value> = of_format.map(|entry| &entry["body"]).collect();
        assert_eq!(requests.len(), 3, "{format}: {journal:#}");
        // Both results were sent in one turn, in the order of the calls.
        let messages = requests[1]["messages"].as_array().unwrap();
        let results: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
        let ids: Vec<_> = results.iter().map(|result| result["tool_call_id"].clone()).collect();
        assert_eq!(ids, [json!("call_add"), json!("call_weather")], "{format}");
        assert_eq!(results[0]["content"], five, "{format}");
        assert_eq!(messages.last(), results.last().copied(), "{format}");
        // Every request offers the same tools in the same order, so that the provider's prompt
        // cache applies.
        let names = |request: &Value| {
            let tools = request["tools"].as_array().unwrap().iter();
            tools.map(|tool| tool["function"]["name"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(requests[0]), [json!("add"), json!("get_weather")], "{format}");
        assert!(
            requests.iter().all(|request| request["tools"] == requests[0]["tools"]),
            "{format}"
        );
    }
}

#[test]
fn its_events_are_whole_and_in_order() {
    let Some((_process, base)) = server() else { return };
    for (format, version, ..) in FORMATS {
        let ended = run(&base, format, version).args(["--events", "jsonl"]).run();
        assert_eq!(ended.code, Some(0), "{format}: {ended:#?}");
        let events = ended.lines();
        let recorded: Vec<&Value> =
            events.iter().filter(|event| event.get("part").is_none()).collect();
        let numbers: Vec<u64> =
            recorded.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=recorded.len() as u64).collect::<Vec<_>>(), "{format}");
        // A delta directly follows the recorded event it names.
        let mut last = (0, 0);
        for event in &events {
            let place = (event["seq"].as_u64().unwrap(), event["part"].as_u64().unwrap_or(0));
            assert!(place > last, "{format}: {place:?} came after {last:?}");
            last = place;
        }
        let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
        assert_eq!((named("run.started"), named("run.completed")), (1, 1), "{format}");
        assert_eq!((named("model.started"), named("model.completed")), (3, 3), "{format}");
        assert_eq!((named("tool.started"), named("tool.completed")), (3, 3), "{format}");
        let pieces = events.iter().filter_map(|event| event["payload"]["text"].as_str());
        assert_eq!(pieces.collect::<String>(), ANSWER, "{format}");
        // The text may follow reasoning that only its provider can read.
        let parts =
            recorded.last().unwrap()["payload"]["agent"]["message"]["parts"].as_array().unwrap();
        assert_eq!(parts.last().unwrap(), &json!({"type": "text", "text": ANSWER}), "{format}");
    }
}
