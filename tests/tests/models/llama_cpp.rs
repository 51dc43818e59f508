//! The command line against llama.cpp's server with a small real model, in each of the three wire
//! formats that the server supports. It installs about 130 MB, so it runs only on request:
//! `AGENTFLOW_LIVE=1 cargo test --test models llama_cpp`.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use agentflow_tests::{Agentwf, Ended, LlamaServer, get};
use serde_json::Value;

/// A small, busy machine generates one token per second.
const PATIENCE: Duration = Duration::from_secs(240);
/// Maximum number of tokens of a short answer.
const MAX_TOKENS: u32 = 12;

/// A wire format as the server implements it.
struct Dialect {
    format: &'static str,
    path: &'static str,
    max_tokens: &'static str,
    /// Stop reason of an answer that reached the limit.
    at_limit: &'static str,
}

const DIALECTS: [Dialect; 3] = [
    Dialect { format: "openai-chat", path: "/v1", max_tokens: "max_tokens", at_limit: "length" },
    // The server reports every answer in this format as completed.
    Dialect {
        format: "openai-responses",
        path: "/v1",
        max_tokens: "max_output_tokens",
        at_limit: "stop",
    },
    Dialect { format: "anthropic", path: "", max_tokens: "max_tokens", at_limit: "length" },
];

struct Server(LlamaServer);

impl Server {
    fn agentwf(&self, command: &str, dialect: &Dialect, max_tokens: u32) -> Agentwf {
        let Dialect { format, path, max_tokens: name, .. } = dialect;
        Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host"))
            .args([
                command,
                "--model",
                &format!("{format}/smollm2"),
                "--base-url",
                &format!("{}{path}", self.0.base()),
            ])
            .args(["--setting", "temperature=0", "--setting", &format!("{name}={max_tokens}")])
            .deadline(PATIENCE)
    }

    fn call(&self, dialect: &Dialect) -> Agentwf {
        self.agentwf("call", dialect, MAX_TOKENS).args(["--json", "What is the capital of France?"])
    }

    fn run(&self, dialect: &Dialect, max_tokens: u32, task: &str) -> Agentwf {
        self.agentwf("run", dialect, max_tokens).args(["--events", "jsonl", "--task", task])
    }

    fn busy_slots(&self) -> usize {
        let slots = get(&format!("{}/slots", self.0.base())).expect("the server answers").json();
        let slots = slots.as_array().unwrap_or_else(|| panic!("no list of slots: {slots}"));
        slots.iter().filter(|slot| slot["is_processing"] == true).count()
    }

    fn wait_for_slots(&self, busy: usize, within: Duration) -> Duration {
        let began = Instant::now();
        while self.busy_slots() != busy {
            assert!(
                began.elapsed() < within,
                "{} slots are busy after {within:?}, not {busy}",
                self.busy_slots()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        began.elapsed()
    }
}

fn answer(ended: &Ended, dialect: &Dialect) -> Value {
    assert_eq!(ended.code, Some(0), "{}: {ended:#?}", dialect.format);
    let line = ended.line();
    assert!(line["text"].as_str().unwrap().len() > 3, "{}: {line}", dialect.format);
    assert!(line["usage"]["input_tokens"].as_u64().unwrap() > 5, "{}: {line}", dialect.format);
    let written = line["usage"]["output_tokens"].as_u64().unwrap();
    assert!((1..=u64::from(MAX_TOKENS)).contains(&written), "{}: {line}", dialect.format);
    if written == u64::from(MAX_TOKENS) {
        assert_eq!(line["stop_reason"], dialect.at_limit, "{}: {line}", dialect.format);
    }
    line
}

/// Uses one server for all formats, because two servers would share the same processor.
#[test]
fn a_real_model_answers() {
    let Some(server) = LlamaServer::start().map(Server) else { return };
    for dialect in &DIALECTS {
        answers(&server, dialect);
        stops(&server, dialect);
    }
    works_on_two_at_once(&server, &DIALECTS[0]);
}

fn answers(server: &Server, dialect: &Dialect) {
    let format = dialect.format;
    // Streamed and unstreamed answers to the same question are equal.
    let whole = answer(&server.call(dialect).run(), dialect);
    let streamed = answer(&server.call(dialect).args(["--stream"]).run(), dialect);
    assert_eq!(whole["text"], streamed["text"], "{format}");
    assert_eq!(whole["stop_reason"], streamed["stop_reason"], "{format}");
    assert_eq!(whole["usage"]["output_tokens"], streamed["usage"]["output_tokens"], "{format}");

    // The deltas add up to the answer.
    let ended = server.run(dialect, MAX_TOKENS, "Name three colours.").run();
    assert_eq!(ended.code, Some(0), "{format}: {ended:#?}");
    let events = ended.lines();
    let pieces: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "model.delta")
        .map(|event| event["payload"]["text"].as_str().unwrap())
        .collect();
    assert!(pieces.len() > 3, "{format}: {pieces:?}");
    assert_eq!(
        events.last().unwrap()["payload"]["agent"]["message"]["parts"][0]["text"],
        pieces.concat(),
        "{format}"
    );

    // The server's refusal of a request is returned as an error.
    let refused = server.call(dialect).args(["--setting", r#"temperature="hot""#]).run();
    assert_eq!(
        (refused.code, &refused.line()["error"]["kind"]),
        (Some(1), &"bad_request".into()),
        "{refused:#?}"
    );
}

/// Interrupts an answer. The server stops generating at once.
fn stops(server: &Server, dialect: &Dialect) {
    let mut child = server.run(dialect, 2000, "Write a very long story about the sea.").start();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.by_ref().map(Result::unwrap).find(|line| line.contains("model.delta"));
    assert!(first.is_some(), "{}: it ended without a piece", dialect.format);
    assert_eq!(server.busy_slots(), 1, "{}", dialect.format);
    agentflow_tests::interrupt(child.id());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let ended = Ended::of(child, Duration::from_secs(10), "a run that was stopped");
    assert_eq!(ended.code, Some(130), "{}: {ended:#?}", dialect.format);
    assert!(rest.last().unwrap().contains("run.cancelled"), "{}: {rest:?}", dialect.format);
    // llama.cpp detects a closed connection between two tokens.
    server.wait_for_slots(0, Duration::from_secs(10));
}

/// Starts two runs. Both are answered, and the server processes them concurrently.
fn works_on_two_at_once(server: &Server, dialect: &Dialect) {
    let run = || server.run(dialect, 40, "Name three colours.").start();
    let (one, other) = (run(), run());
    server.wait_for_slots(2, PATIENCE);
    for child in [one, other] {
        let ended = Ended::of(child, PATIENCE, "a run");
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(ended.lines().last().unwrap()["name"], "run.completed");
    }
    server.wait_for_slots(0, PATIENCE);
}
