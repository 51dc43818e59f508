//! `agentwf a2a serve` as a process: the official clients of Python and of Rust use it, a linter reads its cards, and a task
//! outlives the process that began it.

use std::process::Command;

use agentflow::a2a::{A2aClient, A2aMessage, A2aPart, A2aTaskState, A2aUpdate};
use agentflow::serde_json::json;
use agentflow_tests::{Process, a2a_linter, a2a_python, a2a_rust_client};
use futures_util::StreamExt;

const HOST: &str = env!("CARGO_BIN_EXE_agentwf-host");

/// A server over a file, and its address.
fn serve(store: &std::path::Path) -> (Process, String) {
    let mut command = Command::new(HOST);
    command
        .args([
            "a2a",
            "serve",
            "--workflow",
            "quick,publish,slow",
            "--clients-approve",
            "--listen",
            "127.0.0.1:0",
            "--store",
        ])
        .arg(store);
    let mut process = Process::start(&mut command).unwrap();
    let url = process.wait_until("its address", |process| {
        let output = process.output();
        output.lines().find(|line| line.starts_with("http://")).map(str::to_owned)
    });
    (process, url)
}

fn client(url: &str, skill: &str) -> A2aClient {
    A2aClient::at(skill, format!("{url}/a2a/{skill}")).build().unwrap()
}

/// What a client says of a server that runs, line by line.
fn succeeds(mut client: Command, process: &Process) -> Vec<String> {
    let ended = client.output().unwrap();
    let (said, problem) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{said}\n{problem}\n{}", process.output());
    said.lines().map(str::to_owned).collect()
}

#[test]
fn the_official_python_client_uses_it_in_both_bindings() {
    let Some(python) = a2a_python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (process, url) = serve(&folder.path().join("runs.db"));
    let mut client = python.command();
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/catalogue/a2a_served_client.py")).arg(url);
    let ways = succeeds(client, &process);
    assert_eq!(ways, ["JSONRPC stream", "JSONRPC poll", "HTTP+JSON stream", "HTTP+JSON poll"]);
}

#[test]
fn the_official_rust_client_uses_it_in_both_bindings() {
    let Some(mut client) = a2a_rust_client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (process, url) = serve(&folder.path().join("runs.db"));
    client.arg(url);
    assert_eq!(succeeds(client, &process), ["JSONRPC", "HTTP+JSON"]);
}

#[test]
fn a_linter_finds_no_fault_in_the_cards() {
    let Some(python) = a2a_linter() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (process, url) = serve(&folder.path().join("runs.db"));
    for card in [url.clone(), format!("{url}/a2a/quick"), format!("{url}/a2a/publish")] {
        let mut linter = python.program("a2aops");
        linter.args(["card", "check", &card]);
        let said = succeeds(linter, &process);
        assert!(said[0].contains("HTTP 200") && said[1..].iter().all(|line| line.starts_with("INFO")), "{said:?}");
    }
    let mut linter = python.program("a2aops");
    linter.args(["auth", &url]);
    assert!(succeeds(linter, &process)[0].starts_with("OK"), "the hook of a caller");
}

#[tokio::test]
async fn a_task_outlives_the_process_that_began_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().join("runs.db"), folder.path().join("there"));
    let (mut process, url) = serve(&store);
    let input = A2aPart::data(json!({"file": file}));
    let begun = client(&url, "slow").send(&A2aMessage::user([input])).await.unwrap();
    let working = begun.task().unwrap().clone();
    assert_eq!(working.status.state, A2aTaskState::Working);
    // The step has begun, and is killed in the middle.
    process.wait_until("its step", |process| process.output().contains("waiting for").then_some(()));
    let asking = client(&url, "publish").ask(&A2aMessage::user_text("news")).await.unwrap();
    let asking = asking.task().unwrap().clone();
    assert_eq!(asking.status.state, A2aTaskState::InputRequired);
    drop(process); // It is killed.

    let (mut process, url) = serve(&store);
    let (slow, publish) = (client(&url, "slow"), client(&url, "publish"));
    process.wait_until("its step again", |process| process.output().contains("waiting for").then_some(()));
    assert_eq!(slow.task(&working.id).await.unwrap().status.state, A2aTaskState::Working);
    let mut updates = slow.subscribe(&working.id).await.unwrap();
    assert!(matches!(updates.next().await, Some(Ok(A2aUpdate::Task(task))) if task.id == working.id));
    std::fs::write(&file, "").unwrap();
    let rest: Vec<_> = updates.map(|update| update.unwrap()).collect().await;
    assert!(matches!(&rest[..], [A2aUpdate::Artifact(_), A2aUpdate::Status(_)]), "{rest:?}");
    assert_eq!(slow.task(&working.id).await.unwrap().text(), "THERE");

    let seen = publish.task(&asking.id).await.unwrap();
    assert_eq!((seen.status.state, seen.context_id), (A2aTaskState::InputRequired, asking.context_id));
    let answered = publish.ask(&A2aMessage::user_text("granted").task(&asking.id)).await.unwrap();
    assert_eq!((answered.task().unwrap().id.as_str(), answered.text().as_str()), (asking.id.as_str(), "NEWS"));
}
