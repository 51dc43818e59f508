//! A chat of twenty turns with a small real model behind llama.cpp's server. One turn calls a tool
//! that a person has to approve. The process is killed while it asks, and another one continues. It
//! installs about 130 MB, so it runs only on request: `AGENTFLOW_LIVE=1 cargo test --test models
//! llama_cpp_chat`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use agentflow_tests::{Agentwf, Ended, LlamaServer};

/// A small, busy machine generates one token per second.
const PATIENCE: Duration = Duration::from_secs(240);
/// The question that needs the tool.
const NINTH: &str = "Throw away the old letters.";

fn host(args: &[&str], folder: &Path) -> Agentwf {
    Agentwf::new(env!("CARGO_BIN_EXE_local-chat"))
        .args(args)
        .args(["--store"])
        .args([folder.join("chat.db")])
}

fn chat(server: &LlamaServer, folder: &Path) -> Child {
    let base = format!("{}/v1", server.base());
    let chat = host(
        &["chat", "--agent", "local", "--session", "ada-1", "--caller", "ada", "--history", "0"],
        folder,
    );
    chat.env("AGENTFLOW_LOCAL", &base).start_with(Stdio::piped())
}

#[test]
fn a_chat_of_twenty_turns_is_killed_in_a_question_and_continued() {
    let Some(server) = LlamaServer::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let questions: Vec<String> = (1..=20)
        .map(|turn| {
            if turn == 9 {
                NINTH.to_owned()
            } else {
                format!("Tell me a word that rhymes with cat, number {turn}.")
            }
        })
        .collect();
    let mut first = chat(&server, folder.path());
    first.stdin.as_mut().unwrap().write_all((questions[..9].join("\n") + "\n").as_bytes()).unwrap();
    // Standard input stays open, so the process waits for the answer.
    let said = BufReader::new(first.stderr.take().unwrap()).lines();
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || said.map_while(Result::ok).for_each(|line| drop(send.send(line))));
    while !lines.recv_timeout(PATIENCE).expect("it asks").contains("call `throw_away(") {}
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = chat(&server, folder.path());
    second
        .stdin
        .take()
        .unwrap()
        .write_all(("yes\n".to_owned() + &questions[9..].join("\n") + "\n").as_bytes())
        .unwrap();
    let ended = Ended::of(second, PATIENCE, "the second half");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let exported = host(&["sessions", "export", "ada-1"], folder.path()).run();
    let session = exported.line();
    let runs = session["runs"].as_array().expect("a list of runs");
    let asked = |run: &serde_json::Value| {
        run["messages"][0]["parts"][0]["text"].as_str().map(ToOwned::to_owned)
    };
    assert_eq!(runs.iter().filter_map(asked).collect::<Vec<_>>(), questions);
    assert!(runs.iter().all(|run| run["status"] == "success"), "{session:#}");
    let thrown = exported.stdout.matches("thrown away: ").count();
    assert!(
        thrown >= 1 && runs[8].to_string().matches("thrown away: ").count() == thrown,
        "{session:#}"
    );
}
