//! `agentwf a2a serve` as a process. The official Python and Rust clients use it, a linter checks
//! its cards, and a task outlives the process that started it.

use std::process::Command;

use agentflow::a2a::{A2aClient, A2aMessage, A2aPart, A2aPushConfig, A2aTaskState, A2aUpdate};
use agentflow::prelude::*;
use agentflow::serde_json::{self, json};
use agentflow::store::SqliteStore;
use agentflow_testing::within;
use agentflow_tests::{Process, a2a_linter, a2a_python, a2a_rust_client};
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::raw_http::request;

const HOST: &str = env!("CARGO_BIN_EXE_agentwf-host");

/// Starts a server over a store file. Returns it with its address.
fn serve(store: &std::path::Path) -> (Process, String) {
    serve_with(store, &[])
}

/// Starts a server with additional options.
fn serve_with(store: &std::path::Path, more: &[&str]) -> (Process, String) {
    let mut command = Command::new(HOST);
    command.args(PLACE).args(more).arg("--store").arg(store);
    started(command)
}

const PLACE: [&str; 7] = [
    "a2a",
    "serve",
    "--workflow",
    "quick,publish,slow",
    "--clients-approve",
    "--listen",
    "127.0.0.1:0",
];

fn started(mut command: Command) -> (Process, String) {
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

/// Runs a client against the server and returns its output lines.
fn succeeds(mut client: Command, process: &Process) -> Vec<String> {
    let ended = client.output().unwrap();
    let (said, problem) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{said}\n{problem}\n{}", process.output());
    said.lines().map(str::to_owned).collect()
}

#[test]
fn the_official_python_client_uses_it_in_both_bindings() {
    let Some(python) = a2a_python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let push = ["--push", "--push-allow", "127.0.0.1/32"];
    let (process, url) = serve_with(&folder.path().join("runs.db"), &push);
    let mut client = python.command();
    client
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/catalogue/a2a_served_client.py"))
        .arg(url);
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
        assert!(
            said[0].contains("HTTP 200") && said[1..].iter().all(|line| line.starts_with("INFO")),
            "{said:?}"
        );
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
    // The process is killed while the step runs.
    process
        .wait_until("its step", |process| process.output().contains("waiting for").then_some(()));
    let asking = client(&url, "publish").ask(&A2aMessage::user_text("news")).await.unwrap();
    let asking = asking.task().unwrap().clone();
    assert_eq!(asking.status.state, A2aTaskState::InputRequired);
    drop(process); // It is killed.

    let (mut process, url) = serve(&store);
    let (slow, publish) = (client(&url, "slow"), client(&url, "publish"));
    process.wait_until("its step again", |process| {
        process.output().contains("waiting for").then_some(())
    });
    assert_eq!(slow.task(&working.id).await.unwrap().status.state, A2aTaskState::Working);
    let mut updates = slow.subscribe(&working.id).await.unwrap();
    assert!(
        matches!(within("the next event", updates.next()).await, Some(Ok(A2aUpdate::Task(task))) if task.id == working.id)
    );
    std::fs::write(&file, "").unwrap();
    let rest: Vec<_> = updates.map(|update| update.unwrap()).collect().await;
    assert!(matches!(&rest[..], [A2aUpdate::Artifact(_), A2aUpdate::Status(_)]), "{rest:?}");
    assert_eq!(slow.task(&working.id).await.unwrap().text(), "THERE");

    let seen = publish.task(&asking.id).await.unwrap();
    assert_eq!(
        (seen.status.state, seen.context_id),
        (A2aTaskState::InputRequired, asking.context_id)
    );
    let answered = publish.ask(&A2aMessage::user_text("granted").task(&asking.id)).await.unwrap();
    assert_eq!(
        (answered.task().unwrap().id.as_str(), answered.text().as_str()),
        (asking.id.as_str(), "NEWS")
    );
}

/// Accepts the next notification without answering it. Returns its connection and content.
async fn notified(hook: &TcpListener) -> (TcpStream, A2aUpdate) {
    let (mut stream, _) = hook.accept().await.unwrap();
    let request = request(&mut stream).await.unwrap();
    assert!(
        request.head.to_ascii_lowercase().contains("x-a2a-notification-token: s3cret"),
        "{}",
        request.head
    );
    (stream, serde_json::from_value(request.message).unwrap())
}

async fn taken(mut stream: TcpStream) {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
}

/// The notifying process is killed between the end of the task and its notification.
#[tokio::test]
async fn the_end_of_a_task_is_notified_of_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().join("runs.db"), folder.path().join("there"));
    let push = ["--push", "--push-allow", "127.0.0.1/32"];
    let (mut process, url) = serve_with(&store, &push);
    let hook = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", hook.local_addr().unwrap());
    let slow = client(&url, "slow");
    let begun = slow.send(&A2aMessage::user([A2aPart::data(json!({"file": file}))])).await.unwrap();
    let id = begun.task().unwrap().id.clone();
    slow.create_push_config(&id, &A2aPushConfig::new(address).id("c").token("s3cret"))
        .await
        .unwrap();
    let (stream, first) = notified(&hook).await;
    assert!(!first.is_last(), "{first:?}");
    taken(stream).await;
    process
        .wait_until("its step", |process| process.output().contains("waiting for").then_some(()));
    std::fs::write(&file, "").unwrap();
    // The artifact is accepted; the final update is not.
    let (stream, artifact) = notified(&hook).await;
    assert!(matches!(artifact, A2aUpdate::Artifact(_)), "{artifact:?}");
    taken(stream).await;
    let (unanswered, last) = notified(&hook).await;
    assert!(last.is_last(), "{last:?}");
    assert!(!process.output().contains("s3cret"), "{}", process.output());
    drop(process); // It is killed.
    drop(unanswered);

    let (process, url) = serve_with(&store, &push);
    let (stream, again) = notified(&hook).await;
    let A2aUpdate::Task(task) = &again else { panic!("{again:?}") };
    assert_eq!(
        (task.id.as_str(), task.status.state, task.text().as_str()),
        (&*id, A2aTaskState::Completed, "THERE")
    );
    taken(stream).await;
    let shown = client(&url, "slow").push_config(&id, "c").await.unwrap();
    assert_eq!(shown.token, None);
    let kept = Runtime::builder().store(SqliteStore::open(&store).await.unwrap()).build();
    within("all notifications to be sent", async {
        while !kept.persistent_state().user("\u{1}a2a.push:agentflow").await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(process);
}

#[tokio::test]
async fn a_client_that_sends_its_head_slowly_is_ended_and_further_connections_wait() {
    use tokio::io::AsyncReadExt;

    let folder = tempfile::tempdir().unwrap();
    let more = ["--max-connections", "1", "--head-timeout", "1"];
    let (_process, url) = serve_with(&folder.path().join("runs.db"), &more);
    let mut slow = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    slow.write_all(b"GET /.well-known/agent-card.json HTTP/1.1\r\nhost: localhost\r\n")
        .await
        .unwrap();
    // The second connection is served once the slow one is closed.
    assert_eq!(client(&url, "quick").card().await.unwrap().name, "quick");
    let mut said = String::new();
    slow.read_to_string(&mut said).await.unwrap();
    assert!(!said.contains("200 OK"), "{said}");
}
