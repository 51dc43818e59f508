//! Tests calls that are delivered several times, late, or to several workers at once: one worker
//! executes the step, and the others execute no part of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentflow::error::FailureKind;
use agentflow::event::ModelDelta;
use agentflow::executor::{
    ExecutorError, ExecutorErrorKind, StepBatch, StepCall, StepEnd, StepExecutor, StepHost,
    StepOutcome, StepRecorder, StepSignal,
};
use agentflow::path::StepPath;
use agentflow::prelude::*;
use agentflow::serde_json::{self, json};
use agentflow::store::MemoryStore;
use agentflow::workflow::Node;
use agentflow::{Workflow, async_trait};
use agentflow_testing::{EffectLog, check_events, test_runtime, wait_until};

use super::elsewhere_hostile::{batch, event};

type Outcome = Result<StepOutcome, ExecutorError>;

/// Writes a line.
#[tool]
async fn delivered_line(cx: &Context, log: Inject<EffectLog>, text: String) -> String {
    log.note(cx);
    text
}

#[workflow]
async fn delivered_calls(cx: &Context, text: String) -> Result<String> {
    let all = two_lines(cx, text).await?;
    Ok(all)
}

async fn two_lines(cx: &Context, text: String) -> Result<String> {
    let one = delivered_line(cx, cx.inject()?, text).await;
    let two = delivered_line(cx, cx.inject()?, format!("{one} again")).await;
    Ok(two)
}

/// Runs a step without nested records, which could otherwise distinguish two deliveries.
#[workflow]
async fn delivered_plain(cx: &Context, text: String) -> Result<String> {
    let all = counted(cx, text).await?;
    Ok(all)
}

async fn counted(cx: &Context, text: String) -> Result<String> {
    cx.inject::<EffectLog>()?.note(cx);
    tokio::task::yield_now().await;
    Ok(text)
}

/// Runs a step that consists of a tool call, which is not recorded elsewhere.
#[workflow]
async fn delivered_direct(cx: &Context, text: String) -> Result<String> {
    let all = delivered_line(cx, cx.inject()?, text).await;
    Ok(all)
}

fn worker(effects: &EffectLog) -> Runtime {
    test_runtime().resource(effects.clone()).build()
}

fn refused(outcome: &StepOutcome) -> ExecutorErrorKind {
    match &outcome.end {
        StepEnd::Refused { error } => error.kind(),
        end => panic!("it is refused, and not {end:?}"),
    }
}

type DeliveryFn = Box<
    dyn Fn(Runtime, StepCall, StepHost) -> futures_util::future::BoxFuture<'static, Outcome>
        + Send
        + Sync,
>;

/// An executor that delivers calls as a test defines.
struct DeliveryExecutor(EffectLog, DeliveryFn);

#[async_trait]
impl StepExecutor for DeliveryExecutor {
    async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
        (self.1)(worker(&self.0), call, host).await
    }
}

fn delivering<F: Future<Output = Outcome> + Send + 'static>(
    effects: &EffectLog,
    how: impl Fn(Runtime, StepCall, StepHost) -> F + Send + Sync + 'static,
) -> DeliveryExecutor {
    DeliveryExecutor(
        effects.clone(),
        Box::new(move |worker, call, host| Box::pin(how(worker, call, host))),
    )
}

async fn ended(
    flow: Workflow<(String,), String>,
    executor: DeliveryExecutor,
    effects: &EffectLog,
) -> Result<String> {
    let store = MemoryStore::new();
    let runtime = test_runtime().resource(effects.clone()).executor(executor).store(store).build();
    let run = runtime.start(flow, "hello".to_owned()).await.unwrap();
    let id = run.run_id().clone();
    let ended = run.result().await;
    check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
    ended
}

fn flows() -> [(Workflow<(String,), String>, usize); 3] {
    [
        (delivered_calls::workflow(), 2),
        (delivered_plain::workflow(), 1),
        (delivered_direct::workflow(), 1),
    ]
}

fn total(effects: &EffectLog) -> usize {
    effects.counts().values().sum()
}

#[tokio::test]
async fn the_second_of_two_deliveries_executes_nothing() {
    for (flow, times) in flows() {
        let effects = EffectLog::new();
        let twice = delivering(&effects, |worker, call, host| async move {
            let first = worker.execute_step(call.clone(), host.clone()).await;
            let second = worker.execute_step(call, host).await;
            assert_eq!(refused(&second), ExecutorErrorKind::Taken);
            Ok(first)
        });
        ended(flow, twice, &effects).await.unwrap();
        assert_eq!(total(&effects), times);
    }
}

#[tokio::test]
async fn the_outcome_of_a_refused_delivery_is_not_that_of_the_step() {
    // An executor that confuses the two outcomes loses the step. Recorded calls are not repeated.
    let effects = EffectLog::new();
    let mistaken = delivering(&effects, |worker, call, host| async move {
        let first = worker.execute_step(call.clone(), host.clone()).await;
        if call.attempt > 1 {
            return Ok(first);
        }
        let outcome = worker.execute_step(call, host).await;
        // The refusal survives serialization.
        Ok(serde_json::from_slice(&serde_json::to_vec(&outcome)?)?)
    });
    let store = MemoryStore::new();
    let runtime = test_runtime().executor(mistaken).resource(effects.clone()).store(store).build();
    let run = runtime.start(delivered_calls::workflow(), "hello".to_owned()).await.unwrap();
    let id = run.run_id().clone();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Lost, "{error}");
    assert!(
        error.to_string().contains("is executed by another delivery of the same call"),
        "{error}"
    );
    runtime.run(&id).retry("all", "ada").await.unwrap();
    assert!(runtime.run(&id).attach().await.unwrap().result().await.is_ok());
    assert_eq!(total(&effects), 2);
}

#[tokio::test]
async fn of_many_deliveries_at_once_exactly_one_wins() {
    for _ in 0..20 {
        for (flow, times) in flows() {
            let effects = EffectLog::new();
            let many = delivering(&effects, |worker, call, host| async move {
                let threads: Vec<_> = (0..6)
                    .map(|_| {
                        let (worker, call, host) = (worker.clone(), call.clone(), host.clone());
                        std::thread::spawn(move || {
                            let tokio = tokio::runtime::Builder::new_current_thread()
                                .enable_all()
                                .build()
                                .unwrap();
                            tokio.block_on(worker.execute_step(call, host))
                        })
                    })
                    .collect();
                let joined = tokio::task::spawn_blocking(|| {
                    wait_until("all deliveries", || {
                        threads.iter().all(|thread| thread.is_finished()).then_some(())
                    });
                    threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
                });
                let (refused, mut won): (Vec<_>, Vec<_>) = joined
                    .await
                    .unwrap()
                    .into_iter()
                    .partition(|outcome| matches!(outcome.end, StepEnd::Refused { .. }));
                assert_eq!((refused.len(), won.len()), (5, 1));
                Ok(won.remove(0))
            });
            ended(flow, many, &effects).await.unwrap();
            assert_eq!(total(&effects), times);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_delivery_executes_nothing() {
    let flow = || {
        Workflow::<(String,), String>::build("delivered_late", ["text"], |b, (text,)| {
            b.node(Node::new("all").retry(1), (text,), |cx, (text,): (String,)| async move {
                counted(&cx, text).await
            })
        })
        .unwrap()
    };
    let effects = EffectLog::new();
    let seen: Arc<Mutex<HashMap<u32, (StepCall, StepHost)>>> = Arc::default();
    let of_executor = Arc::clone(&seen);
    let late = delivering(&effects, move |_, call, host| {
        let (seen, effects) = (Arc::clone(&of_executor), EffectLog::new());
        async move {
            let worker = test_runtime().resource(effects.clone()).workflow(&flow()).build();
            let before = seen.lock().unwrap().insert(call.attempt, (call.clone(), host.clone()));
            assert!(before.is_none());
            let Some((old, old_host)) =
                seen.lock().unwrap().get(&1).cloned().filter(|_| call.attempt == 2)
            else {
                return Err(ExecutorError::lost("the queue has lost it"));
            };
            // A new attempt has started. The old call is refused through its own host and through
            // the new one.
            let ended = worker.execute_step(old.clone(), old_host).await;
            assert_eq!(refused(&ended), ExecutorErrorKind::Ended);
            let foreign = worker.execute_step(old, host.clone()).await;
            assert_eq!(refused(&foreign), ExecutorErrorKind::Foreign);
            assert_eq!(total(&effects), 0);
            Ok(worker.execute_step(call, host).await)
        }
    });
    let runtime =
        test_runtime().executor(late).resource(effects.clone()).store(MemoryStore::new()).build();
    let run = runtime.start(flow(), "hello".to_owned()).await.unwrap();
    let id = run.run_id().clone();
    assert_eq!(run.result().await.unwrap(), "hello");
    // The run has ended.
    let worker = test_runtime().resource(effects.clone()).workflow(&flow()).build();
    let calls: Vec<_> = seen.lock().unwrap().values().cloned().collect();
    for (call, host) in calls {
        assert_eq!(refused(&worker.execute_step(call, host).await), ExecutorErrorKind::Ended);
    }
    assert_eq!(total(&effects), 0);
    let journal = runtime.run(&id).journal().await.unwrap();
    check_events(&journal).unwrap();
    assert_eq!(journal.iter().filter(|event| event.name() == "workflow.node.started").count(), 2);
}

/// A connection that sends each batch twice.
struct Twice(StepHost, Arc<AtomicUsize>);

#[async_trait]
impl StepRecorder for Twice {
    async fn record(&self, batch: StepBatch) -> Result<(), ExecutorError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.record(batch.clone()).await?;
        self.0.record(batch).await
    }

    fn delta(&self, path: &StepPath, delta: ModelDelta) {
        self.0.delta(path, delta);
    }

    async fn signal(&self) -> StepSignal {
        self.0.signal().await
    }
}

#[tokio::test]
async fn a_batch_that_is_sent_again_is_kept_once() {
    let effects = EffectLog::new();
    let batches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&batches);
    let twice = delivering(&effects, move |worker, call, host| {
        let recorder = Twice(host, Arc::clone(&counted));
        async move { Ok(worker.execute_step(call, recorder).await) }
    });
    let store = MemoryStore::new();
    let runtime = test_runtime().executor(twice).resource(effects.clone()).store(store).build();
    let run = runtime.start(delivered_calls::workflow(), "hello".to_owned()).await.unwrap();
    let id = run.run_id().clone();
    run.result().await.unwrap();
    let journal = runtime.run(&id).journal().await.unwrap();
    check_events(&journal).unwrap();
    assert_eq!(journal.iter().filter(|event| event.name() == "tool.started").count(), 2);
    assert!(batches.load(Ordering::Relaxed) > 2);
    assert_eq!(total(&effects), 2);
}

#[tokio::test]
async fn what_cannot_be_of_one_delivery_is_refused() {
    let effects = EffectLog::new();
    let forged = delivering(&effects, |worker, call, host| async move {
        let run = call.run.as_str();
        let began =
            || event(run, "all/model#1", "model.started", json!({"provider": "p", "model": "m"}));
        let kind = |kept: Result<(), ExecutorError>| kept.unwrap_err().kind();
        let of = |name: &str, value: serde_json::Value| {
            let mut batch = serde_json::to_value(batch(&call, 0, vec![began()])).unwrap();
            batch["delivery"][name] = value;
            serde_json::from_str::<StepBatch>(&batch.to_string()).unwrap()
        };
        for (name, value) in
            [("run", json!("another")), ("path", json!("other")), ("attempt", json!(2))]
        {
            assert_eq!(kind(host.record(of(name, value)).await), ExecutorErrorKind::Foreign);
        }
        // These batches do not claim the step. The first one skips a number, and the second one
        // starts the same model call twice.
        assert_eq!(
            kind(host.record(batch(&call, 1, vec![began()])).await),
            ExecutorErrorKind::Foreign
        );
        assert_eq!(
            kind(host.record(batch(&call, 0, vec![began(), began()])).await),
            ExecutorErrorKind::Foreign
        );
        let outcome = worker.execute_step(call.clone(), host.clone()).await;
        assert_eq!(kind(host.record(of("id", json!("another"))).await), ExecutorErrorKind::Taken);
        Ok(outcome)
    });
    assert_eq!(ended(delivered_calls::workflow(), forged, &effects).await.unwrap(), "hello again");
    assert_eq!(total(&effects), 2);
}

#[tokio::test]
async fn what_a_worker_begins_twice_is_not_kept() {
    let effects = EffectLog::new();
    let twice = delivering(&effects, |_, call, host| async move {
        let run = call.run.as_str();
        let began =
            || event(run, "all/model#1", "model.started", json!({"provider": "p", "model": "m"}));
        host.record(batch(&call, 0, vec![began()])).await?;
        let error = host.record(batch(&call, 1, vec![began()])).await.unwrap_err();
        assert_eq!(error.kind(), ExecutorErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("begins what has begun already"), "{error}");
        Err(error)
    });
    let error = ended(delivered_calls::workflow(), twice, &effects).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::ForeignOutcome, "{error}");
}
