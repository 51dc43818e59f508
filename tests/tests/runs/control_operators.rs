//! Tests that the event of a granted control request names the operator, in every process.

use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::middleware::redact;
use agentflow::serde_json;
use agentflow::store::Store;
use agentflow::{Agent, RunId, Runtime, Workflow};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime, within};
use agentflow_tests::ProcessStore;

fn id() -> RunId {
    RunId::new("run-1")
}

fn patient() -> Workflow<(u32,), u32> {
    Workflow::build("patient", ["n"], |b, (n,)| {
        b.node("slow", (n,), |_, (n,): (u32,)| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok::<_, String>(n)
        })
    })
    .unwrap()
}

fn process(store: impl Store, clock: &TestClock) -> Runtime {
    let model = ScriptedModel::from_fn(|_| Turn::text("done").after(Duration::from_secs(1)));
    let agent = Agent::new(model).name("desk");
    let runtime =
        test_runtime().clock(clock.clone()).store(store).workflow(&patient()).agent(&agent);
    runtime.with(redact().secret("swordfish")).build()
}

/// Returns the events that name an operator.
async fn operators(store: &impl Store) -> Vec<String> {
    let events = store.read(&id(), 0, 10_000).await.unwrap();
    let named = events.iter().filter_map(|event| {
        let by = match &event.kind {
            EventKind::RunPaused { by, .. }
            | EventKind::RunResumed { by, .. }
            | EventKind::RunCancelled { by, .. }
            | EventKind::RunCompensating { by, .. }
            | EventKind::RunClosed { by, .. }
            | EventKind::MessageReceived { by, .. } => by.as_deref()?,
            _ => return None,
        };
        Some(format!("{} {by}", event.name()))
    });
    named.collect()
}

#[tokio::test(start_paused = true)]
async fn the_run_of_a_workflow_has_its_operators() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = process(store.clone(), &clock);
    let handle = first.start(patient(), 1).await.unwrap();
    handle.pause().by("ada").await.unwrap();
    first.run(&id()).unpause().by("bob").await.unwrap();
    // Requests of another process arrive through the store.
    let second = process(store.process(2), &clock);
    second.run(&id()).pause().by("eve").await.unwrap();
    second.run(&id()).unpause().await.unwrap();
    assert_eq!(operators(&store).await, ["run.paused ada", "run.resumed bob", "run.paused eve"]);
    second.run(&id()).cancel("enough").by("mallory of swordfish").await.unwrap();
    assert!(handle.result().await.is_err());
    assert_eq!(operators(&store).await.last().unwrap(), "run.cancelled mallory of [redacted]");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_no_process_executes_has_its_operators() {
    for compensates in [false, true] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let first = process(store.clone(), &clock);
        let run = first.start(patient(), 1);
        let handle = if compensates { run.compensate().await.unwrap() } else { run.await.unwrap() };
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.abandon();
        tokio::task::yield_now().await;
        store.die();
        let second = process(store.process(2), &clock);
        second.run(&id()).pause().by("ada").await.unwrap();
        second.run(&id()).unpause().by("bob").await.unwrap();
        second.run(&id()).cancel("enough").by("eve").await.unwrap();
        let end = match compensates {
            true => &["run.compensating eve", "run.cancelled eve"][..],
            false => &["run.cancelled eve"],
        };
        assert_eq!(
            operators(&store).await,
            [&["run.paused ada", "run.resumed bob"][..], end].concat()
        );
        check_events(&store.read(&id(), 0, 10_000).await.unwrap()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_that_undoes_its_calls_has_its_operator() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock);
    let handle = runtime.start(patient(), 1).compensate().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel("enough").by("ada").await.unwrap();
    assert_eq!(operators(&store).await, ["run.compensating ada", "run.cancelled ada"]);
}

#[tokio::test(start_paused = true)]
async fn the_run_of_an_agent_has_its_operators() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock);
    let handle = runtime.start_agent("desk", RunRequest::new("hi").live()).await.unwrap();
    handle.pause().by("ada").await.unwrap();
    handle.unpause().by("bob").await.unwrap();
    handle.send_message("more").by("carol").await.unwrap();
    runtime.run(&id()).send_message("again").await.unwrap();
    handle.close().by("dave").await.unwrap();
    within("the answer", handle.result()).await.unwrap();
    let expected =
        ["run.paused ada", "run.resumed bob", "message.received carol", "run.closed dave"];
    assert_eq!(operators(&store).await, expected);
    // An event without an operator has the format from before operators were recorded.
    let events = store.read(&id(), 0, 10_000).await.unwrap();
    let unnamed: Vec<_> =
        events.iter().filter(|event| event.name() == "message.received").collect();
    assert!(!serde_json::to_string(&unnamed[1].kind).unwrap().contains("\"by\""));
}
