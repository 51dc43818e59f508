//! Tool calls in the branches of a `race!` or a `fallback!`. When the process ends, each call is
//! recovered separately: a call that waits for a person keeps waiting, and an interrupted call is
//! not repeated.

use std::time::Duration;

use agentflow::event::PauseReason;
use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::store::{RunStatus, Store};
use agentflow::{RunHandle, RunId};
use agentflow_testing::{EffectLog, TestClock, check_events, test_runtime};
use agentflow_tests::ProcessStore;

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Wipe the disk, which a person must agree to.
#[tool(approve)]
async fn wipe(cx: &Context, log: Inject<EffectLog>, disk: String) -> Result<String, String> {
    log.note(cx);
    pass(10).await;
    Ok(format!("wiped {disk}"))
}

/// Never answers.
#[tool(effects = "read")]
async fn stall() -> Result<String, String> {
    std::future::pending().await
}

async fn keep(disk: String) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    Ok(format!("kept {disk}"))
}

#[workflow]
async fn wiped_or_kept(
    cx: &Context,
    disk: String,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let done = fallback!(wipe(cx, cx.inject()?, disk), keep(disk)).await?;
    Ok(done)
}

#[workflow]
async fn wiped_or_never(
    cx: &Context,
    disk: String,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let done = race!(wipe(cx, cx.inject()?, disk), stall()).await?;
    Ok(done)
}

fn id() -> RunId {
    RunId::new("run-1")
}

async fn restart<T>(handle: RunHandle<T>, store: &ProcessStore) {
    handle.abandon();
    tokio::task::yield_now().await;
    store.die();
}

#[tokio::test(start_paused = true)]
async fn a_question_in_a_branch_is_still_asked_after_a_restart() {
    for raced in [false, true] {
        let (store, clock, log) = (ProcessStore::new(), TestClock::new(), EffectLog::new());
        let process = |store: ProcessStore| {
            test_runtime().clock(clock.clone()).store(store).resource(log.clone()).build()
        };
        let first = process(store.clone());
        let flow = if raced { wiped_or_never::workflow() } else { wiped_or_kept::workflow() };
        let run = first.start(flow, "sda".to_owned()).await.unwrap();
        pass(1).await;
        restart(run, &store).await;

        let store = store.process(2);
        let second = process(store.clone());
        let resumed = second.recover().await.unwrap().resumed.remove(0);
        pass(1).await;
        let record = store.record(&id()).await.unwrap().unwrap();
        assert_eq!(
            (record.status, record.pause_reason),
            (RunStatus::Paused, Some(PauseReason::Approval)),
            "{raced}"
        );
        let report = second.run(&id()).inspect().await.unwrap();
        let asks = report.nodes.iter().find(|node| node.question.is_some()).unwrap();
        second.run(&id()).approve(&asks.name, Approval::granted(), "ada").await.unwrap();
        assert_eq!(resumed.result().await.unwrap().as_str(), r#""wiped sda""#);
        assert_eq!(log.counts().values().sum::<usize>(), 1);
        check_events(&store.read(&id(), 0, 1000).await.unwrap()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_call_in_a_branch_waits_for_a_decision() {
    let (store, clock, log) = (ProcessStore::new(), TestClock::new(), EffectLog::new());
    let process = |store: ProcessStore| {
        test_runtime().clock(clock.clone()).store(store).resource(log.clone()).build()
    };
    let first = process(store.clone());
    let run = first.start(wiped_or_kept::workflow(), "sda".to_owned()).await.unwrap();
    pass(1).await;
    let asks = first
        .run(&id())
        .inspect()
        .await
        .unwrap()
        .nodes
        .into_iter()
        .find(|node| node.question.is_some())
        .unwrap();
    first.run(&id()).approve(&asks.name, Approval::granted(), "ada").await.unwrap();
    pass(1).await;
    assert_eq!(log.counts().values().sum::<usize>(), 1, "it has begun");
    restart(run, &store).await;

    let store = store.process(2);
    let second = process(store.clone());
    let resumed = second.recover().await.unwrap().resumed.remove(0);
    pass(60).await;
    let record = store.record(&id()).await.unwrap().unwrap();
    assert_eq!(
        (record.status, record.pause_reason),
        (RunStatus::Paused, Some(PauseReason::Interrupted))
    );
    assert_eq!(
        log.counts().values().sum::<usize>(),
        1,
        "nobody has decided, and the other branch does not take its place"
    );
    second.run(&id()).retry("done", "ada").await.unwrap();
    assert_eq!(resumed.result().await.unwrap().as_str(), r#""wiped sda""#);
    assert_eq!(log.counts().values().sum::<usize>(), 2);
    check_events(&store.read(&id(), 0, 1000).await.unwrap()).unwrap();
}
