//! An agent against a server that somebody else wrote and that follows a script of ours: two tool calls in one turn, a
//! further one, an answer. The script goes on only when the results it got are the right ones.

use std::path::Path;
use std::process::Command;

use agentflow_tests::{Agentwf, Process, free_port, get, node_package};
use serde_json::{Value, json};

const VERSION: &str = "1.43.0";
const ANSWER: &str = "The sum is 5, and with the 12 degrees of Oslo it is 17.";

fn server() -> Option<(Process, String)> {
    let package = node_package("@copilotkit/aimock", VERSION)?;
    let port = free_port();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/aimock/two-tools.json");
    let mut command = Command::new("node");
    command.arg(package.join("dist/cli.js")).args(["--strict", "--validate-on-load", "--port", &port.to_string()]);
    command.arg("--fixtures").arg(fixtures);
    let mut process = Process::start(&mut command).expect("node can be started");
    let base = format!("http://127.0.0.1:{port}");
    process.wait_until("it answers", |_| get(&format!("{base}/__aimock/journal")).ok());
    Some((process, base))
}

fn run(base: &str) -> Agentwf {
    Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host")).args([
        "run",
        "--model",
        "openai-chat/scripted",
        "--base-url",
        &format!("{base}/v1"),
        "--tools",
        "add,get_weather",
        "--task",
        "Tell me the sum and the weather.",
    ])
}

#[test]
fn an_agent_gets_through_a_scripted_conversation() {
    let Some((_process, base)) = server() else { return };
    let ended = run(&base).run();
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), ANSWER), "{ended:#?}");
    for said in ["step 3", "2 calls of add", "1 call of get_weather"] {
        assert!(ended.stderr.contains(said), "nothing says {said}: {}", ended.stderr);
    }

    let journal = get(&format!("{base}/__aimock/journal")).unwrap().json();
    let requests: Vec<&Value> = journal.as_array().unwrap().iter().map(|entry| &entry["body"]).collect();
    assert_eq!(requests.len(), 3, "{journal:#}");
    // Both results went back in one turn, in the order of the calls.
    let messages = requests[1]["messages"].as_array().unwrap();
    let results: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
    let ids: Vec<_> = results.iter().map(|result| result["tool_call_id"].clone()).collect();
    assert_eq!(ids, [json!("call_add"), json!("call_weather")]);
    assert_eq!(results[0]["content"], "5");
    // Every request offers the same tools in the same order, so that a provider's cache can be used.
    assert!(requests.iter().all(|request| request["tools"] == requests[0]["tools"]));
}

#[test]
fn its_events_are_whole_and_in_order() {
    let Some((_process, base)) = server() else { return };
    let ended = run(&base).args(["--events", "jsonl"]).run();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let events = ended.lines();
    let recorded: Vec<&Value> = events.iter().filter(|event| event.get("part").is_none()).collect();
    let numbers: Vec<u64> = recorded.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=recorded.len() as u64).collect::<Vec<_>>());
    // A delta comes right after the recorded event it names.
    let mut last = (0, 0);
    for event in &events {
        let place = (event["seq"].as_u64().unwrap(), event["part"].as_u64().unwrap_or(0));
        assert!(place > last, "{place:?} came after {last:?}");
        last = place;
    }
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert_eq!((named("run.started"), named("run.completed")), (1, 1));
    assert_eq!((named("model.started"), named("model.completed")), (3, 3));
    assert_eq!((named("tool.started"), named("tool.completed")), (3, 3));
    let pieces = events.iter().filter_map(|event| event["payload"]["text"].as_str());
    assert_eq!(pieces.collect::<String>(), ANSWER);
    assert_eq!(recorded.last().unwrap()["payload"]["message"]["parts"][0]["text"], ANSWER);
}
