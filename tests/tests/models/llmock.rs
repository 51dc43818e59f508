//! The command line against a third-party server that fails on demand. At the end the server
//! reports the client's mistakes, and the test accepts no mistakes or warnings.

use agentflow_tests::{Agentwf, Ended, Process, Python, free_port, get, post};
use serde_json::{Value, json};

struct Server {
    python: Python,
    _process: Process,
    base: String,
    /// Name of the model, and the server's path for its format.
    model: &'static str,
    path: &'static str,
}

impl Server {
    fn start(model: &'static str, path: &'static str) -> Option<Self> {
        let python = agentflow_tests::llmock()?;
        let port = free_port().to_string();
        // The pause between chunks makes it observable that a client stops reading.
        let mut command = python.program("llmock");
        command.args(["serve", "--port", &port, "--stream-chunk-delay-ms", "20"]);
        let mut process = Process::start(&mut command).expect("llmock can be started");
        let base = format!("http://127.0.0.1:{port}");
        process.wait_until("it answers", |_| get(&format!("{base}/_llmock/scenario")).ok());
        Some(Self { python, _process: process, base, model, path })
    }

    /// Sets the behavior for the next requests.
    fn will(&self, behaviors: Value) {
        let answer =
            post(&format!("{}/_llmock/scenario", self.base), &json!({"behaviors": behaviors}))
                .unwrap();
        assert!(answer.status < 300, "{answer:?}");
    }

    fn call(&self, prompt: &str) -> Agentwf {
        let base = format!("{}{}", self.base, self.path);
        Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host")).args([
            "call",
            "--json",
            "--model",
            self.model,
            "--base-url",
            &base,
            "--max-retries",
            "2",
            prompt,
        ])
    }

    fn run(&self, task: &str) -> Agentwf {
        let base = format!("{}{}", self.base, self.path);
        Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host"))
            .args(["run", "--events", "jsonl", "--model", self.model, "--base-url", &base])
            .args(["--tools", "get_weather", "--task", task])
    }

    fn requests(&self) -> usize {
        let requests = get(&format!("{}/_llmock/requests", self.base)).unwrap().json();
        let list = requests.as_array().or_else(|| requests["requests"].as_array());
        list.unwrap_or_else(|| panic!("no list of requests: {requests}")).len()
    }
}

fn answered(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_ne!(ended.line()["text"], "", "{ended:#?}");
    assert_eq!(ended.line()["stop_reason"], "stop", "{ended:#?}");
}

fn failed(ended: &Ended, kind: &str) {
    assert_eq!((ended.code, &ended.line()["error"]["kind"]), (Some(1), &json!(kind)), "{ended:#?}");
}

#[test]
fn a_server_that_breaks_on_demand_finds_nothing_to_say_of_chat() {
    judged("openai-chat/gpt-4o-mini", "/v1", 3);
}

#[test]
fn a_server_that_breaks_on_demand_finds_nothing_to_say_of_responses() {
    judged("openai-responses/gpt-4o-mini", "/v1", 6);
}

#[test]
fn a_server_that_breaks_on_demand_finds_nothing_to_say_of_anthropic() {
    judged("anthropic/claude-sonnet-4-5", "/anthropic", 5);
}

#[test]
fn a_server_that_breaks_on_demand_finds_nothing_to_say_of_gemini() {
    judged("gemini/gemini-2.5-flash", "/gemini", 3);
}

/// Runs all checks for a model. `after` is the number of events that are sent until the first text
/// has been delivered; a failure before that point is retried.
fn judged(model: &'static str, path: &'static str, after: u32) {
    let Some(server) = Server::start(model, path) else { return };

    // A temporary failure is retried without an error for the caller.
    for status in [429, 500, 529] {
        server.will(json!([{"type": "fail", "status": status, "retry_after": 1}]));
        let (before, prompt) = (server.requests(), format!("Once {status}."));
        let ended = server.call(&prompt).run();
        answered(&ended);
        assert_eq!(server.requests() - before, 2);
        assert!(ended.took.as_millis() >= 1000, "it did not wait as it was told: {ended:#?}");
    }

    // A lasting failure becomes an error of its class after the retries.
    for (status, kind) in [(429, "rate_limited"), (500, "server"), (529, "overloaded")] {
        server.will(json!([{"type": "fail", "status": status, "times": 3}]));
        let (before, prompt) = (server.requests(), format!("Always {status}."));
        let ended = server.call(&prompt).run();
        failed(&ended, kind);
        assert_eq!(ended.line()["error"]["status"], status);
        assert_eq!(ended.line()["error"]["retryable"], true);
        assert_eq!(server.requests() - before, 3);
    }

    // A permanent failure is not retried.
    for (status, kind) in [(400, "bad_request"), (401, "auth"), (404, "not_found")] {
        server.will(json!([{"type": "fail", "status": status}]));
        let before = server.requests();
        failed(&server.call(&format!("Never {status}.")).run(), kind);
        assert_eq!(server.requests() - before, 1);
    }

    // A stream that breaks after its first deltas is an error, because the deltas were already
    // delivered. The caller has to repeat the call.
    for (fault, kind) in [
        (json!({"kind": "truncate"}), "truncated"),
        (json!({"kind": "disconnect"}), "transport"),
        // The JSON of an event is incomplete.
        (json!({"kind": "malformed"}), "truncated"),
        (json!({"kind": "stall", "stall_seconds": 30}), "timeout"),
    ] {
        let mut behavior = json!({"type": "stream_fault", "after_chunks": after});
        behavior.as_object_mut().unwrap().extend(fault.as_object().unwrap().clone());
        server.will(json!([behavior]));
        let prompt = format!("Write me a story for {fault}.");
        let call = || server.call(&prompt).args(["--stream", "--idle-timeout", "500ms"]);
        failed(&call().run(), kind);
        answered(&call().run());
    }

    // If the model calls an unknown tool or writes invalid JSON, it receives an error and
    // continues.
    for (fault, status) in
        [("unknown_tool", "not_found"), ("malformed_arguments", "invalid_arguments")]
    {
        server.will(json!([{"type": "tool_fault", "kind": fault}]));
        let ended = server.run(&format!("The weather in Oslo, with {fault}?")).run();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let events = ended.lines();
        let refused: Vec<_> =
            events.iter().filter(|event| event["name"] == "tool.failed").collect();
        assert_eq!(refused.len(), 1, "{events:#?}");
        assert_eq!(refused[0]["payload"]["result"]["status"], status);
        assert_eq!(events.last().unwrap()["name"], "run.completed");
    }

    let mut report = server.python.program("llmock");
    let report = report.args(["report", "--strict", "--url", &server.base]).output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stdout));
}
