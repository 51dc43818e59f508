//! A store file written by an earlier release and opened by this one. Its runs are listed, read,
//! resumed and answered. `make_the_file` wrote the file. A release with another format adds a file
//! and keeps this one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::event::{EventKind, PauseReason};
use agentflow::prelude::*;
use agentflow::runtime::{Changes, StartRun};
use agentflow::store::{RunFilter, RunStatus, Snapshot, SqliteStore, Store};
use agentflow::value::{Encoded, NodeValue};
use agentflow::{RunHandle, RunId, Runtime};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime};
use serde_json::json;

/// The file of the first release.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/runs-0.1.0.db");

/// Makes the agent stall while `make_the_file` writes the file.
static STOPS: AtomicBool = AtomicBool::new(false);

async fn release_file_price(n: u64) -> Result<u64> {
    Ok(n * 7)
}

async fn release_file_pack(n: u64) -> Result<u64> {
    if STOPS.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    if n == 0 {
        Err(agentflow::Error::Lost { reason: "there is nothing to pack".to_owned() })
    } else {
        Ok(n + 1)
    }
}

/// Sends something.
#[tool]
async fn release_file_send(what: String) -> String {
    format!("sent {what}")
}

/// Takes an order.
#[workflow]
async fn release_file_order(n: u64) -> Result<String> {
    let price = release_file_price(n).await?;
    let notes = map!(vec![price, price + 1], |x| release_file_price(x)).await?;
    let answer = gate!("send it?", price).await?;
    let sent = release_file_send(format!("{notes:?} {}", answer.is_granted())).await;
    Ok(sent)
}

/// Packs an order.
#[workflow]
async fn release_file_packing(n: u64) -> Result<u64> {
    let price = release_file_price(n).await?;
    let packed = release_file_pack(price).await?;
    Ok(packed)
}

/// Builds an agent that answers after a tool call, or stalls.
fn clerk() -> Agent {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        2 => Turn::call("release_file_send", json!({"what": "a letter"}))
            .reasoning("it is asked for"),
        _ if STOPS.load(Ordering::SeqCst) => Turn::stall(),
        _ => Turn::text("It is sent."),
    });
    Agent::new(model)
        .name("clerk")
        .instruct("Send what you are asked to.")
        .tools(tools![release_file_send])
}

async fn runtime(path: &Path) -> (SqliteStore, Runtime) {
    let store = SqliteStore::open(path).await.unwrap();
    (store.clone(), test_runtime().store(store).agent(&clerk()).changes(Changes::AcceptAll).build())
}

async fn started<T: NodeValue + 'static>(run: StartRun<'_, T>, id: &str) -> RunHandle<T> {
    run.run_id(RunId::new(id)).caller("ada").tag("tenant", "acme").await.unwrap()
}

/// Waits until a run has such an event.
async fn until(store: &SqliteStore, run: &str, is_it: impl Fn(&EventKind) -> bool) {
    let run = RunId::new(run);
    for _ in 0..10_000 {
        // An agent's run appears in the store once its task has started.
        let events = store.read(&run, 0, 1000).await.unwrap_or_default();
        if events.iter().any(|event| is_it(&event.kind)) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the run `{run}` has no such event");
}

/// `cargo test -p agentflow-tests --test stores -- --ignored make_the_file` writes the file anew.
#[tokio::test]
#[ignore = "writes a golden file"]
async fn make_the_file() {
    let path = Path::new(FILE);
    // The file may not exist.
    let _ = std::fs::remove_file(path);
    let (store, runtime) = runtime(path).await;
    let asked = |kind: &EventKind| {
        matches!(kind, EventKind::RunPaused { reason: PauseReason::Approval, .. })
    };

    let done = started(runtime.start(release_file_order::workflow(), 1), "done").await;
    until(&store, "done", asked).await;
    runtime.run(done.run_id()).approve("answer", Approval::granted(), "ada").await.unwrap();
    done.result().await.unwrap();
    started(runtime.start(release_file_packing::workflow(), 0), "failed")
        .await
        .result()
        .await
        .unwrap_err();
    let waiting = started(runtime.start(release_file_order::workflow(), 2), "waiting").await;
    until(&store, "waiting", asked).await;
    waiting.abandon();

    STOPS.store(true, Ordering::SeqCst);
    let packs = |kind: &EventKind| matches!(kind, EventKind::NodeStarted { .. });
    for id in ["interrupted", "snapshotted"] {
        let handle = started(runtime.start(release_file_packing::workflow(), 3), id).await;
        until(&store, id, packs).await;
        until(&store, id, |kind| matches!(kind, EventKind::NodeCompleted { .. })).await;
        handle.abandon();
    }
    let request = agentflow::agent::RunRequest::from("Send a letter.").run_id(RunId::new("agent"));
    let agent = clerk().runtime(&runtime).start(request).unwrap();
    until(&store, "agent", |kind| matches!(kind, EventKind::RunStep { step: 1 })).await;
    agent.abandon();
    tokio::time::sleep(Duration::from_millis(200)).await;

    let run = RunId::new("snapshotted");
    let epoch = store.open(&run).await.unwrap();
    let events = store.read(&run, 0, 1000).await.unwrap();
    let of_first = events.len() - 1;
    store
        .put_snapshot(&run, epoch, Snapshot::new(of_first as u64, events[..of_first].to_vec()))
        .await
        .unwrap();
    store.close(&run, epoch).await.unwrap();
    drop((runtime, store));
    tokio::time::sleep(Duration::from_millis(200)).await;
    rusqlite::Connection::open(path).unwrap().execute_batch("VACUUM").unwrap();
}

#[tokio::test]
async fn the_runs_of_a_release_are_listed_read_resumed_and_answered() {
    assert!(std::fs::metadata(FILE).unwrap().len() < 100_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    std::fs::copy(FILE, &path).unwrap();
    let (store, runtime) = runtime(&path).await;

    let mut listed: Vec<(String, RunStatus)> = Vec::new();
    for record in runtime.runs().list(RunFilter::new()).await.unwrap() {
        let events = runtime.run(&record.run_id).journal().await.unwrap();
        assert_eq!(events.len() as u64, record.events);
        assert!(!events.iter().any(|event| matches!(event.kind, EventKind::Unknown(_))));
        if record.status.has_ended() {
            check_events(&events).unwrap();
        }
        // The events round-trip.
        let lines: Vec<String> =
            events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        for (event, line) in events.iter().zip(&lines) {
            assert_eq!(serde_json::from_str::<agentflow::Event>(line).unwrap(), *event);
        }
        runtime.run(&record.run_id).inspect().await.unwrap();
        if record.run_id.as_str() != "agent" {
            assert_eq!((record.caller.as_deref(), &*record.tags["tenant"]), (Some("ada"), "acme"));
        }
        listed.push((record.run_id.to_string(), record.status));
    }
    listed.sort_by(|(one, _), (other, _)| one.cmp(other));
    let status = |run: &str, status| (run.to_owned(), status);
    assert_eq!(
        listed,
        [
            status("agent", RunStatus::Running),
            status("done", RunStatus::Success),
            status("failed", RunStatus::Failed),
            status("interrupted", RunStatus::Running),
            status("snapshotted", RunStatus::Running),
            status("waiting", RunStatus::Paused),
        ]
    );
    let output = runtime.run(&RunId::new("done")).output().await.unwrap();
    assert_eq!(output.decode::<String>().unwrap(), "sent [49, 56] true");
    assert!(store.snapshot(&RunId::new("snapshotted")).await.unwrap().is_some());

    let recovered = runtime.recover().await.unwrap();
    assert!(recovered.left.is_empty(), "{recovered:?}");
    runtime
        .run(&RunId::new("waiting"))
        .answer("answer", &Approval::denied("too dear"), "ada")
        .await
        .unwrap();
    let mut outputs = Vec::new();
    for handle in recovered.resumed {
        let output: Encoded = handle.result().await.unwrap();
        check_events(&runtime.run(handle.run_id()).journal().await.unwrap()).unwrap();
        outputs.push(format!("{}: {}", handle.run_id(), output.as_str()));
    }
    outputs.sort();
    assert_eq!(
        outputs,
        [
            r#"agent: "It is sent.""#,
            "interrupted: 22",
            "snapshotted: 22",
            r#"waiting: "sent [98, 105] false""#
        ]
    );

    // A failed node is retried and fails in the same way.
    let failed = RunId::new("failed");
    runtime.run(&failed).retry("packed", "ada").await.unwrap();
    let handle = runtime.run(&failed).attach().await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), FailureKind::Lost);
    let events = runtime.run(&failed).journal().await.unwrap();
    assert!(
        events
            .iter()
            .any(|event| matches!(&event.kind, EventKind::NodeReset { by } if &**by == "ada"))
    );
}
