//! `agentwf worker` and `workflow run --queue`: one process queues runs, others execute them.

use std::process::Child;
use std::time::Duration;

use agentflow_testing::wait_until;
use agentflow_tests::{Agentwf, ChildGuard, Ended, PostgresServer, terminate};
use serde_json::{Value, json};

use super::cli_workflows::{Place, agentwf, done, ended};

/// Time limit for the end of a worker.
const LIMIT: Duration = Duration::from_secs(60);

/// A worker process, which is killed when this value is dropped or the test program ends.
pub(crate) struct Worker {
    /// `None` after [`stop`](Self::stop).
    process: Option<Child>,
    _guard: ChildGuard,
}

impl Worker {
    pub(crate) fn start(store: &str) -> Self {
        let worker: Agentwf = agentwf(&["worker", "--store", store, "--drain-timeout", "1s"]);
        let process = worker.start();
        let _guard = ChildGuard::new(process.id());
        Self { process: Some(process), _guard }
    }

    /// Sends SIGTERM. Returns the exit code and standard error.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        let process = self.process.take().unwrap();
        terminate(process.id());
        let ended = Ended::of(process, LIMIT, "a worker");
        (ended.code, ended.stderr)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Returns the status of a run.
fn status(store: &str, id: &str) -> Value {
    done(&["runs", "show", id, "--json", "--store", store]).line()["run"]["status"].take()
}

fn queue(store: &str, workflow: &str, id: &str, input: &str) {
    let queued = done(&[
        "workflow", "run", workflow, "--queue", "--run-id", id, "--input", input, "--store", store,
    ]);
    assert_eq!(queued.stdout, format!("{id}\n"));
    assert_eq!(status(store, id), json!("queued"));
}

pub(crate) fn wait_for_status(store: &str, id: &str, expected: &str) {
    wait_until("the status of a run", || (status(store, id) == json!(expected)).then_some(()));
}

/// Executes queued runs with one worker after another.
fn check_workers(place: &Place, store: &str) {
    queue(store, "quick", "short", r#"{"word": "a", "times": 2}"#);
    queue(store, "slow", "long", &json!({"file": place.path("flag")}).to_string());
    let first = Worker::start(store);
    wait_for_status(store, "short", "success");
    wait_for_status(store, "long", "running");
    let (code, said) = first.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the run `long` is not finished"), "{said}");
    assert_eq!(status(store, "long"), json!("running"));
    let second = Worker::start(store);
    place.raise();
    wait_for_status(store, "long", "success");
    let (code, said) = second.stop();
    assert_eq!((code, said.contains("not finished")), (Some(0), false), "{said}");
}

#[test]
fn workers_execute_queued_runs_and_continue_those_of_others() {
    let place = Place::new();
    check_workers(&place, &place.store());
}

#[test]
fn workers_share_a_postgres_database() {
    let Some(server) = PostgresServer::shared() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = runtime.block_on(server.new_database("workers"));
    let with_password = url.replace("agentflow@", "agentflow:hunter2@");
    let place = Place::new();
    check_workers(&place, &with_password);
    // Messages show the address without the password.
    let failed = ended(&[
        "workflow",
        "run",
        "needs_file",
        "--input",
        r#"{"file": "/nowhere"}"#,
        "--store",
        &with_password,
    ]);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    let shown = url.replace("agentflow@", "agentflow:***@");
    assert!(failed.stderr.contains(&format!("--store '{shown}'")), "{failed:#?}");
    assert!(!failed.stderr.contains("hunter2"), "{failed:#?}");
    let configured = agentwf(&["runs", "list"]).env("AGENTFLOW_STORE", &url).run();
    assert_eq!(configured.code, Some(0), "{configured:#?}");
    assert!(configured.stdout.contains("success   quick"), "{configured:#?}");
}

#[test]
fn an_address_that_cannot_be_opened_is_explained_without_its_password() {
    for (address, expected) in [
        ("mysql://ada:hunter2@db/app", "unknown scheme `mysql:` in the address of a store; use"),
        ("postgres://ada:hunter2@127.0.0.1:1/app", "127.0.0.1:1/app` cannot be reached"),
        ("postgres://ada:hunter2@db/app?sslrootcert=x", "invalid Postgres URL"),
    ] {
        let listed = ended(&["runs", "list", "--store", address]);
        assert_eq!(listed.code, Some(1), "{listed:#?}");
        assert!(listed.stderr.contains(expected), "{listed:#?}");
        let health = agentwf(&["health"]).env("AGENTFLOW_STORE", address).run();
        assert_eq!(health.code, Some(1), "{health:#?}");
        for text in [&listed.stderr, &health.stderr, &health.stdout] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

#[test]
fn a_store_in_memory_takes_no_queued_runs() {
    let queue = ended(&["workflow", "run", "quick", "--queue", "--store", "memory:"]);
    assert_eq!(queue.code, Some(2), "{queue:#?}");
    assert!(queue.stderr.contains("`memory:` does not"), "{queue:#?}");
    let worker = ended(&["worker", "--store", "memory:"]);
    assert_eq!(worker.code, Some(1), "{worker:#?}");
    assert!(worker.stderr.contains("no other process can queue runs in `memory:`"), "{worker:#?}");
}

#[test]
fn what_is_missing_is_named() {
    let without = ended(&["worker"]);
    assert_eq!(without.code, Some(1), "{without:#?}");
    assert!(without.stderr.contains("name one with --store"), "{without:#?}");
    let none = ended(&["worker", "--store", "x.db", "--concurrency", "0"]);
    assert_eq!(none.code, Some(2), "{none:#?}");
    assert!(none.stderr.contains("must be at least 1"), "{none:#?}");
    let queue = ended(&["workflow", "run", "quick", "--queue"]);
    assert_eq!(queue.code, Some(2), "{queue:#?}");
    assert!(queue.stderr.contains("--queue needs a store"), "{queue:#?}");
}
