//! `agentwf worker` and `workflow run --queue`: one process queues runs, others execute them.

use std::io::Read;
use std::process::Child;

use agentflow_testing::wait_until;
use agentflow_tests::{Agentwf, terminate};
use serde_json::json;

use super::cli_workflows::{Place, agentwf, done, ended};

/// A worker process, which is killed when this value is dropped.
struct Worker(Child);

impl Worker {
    fn start(place: &Place) -> Self {
        let store = place.store();
        let worker: Agentwf = agentwf(&["worker", "--store", &store, "--drain-timeout", "1s"]);
        Self(worker.start())
    }

    /// Sends SIGTERM. Returns the exit code and standard error.
    fn stop(mut self) -> (Option<i32>, String) {
        terminate(self.0.id());
        let status = wait_until("the end of a worker", || self.0.try_wait().unwrap());
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn queue(place: &Place, workflow: &str, id: &str, input: &str) {
    let store = place.store();
    let queued = done(&[
        "workflow", "run", workflow, "--queue", "--run-id", id, "--input", input, "--store", &store,
    ]);
    assert_eq!(queued.stdout, format!("{id}\n"));
    assert_eq!(place.status(id), json!("queued"));
}

fn wait_for_status(place: &Place, id: &str, expected: &str) {
    wait_until("the status of a run", || (place.status(id) == json!(expected)).then_some(()));
}

#[test]
fn workers_execute_queued_runs_and_continue_those_of_others() {
    let place = Place::new();
    queue(&place, "quick", "short", r#"{"word": "a", "times": 2}"#);
    queue(&place, "slow", "long", &json!({"file": place.path("flag")}).to_string());
    let first = Worker::start(&place);
    wait_for_status(&place, "short", "success");
    wait_for_status(&place, "long", "running");
    let (code, said) = first.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the run `long` is not finished"), "{said}");
    assert_eq!(place.status("long"), json!("running"));
    let second = Worker::start(&place);
    place.raise();
    wait_for_status(&place, "long", "success");
    let (code, said) = second.stop();
    assert_eq!((code, said.contains("not finished")), (Some(0), false), "{said}");
}

#[test]
fn what_is_missing_is_named() {
    let without = ended(&["worker"]);
    assert_eq!(without.code, Some(1), "{without:#?}");
    assert!(without.stderr.contains("name a file with --store"), "{without:#?}");
    let none = ended(&["worker", "--store", "x.db", "--concurrency", "0"]);
    assert_eq!(none.code, Some(2), "{none:#?}");
    assert!(none.stderr.contains("must be at least 1"), "{none:#?}");
    let queue = ended(&["workflow", "run", "quick", "--queue"]);
    assert_eq!(queue.code, Some(2), "{queue:#?}");
    assert!(queue.stderr.contains("--queue needs a store"), "{queue:#?}");
}
