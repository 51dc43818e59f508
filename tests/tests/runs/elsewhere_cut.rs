//! Tests workers that die at each batch of events, before or after the batch is stored. No write is
//! repeated without an operator's decision, and every run ends as usual.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::event::ModelDelta;
use agentflow::executor::{
    ExecutorError, StepBatch, StepCall, StepExecutor, StepHost, StepOutcome, StepRecorder,
    StepSignal,
};
use agentflow::path::StepPath;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::value::NodeValue;
use agentflow::{RunId, Workflow, async_trait};
use agentflow_testing::{CrashTest, EffectLog};
use tokio::sync::Notify;

use super::elsewhere::{elsewhere_clerk, elsewhere_send, office_worker};
use super::elsewhere_lost::{
    Shop, answered, described, lost_direct, lost_in_agent, lost_in_calls, lost_in_calls_again,
    lost_in_items, lost_in_rounds, lost_in_workflow,
};

/// The moment when a worker dies: the number of the batch, and whether the batch is stored.
#[derive(Clone, Copy, Debug)]
struct Cut {
    at: usize,
    kept: bool,
}

struct DyingExecutor {
    worker: Runtime,
    cut: Cut,
    batches: Arc<AtomicUsize>,
}

struct Connection {
    host: StepHost,
    cut: Cut,
    batches: Arc<AtomicUsize>,
    dead: Arc<Notify>,
}

#[async_trait]
impl StepRecorder for Connection {
    async fn record(&self, batch: StepBatch) -> Result<(), ExecutorError> {
        let is_last = self.batches.fetch_add(1, Ordering::SeqCst) == self.cut.at;
        if is_last && !self.cut.kept {
            self.dead.notify_one();
            std::future::pending::<()>().await;
        }
        let kept = self.host.record(batch).await;
        if is_last {
            self.dead.notify_one();
            std::future::pending::<()>().await;
        }
        kept
    }

    fn delta(&self, path: &StepPath, delta: ModelDelta) {
        self.host.delta(path, delta);
    }

    async fn signal(&self) -> StepSignal {
        self.host.signal().await
    }
}

#[async_trait]
impl StepExecutor for DyingExecutor {
    async fn execute(&self, call: StepCall, host: StepHost) -> Result<StepOutcome, ExecutorError> {
        let dead = Arc::new(Notify::new());
        let (cut, batches) = (self.cut, Arc::clone(&self.batches));
        let connection = Connection { host, cut, batches, dead: Arc::clone(&dead) };
        tokio::select! {
            biased;
            outcome = self.worker.execute_step(call, connection) => Ok(outcome),
            () = dead.notified() => Err(ExecutorError::lost("the worker has died")),
        }
    }
}

/// Runs the workflow once for each batch. Returns the number of questions to the operator.
async fn cut_everywhere<Out: NodeValue + std::fmt::Debug>(
    flow: fn() -> Workflow<(String,), Out>,
    repeats: bool,
) -> usize {
    let undisturbed = ran(flow, Cut { at: usize::MAX, kept: false }).await.0;
    let expected = undisturbed.result.clone().unwrap();
    let mut asked = 0;
    for at in 0.. {
        for kept in [false, true] {
            let cut = Cut { at, kept };
            let (ran, batches) = ran(flow, cut).await;
            if batches <= at {
                return asked;
            }
            let mut times = BTreeMap::new();
            ran.done
                .iter()
                .filter(|what| !what.starts_with("look"))
                .for_each(|what| *times.entry(what).or_insert(0) += 1);
            let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
            assert!(twice.len() <= ran.asked.len().min(1), "{cut:?} {ran:?}: {twice:?}");
            asked += ran.asked.len();
            match &ran.result {
                // The answer may contain the message that the outcome of the interrupted call is
                // unknown.
                Ok(result) => {
                    assert!(
                        *result == expected || result.contains("is unknown"),
                        "{cut:?} {ran:?}"
                    );
                }
                Err(problem) => {
                    assert!(!repeats && problem.contains("the worker has died"), "{cut:?} {ran:?}");
                }
            }
        }
    }
    unreachable!("a run has an end")
}

async fn ran<Out: NodeValue + std::fmt::Debug>(
    flow: fn() -> Workflow<(String,), Out>,
    cut: Cut,
) -> (super::elsewhere_lost::Ran, usize) {
    let (shop, store) = (Shop::default(), MemoryStore::new());
    let batches = Arc::new(AtomicUsize::new(0));
    let dying =
        DyingExecutor { worker: described(&shop).build(), cut, batches: Arc::clone(&batches) };
    let runtime = described(&shop).store(store.clone()).executor(dying).build();
    let handle = runtime.start(flow(), "kettle".to_owned()).run_id(RunId::new("r")).await.unwrap();
    let (ran, _) = answered(&runtime, &store, &shop, handle).await;
    (ran, batches.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_at_every_batch() {
    assert!(cut_everywhere(lost_in_calls_again::workflow, true).await > 0);
    assert!(cut_everywhere(lost_in_calls::workflow, false).await > 0);
    assert!(cut_everywhere(lost_direct::workflow, false).await > 0);
    assert!(cut_everywhere(lost_in_workflow::workflow, false).await > 0);
    assert_eq!(cut_everywhere(lost_in_agent::workflow, false).await, 0);
    assert!(cut_everywhere(lost_in_items::workflow, false).await > 0);
    assert!(cut_everywhere(lost_in_rounds::workflow, false).await > 0);
}

#[workflow]
async fn cut_office(cx: &Context, thing: String) -> Result<String> {
    #[node(retry = 3)]
    let said = elsewhere_clerk(cx, thing).await?;
    #[node(retry = 3)]
    let sent = sent_twice(cx, &said).await?;
    Ok(sent)
}

async fn sent_twice(cx: &Context, to: &str) -> Result<String> {
    let first = elsewhere_send(cx, cx.inject()?, to.to_owned()).await;
    let second = elsewhere_send(cx, cx.inject()?, first.clone()).await;
    Ok(format!("{first}, {second}"))
}

#[tokio::test(start_paused = true)]
async fn a_process_that_crashes_while_its_workers_die() {
    for at in 0..12 {
        let effects = EffectLog::new();
        let noted = effects.clone();
        let report = CrashTest::new(&cut_office::workflow(), || "kettle".to_owned())
            .effects(&effects)
            .runtime(move |runtime| {
                let worker = office_worker(&noted);
                runtime.executor(DyingExecutor {
                    worker,
                    cut: Cut { at, kept: at % 2 == 0 },
                    batches: Arc::default(),
                })
            })
            .run()
            .await;
        assert!(
            report.step("sent/tool#1.elsewhere_send").unwrap().interrupted() > 0,
            "{at}: {report}"
        );
    }
}
