//! Tests writes that need approval and are interrupted repeatedly. An operator decides about each
//! interruption, and a person approves only once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::event::{EventKind, PauseReason};
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::store::RunFilter;
use agentflow::{Event, RunId, Workflow};
use agentflow_testing::{check_events, test_runtime, within};
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::Notify;

#[derive(Clone, Default)]
struct Bank(Arc<Seen>);

#[derive(Default)]
struct Seen {
    done: Mutex<Vec<String>>,
    /// Number of payments during which the process still has to end.
    stops: Mutex<u32>,
    stopped: Notify,
}

impl Bank {
    fn stopping(times: u32) -> Self {
        let bank = Self::default();
        *bank.0.stops.lock().unwrap() = times;
        bank
    }

    fn note(&self, what: &str) {
        self.0.done.lock().unwrap().push(what.to_owned());
    }
}

/// Pay out.
#[tool(approve)]
async fn again_pay(bank: Inject<Bank>, cents: u32) -> Result<u32> {
    bank.note(&format!("pay {cents}"));
    let left = { std::mem::take(&mut *bank.0.stops.lock().unwrap()) };
    if left > 0 {
        *bank.0.stops.lock().unwrap() = left - 1;
        bank.0.stopped.notify_one();
        std::future::pending::<()>().await;
    }
    Ok(cents)
}

async fn pay_in_a_function(cx: &Context, cents: u32) -> Result<u32> {
    Ok(again_pay(cx.inject()?, cents).await.unwrap_or(0))
}

#[workflow(name = "again-node")]
async fn as_a_node(cx: &Context, cents: u32) -> Result<u32> {
    let paid = again_pay(cx.inject()?, cents).await?;
    Ok(paid)
}

#[workflow(name = "again-call")]
async fn as_a_call(cx: &Context, cents: u32) -> Result<u32> {
    let paid = pay_in_a_function(cx, cents).await?;
    Ok(paid)
}

#[workflow(name = "again-inner")]
async fn in_a_workflow(cx: &Context, cents: u32) -> Result<u32> {
    let paid = as_a_call(cx, cents).await?;
    Ok(paid)
}

/// Returns the steps that wait for an operator.
fn interrupted(journal: &[Event]) -> Vec<String> {
    let mut waiting = Vec::new();
    for event in journal {
        let path = event.path.to_string();
        match &event.kind {
            EventKind::NodeFailed { error, .. } if error.kind == FailureKind::Interrupted => {
                waiting.push(path);
            }
            EventKind::NodeReset { .. } => waiting.retain(|it| *it != path),
            _ => {}
        }
    }
    waiting
}

/// Runs the workflow to its end. Restarts the process after each stop, answers every question and
/// retries every interrupted step.
async fn paid(workflow: &Workflow<(u32,), u32>, bank: &Bank, granted: Approval) -> u32 {
    let (store, run) = (MemoryStore::new(), RunId::new("run-1"));
    let mut started = false;
    loop {
        let store = store.as_another_process();
        let runtime = test_runtime().resource(bank.clone()).store(store).build();
        let handle = match std::mem::replace(&mut started, true) {
            false => runtime.start(workflow.clone(), 5).run_id(run.clone()).await.unwrap(),
            true => runtime.run(&run).resume_as(workflow).await.unwrap(),
        };
        let drive = async {
            let mut events = handle.events();
            while let Some(event) = within("the next event", events.next()).await {
                let EventKind::RunPaused { reason, .. } = &event.kind else { continue };
                match reason {
                    PauseReason::Approval => {
                        for question in runtime.runs().questions(RunFilter::new()).await.unwrap() {
                            bank.note("approve");
                            runtime
                                .run(&run)
                                .approve(&question.path, granted.clone(), "ada")
                                .await
                                .unwrap();
                        }
                    }
                    PauseReason::Interrupted => {
                        let journal = runtime.run(&run).journal().await.unwrap();
                        for path in interrupted(&journal) {
                            bank.note("retry");
                            runtime.run(&run).retry(&path, "ada").await.unwrap();
                        }
                    }
                    _ => {}
                }
            }
            handle.result().await
        };
        tokio::select! {
            ended = tokio::time::timeout(Duration::from_secs(3600), drive) => {
                let journal = runtime.run(&run).journal().await.unwrap();
                check_events(&journal).unwrap();
                let lines = agentflow_testing::trace(&journal);
                return ended.unwrap_or_else(|_| panic!("it waits: {lines:#?}")).unwrap();
            }
            () = bank.0.stopped.notified() => {
                handle.abandon();
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Checks the effects of a workflow whose payment is interrupted `times` times and finally pays
/// `cents`.
async fn check(workflow: &Workflow<(u32,), u32>, times: u32, granted: Approval, cents: u32) {
    let bank = Bank::stopping(times);
    assert_eq!(paid(workflow, &bank, granted).await, cents);
    let pays = format!("pay {cents}");
    let mut expected = vec!["approve", &pays];
    expected.extend((0..times).flat_map(|_| ["retry", &pays]));
    let done = bank.0.done.lock().unwrap().clone();
    assert_eq!(done, expected, "{} that is interrupted {times} times", workflow.name());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_interrupted_again_is_approved_once() {
    for times in 0..4 {
        for workflow in [as_a_node::workflow(), as_a_call::workflow(), in_a_workflow::workflow()] {
            check(&workflow, times, Approval::granted(), 5).await;
        }
        // Arguments that a person changed apply to every attempt.
        let less = Approval::granted_with(json!({"cents": 3}));
        check(&as_a_call::workflow(), times, less, 3).await;
    }
}
