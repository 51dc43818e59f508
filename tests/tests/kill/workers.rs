//! Kills worker processes that share one SQLite file. Every queued run ends, no finished step is
//! repeated, and a killed worker's runs are continued by the others.
//!
//! A worker is this test program; its environment selects its role.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use agentflow::Event;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::{RunFilter, RunStatus, SqliteStore, Store};
use agentflow_testing::{check_events, within};
use agentflow_tests::test_as_process;

use super::finished_steps_are_not_repeated;

const STORE: &str = "AGENTFLOW_TEST_WORKER_STORE";
const EFFECTS: &str = "AGENTFLOW_TEST_WORKER_EFFECTS";

const RUNS: usize = 60;
const KILLS: usize = 60;
const WORKERS: usize = 3;
/// Processes are killed at random moments up to this long after each other.
const BETWEEN_KILLS_MS: u64 = 150;

/// The file of effects, in which each execution of a step writes a line.
#[derive(Clone)]
struct Effects(std::path::PathBuf);

/// Write a line about an execution of this call.
#[tool(idempotent)]
async fn effect(cx: &Context, number: u32) -> u32 {
    let effects = cx.resource::<Effects>().expect("the file of effects");
    let line = format!("{} {}\n", cx.run_id(), cx.path());
    let mut file = File::options().append(true).create(true).open(&effects.0).unwrap();
    file.write_all(line.as_bytes()).unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    number + 1
}

#[workflow]
async fn three_effects(cx: &Context, number: u32) -> Result<u32> {
    let first = effect(cx, number).await;
    let second = effect(cx, first).await;
    let third = effect(cx, second).await;
    Ok(third)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let (Ok(store), Ok(effects)) = (std::env::var(STORE), std::env::var(EFFECTS)) else { return };
    let store = SqliteStore::open(store).await.unwrap();
    let runtime = Runtime::builder().store(store).resource(Effects(effects.into())).build();
    // Ends when it is killed.
    runtime.worker().concurrency(4).run().await.unwrap();
}

/// A worker process, which is killed when this value is dropped.
struct WorkerProcess(Child);

impl WorkerProcess {
    fn start(store: &Path, effects: &Path) -> Self {
        let child = test_as_process(module_path!(), "worker_process")
            .env(STORE, store)
            .env(EFFECTS, effects)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Fails only if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_killed_and_every_queued_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (store, effects) = (folder.path().join("runs.db"), folder.path().join("effects"));
    let kept = SqliteStore::open(&store).await.unwrap();
    let runtime = Runtime::builder().store(kept.clone()).build();
    let start = || WorkerProcess::start(&store, &effects);
    let mut workers: Vec<WorkerProcess> = (0..WORKERS).map(|_| start()).collect();
    let mut random = fastrand::Rng::with_seed(7);
    let mut runs = Vec::new();
    for at in 0..KILLS.max(RUNS) {
        if at < RUNS {
            runs.push(runtime.start(three_effects::workflow(), 1).queued().await.unwrap());
        }
        if at < KILLS {
            tokio::time::sleep(Duration::from_millis(random.u64(0..BETWEEN_KILLS_MS))).await;
            // The killed process is replaced by a new one.
            workers[random.usize(0..WORKERS)] = start();
        }
    }
    for run in &runs {
        let handle = runtime.run(run).attach().await.unwrap();
        let output = within("the end of a queued run", handle.result()).await.unwrap();
        assert_eq!(output.decode::<u32>().unwrap(), 4);
    }
    drop(workers);
    assert!(kept.claimable(RunFilter::unfinished()).await.unwrap().is_empty());
    let lines = fs::read_to_string(&effects).unwrap();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    lines.lines().for_each(|line| *times.entry(line).or_default() += 1);
    for run in &runs {
        let events = kept.read(run, 0, usize::MAX).await.unwrap();
        check_events(&events).unwrap();
        finished_steps_are_not_repeated(&events).unwrap();
        assert_eq!(kept.record(run).await.unwrap().unwrap().status, RunStatus::Success);
        let is_resumed =
            |event: &&Event| matches!(event.kind, EventKind::RunResumed { recovered: true, .. });
        let executions = events.iter().filter(is_resumed).count();
        for (line, times) in times.range(run.to_string().as_str()..) {
            if !line.starts_with(run.as_str()) {
                break;
            }
            // An idempotent tool may be called again with the same key, once per execution.
            assert!((1..=executions).contains(times), "{line} happened {times} times");
        }
    }
}
