//! A process is killed while a tool of an MCP server waits for a person. Another process gives the
//! answer, a third one continues the call, and the tool is called once.

use std::path::Path;
use std::process::Command;

use agentflow_tests::{Agentwf, Process};

const HOST: &str = env!("CARGO_BIN_EXE_mcp-asking");

/// Files of one run.
struct Files {
    store: String,
    calls: String,
    form: &'static str,
}

impl Files {
    fn of(folder: &Path, form: &'static str) -> Self {
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        Self { store: file("runs.db"), calls: file("calls"), form }
    }

    /// Waits until `questions` are asked, and kills the process.
    fn killed(&self, what: &str, questions: usize) -> Vec<String> {
        let mut process =
            Process::start(Command::new(HOST).args([what, &self.store, &self.calls, self.form]))
                .unwrap();
        process.wait_until("its questions are asked", |process| {
            let output = process.output();
            let asked = output.lines().rev().find_map(|line| line.strip_prefix("asked "))?;
            let paths: Vec<String> = asked.split(' ').map(ToOwned::to_owned).collect();
            (paths.len() == questions).then_some(paths)
        })
        // Dropping the process kills it with SIGKILL.
    }

    fn answer(&self, answer: &str) -> agentflow_tests::Ended {
        Agentwf::new(HOST).args(["answer", &self.store, &self.calls, self.form, answer]).run()
    }

    fn finish(&self) -> String {
        let finished =
            Agentwf::new(HOST).args(["finish", &self.store, &self.calls, self.form]).run();
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        finished.stdout
    }

    fn calls(&self) -> Vec<String> {
        let mut calls: Vec<String> =
            std::fs::read_to_string(&self.calls).unwrap().lines().map(ToOwned::to_owned).collect();
        calls.sort();
        calls
    }
}

#[test]
fn the_tool_of_a_killed_process_is_called_once() {
    for (form, path) in [
        ("agent", "tool#1.mcp__flights__book/ask#1"),
        ("nested", "tool#1.clerk/tool#1.mcp__flights__book/ask#1"),
        ("node", "book/ask#1"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let run = Files::of(folder.path(), form);
        assert_eq!(run.killed("start", 1), [path], "{form}");
        // A second process waits for the same question and is killed, too.
        assert_eq!(run.killed("wait", 1), [path], "{form}");
        let wrong = run.answer(r#"{"seat": 7}"#);
        assert!(
            wrong.code == Some(1) && wrong.stderr.contains("does not fit"),
            "{form}: {}",
            wrong.stderr
        );
        assert_eq!(run.answer(r#"{"seat": "window"}"#).code, Some(0), "{form}");
        let finished = run.finish();
        assert!(finished.contains("booked window to Oslo"), "{form}: {finished}");
        assert_eq!(run.calls(), ["called Oslo", "continued Oslo"], "{form}");
        assert_eq!(run.finish(), "", "{form}: nothing is left to resume");
    }
}

#[test]
fn of_two_calls_of_a_turn_each_is_called_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = Files::of(folder.path(), "two");
    assert_eq!(run.killed("start", 2).len(), 2);
    assert_eq!(run.answer(r#"{"seat": "aisle"}"#).code, Some(0));
    let finished = run.finish();
    assert!(finished.contains("booked aisle to Oslo, booked aisle to Rome"), "{finished}");
    assert_eq!(run.calls(), ["called Oslo", "called Rome", "continued Oslo", "continued Rome"]);
}

#[test]
fn who_declines_in_another_process_is_heard() {
    let folder = tempfile::tempdir().unwrap();
    let run = Files::of(folder.path(), "agent");
    run.killed("start", 1);
    assert_eq!(run.answer("null").code, Some(0));
    let finished = run.finish();
    assert!(finished.contains("booked no seat to Oslo"), "{finished}");
    assert_eq!(run.calls(), ["called Oslo", "continued Oslo"]);
}
