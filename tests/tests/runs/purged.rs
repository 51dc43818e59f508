//! Tests `purge`: it removes runs that ended some time ago, with all their data, and keeps
//! unfinished runs, including those that a removed run has started.

use std::time::Duration;

use agentflow::RunId;
use agentflow::prelude::*;
use agentflow::runtime::Purge;
use agentflow::store::{MemoryStore, RunFilter, RunStatus, SqliteStore, Store};
use agentflow_testing::{HoldsTime, hold_time, test_runtime, within};
use tokio::sync::Semaphore;

const HOUR: Duration = Duration::from_secs(3600);

/// Blocks a step until the test opens it.
struct Door(Semaphore);

#[workflow]
async fn purged_writes(cx: &Context, word: String) -> Result<usize> {
    let saved = purged_save(cx, word.clone()).await?;
    let length = purged_length(word).await?;
    Ok(length + usize::try_from(saved).unwrap_or_default())
}

async fn purged_save(cx: &Context, word: String) -> Result<u32> {
    Ok(cx.save_artifact("word.txt", word, "text/plain").await?.version)
}

async fn purged_length(word: String) -> Result<usize> {
    match word.as_str() {
        "fail" => Err(agentflow::Error::Lost { reason: "it was to fail".to_owned() }),
        _ => Ok(word.len()),
    }
}

async fn purged_knock(cx: &Context) -> Result<u32> {
    let door = cx.inject::<Door>()?;
    drop(within("the door to be opened", door.0.acquire()).await);
    Ok(1)
}

#[workflow]
async fn purged_waits(cx: &Context) -> Result<u32> {
    let opened = purged_knock(cx).await?;
    Ok(opened)
}

/// Starts another run that outlives this one.
async fn purged_start(cx: &Context) -> Result<String> {
    let runtime = cx.inject::<Runtime>()?;
    let child = runtime.start(purged_waits::workflow(), ()).run_id(RunId::new("child")).await?;
    Ok(child.run_id().to_string())
}

#[workflow]
async fn purged_parent(cx: &Context) -> Result<String> {
    let child = purged_start(cx).await?;
    Ok(child)
}

async fn ids(runtime: &Runtime) -> Vec<String> {
    let mut ids: Vec<String> = runtime
        .runs()
        .list(RunFilter::new())
        .await
        .unwrap()
        .iter()
        .map(|run| run.run_id.to_string())
        .collect();
    ids.sort();
    ids
}

async fn written(runtime: &Runtime, id: &str, word: &str) {
    let run = runtime
        .start(purged_writes::workflow(), word.to_owned())
        .run_id(RunId::new(id))
        .await
        .unwrap();
    let _ = run.result().await;
}

async fn check(store: impl Store + Clone) {
    let door = || Door(Semaphore::new(0));
    let inner = test_runtime().store(store.clone()).resource(door()).build();
    let runtime =
        test_runtime().store(store.clone()).resource(door()).resource(inner.clone()).build();
    written(&runtime, "old", "tea").await;
    written(&runtime, "failed", "fail").await;
    runtime
        .start(purged_parent::workflow(), ())
        .run_id(RunId::new("parent"))
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    let asks =
        runtime.start(purged_waits::workflow(), ()).run_id(RunId::new("waits")).await.unwrap();
    asks.pause().await.unwrap();
    tokio::time::advance(HOUR).await;
    written(&runtime, "new", "milk").await;
    let all = ["child", "failed", "new", "old", "parent", "waits"];
    assert_eq!(ids(&runtime).await, all);
    // Listing removes no run. Unfinished runs are not listed, however old they are.
    let purge = Purge::older_than(HOUR / 2);
    let named = |runs: Vec<agentflow::store::RunRecord>| {
        let mut names: Vec<String> = runs.iter().map(|run| run.run_id.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(named(runtime.runs().purgeable(&purge).await.unwrap()), ["failed", "old", "parent"]);
    assert_eq!(ids(&runtime).await, all);
    let of_name = Purge::older_than(HOUR / 2).name("purged_writes");
    assert_eq!(named(runtime.runs().purgeable(&of_name).await.unwrap()), ["failed", "old"]);
    assert!(runtime.runs().purge(&Purge::older_than(2 * HOUR)).await.unwrap().is_empty());
    // Two concurrent purges remove each run once.
    let (one, other) = tokio::join!(runtime.runs().purge(&purge), inner.runs().purge(&purge));
    assert_eq!(named([one.unwrap(), other.unwrap()].concat()), ["failed", "old", "parent"]);
    assert_eq!(ids(&runtime).await, ["child", "new", "waits"]);
    // The journal and the artifacts are removed too. Artifacts of other runs are kept.
    assert!(runtime.run(&RunId::new("old")).journal().await.is_err());
    assert!(
        runtime
            .run(&RunId::new("old"))
            .artifact("word.txt", None)
            .await
            .map_or(true, |found| found.is_none())
    );
    let kept = runtime.run(&RunId::new("new")).artifact("word.txt", None).await.unwrap().unwrap();
    assert_eq!(&*kept.bytes, b"milk");
    // A run that the removed run had started is independent and ends on its own.
    let child = inner.run(&RunId::new("child")).attach().await.unwrap();
    assert_eq!(inner.run(&RunId::new("child")).record().await.unwrap().status, RunStatus::Running);
    inner.run(child.run_id()).cancel("enough").await.unwrap();
    asks.cancel("enough").await.unwrap();
    tokio::time::advance(HOUR).await;
    assert_eq!(named(runtime.runs().purge(&purge).await.unwrap()), ["child", "new", "waits"]);
    assert!(ids(&runtime).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_ended_a_while_ago_is_removed_with_all_that_is_its() {
    check(MemoryStore::new()).await;
}

#[tokio::test(start_paused = true)]
async fn so_it_is_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = hold_time(SqliteStore::open(folder.path().join("runs.db"))).await.unwrap();
    check(HoldsTime::new(store)).await;
}

/// Purges more runs than one page lists, with unfinished runs in between.
#[tokio::test(start_paused = true)]
async fn more_runs_than_a_page_are_removed() {
    let runtime =
        test_runtime().store(MemoryStore::new()).resource(Door(Semaphore::new(0))).build();
    let mut waiting = Vec::new();
    for number in 0..1_203 {
        match number % 400 {
            0 => waiting.push(runtime.start(purged_waits::workflow(), ()).await.unwrap()),
            _ => written(&runtime, &format!("run{number}"), "tea").await,
        }
    }
    tokio::time::advance(HOUR).await;
    let purge = Purge::older_than(HOUR / 2);
    assert_eq!(runtime.runs().purgeable(&purge).await.unwrap().len(), 1_199);
    assert_eq!(runtime.runs().purge(&purge).await.unwrap().len(), 1_199);
    assert_eq!(ids(&runtime).await.len(), waiting.len());
}
