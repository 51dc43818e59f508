//! Tests executors that die, answer wrongly, twice or never, and unsuitable workers. Each case
//! gives a typed error, and no foreign event gets into a journal.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::executor::{
    ExecutorError, ExecutorErrorKind, StepBatch, StepCall, StepExecutor, StepHost, StepOutcome,
    StepRecorder, StepSignal,
};
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{MemoryStore, RunStatus};
use agentflow::workflow::{Node, NodePolicy};
use agentflow::{Event, Workflow, async_trait};
use agentflow_testing::{check_events, test_runtime, within};

type Outcome = Result<StepOutcome, ExecutorError>;

/// Executes steps in another runtime and modifies the outcome.
struct Changed<F> {
    worker: Runtime,
    change: F,
}

#[async_trait]
impl<F: Fn(Value) -> Result<Value, ExecutorError> + Send + Sync> StepExecutor for Changed<F> {
    async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
        let outcome = self.worker.execute_step(call, host).await;
        let outcome = (self.change)(serde_json::to_value(&outcome)?)?;
        Ok(serde_json::from_slice(&serde_json::to_vec(&outcome)?)?)
    }
}

/// Returns a workflow with one step of this policy.
fn flow(repeatable: bool, retries: u32) -> Workflow<(u32,), u32> {
    Workflow::build("hostile", ["n"], move |b, (n,)| {
        let policy = NodePolicy::default().repeatable(repeatable).retry(retries);
        b.node(
            Node::new("step").policy(policy),
            (n,),
            |_, (n,)| async move { Ok::<_, String>(n + 1) },
        )
    })
    .unwrap()
}

fn worker() -> Runtime {
    Runtime::builder().workflow(&flow(true, 0)).build()
}

async fn failed(executor: impl StepExecutor + 'static) -> agentflow::Error {
    let runtime = Runtime::builder().executor(executor).store(MemoryStore::new()).build();
    let run = runtime.start(flow(true, 0), 1).await.unwrap();
    let id = run.run_id().clone();
    let error = run.result().await.unwrap_err();
    check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
    error
}

#[tokio::test]
async fn what_comes_back_is_that_of_the_very_attempt() {
    for (at, other) in [("run", json!("another")), ("path", json!("other")), ("attempt", json!(2))]
    {
        let change = move |mut outcome: Value| {
            outcome[at] = other.clone();
            Ok(outcome)
        };
        let error = failed(Changed { worker: worker(), change }).await;
        assert_eq!(error.kind(), FailureKind::ForeignOutcome, "{error}");
        assert!(error.to_string().contains("attempt 1 at `step` of the run"), "{error}");
    }
    let change = |mut outcome: Value| {
        outcome["end"] = json!({"left": {"parked": ["elsewhere"]}});
        Ok(outcome)
    };
    assert_eq!(
        failed(Changed { worker: worker(), change }).await.kind(),
        FailureKind::ForeignOutcome
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_a_failure_of_its_own() {
    for change in [
        |_: Value| Ok(json!({"run": "r"})),
        |_: Value| Err(serde_json::from_str::<Value>("{").unwrap_err().into()),
        |mut outcome: Value| {
            outcome["end"] = json!({"of_a_newer_release": {}});
            Ok(outcome)
        },
    ] {
        let error = failed(Changed { worker: worker(), change }).await;
        assert_eq!(error.kind(), FailureKind::UnreadableOutcome, "{error}");
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_is_lost_or_panics() {
    struct Dies(bool);

    #[async_trait]
    impl StepExecutor for Dies {
        async fn execute(&self, _: StepCall, _: StepHost) -> Outcome {
            assert!(!self.0, "oh");
            Err(ExecutorError::lost("the worker has left"))
        }
    }

    let error = failed(Dies(false)).await;
    assert_eq!((error.kind(), error.is_retryable()), (FailureKind::Lost, true), "{error}");
    assert_eq!(error.to_string(), "the step `step` failed: the worker has left");
    let error = failed(Dies(true)).await;
    assert_eq!(error.kind(), FailureKind::Lost, "{error}");
    assert!(error.to_string().contains("the executor of the step panicked: oh"), "{error}");

    // No worker had claimed the step, so it never started. Its policy retries it, although it is
    // not repeatable after a start.
    let runtime = test_runtime().executor(Dies(false)).store(MemoryStore::new()).build();
    let run = runtime.start(flow(false, 2), 1).await.unwrap();
    let id = run.run_id().clone();
    assert_eq!(run.result().await.unwrap_err().kind(), FailureKind::Lost);
    let report = runtime.run(&id).inspect().await.unwrap();
    assert_eq!(report.nodes.iter().find(|node| node.name == "step").unwrap().attempts.len(), 3);

    // The effect of the step is unknown: an operator decides, as after a crash.
    let lost = |_: Value| Err(ExecutorError::lost("the worker has left"));
    let worker = Runtime::builder().workflow(&flow(false, 3)).build();
    let executor = Changed { worker, change: lost };
    let runtime = Runtime::builder().executor(executor).store(MemoryStore::new()).build();
    let run = runtime.start(flow(false, 3), 1).await.unwrap();
    within("the run to ask", async {
        while runtime.run(run.run_id()).record().await.unwrap().status != RunStatus::Paused {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let report = runtime.run(run.run_id()).inspect().await.unwrap();
    let node = report.nodes.iter().find(|node| node.name == "step").unwrap();
    assert_eq!(node.attempts.len(), 1, "it is not repeated by itself");
    run.cancel("enough").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_step_is_repeated_by_its_policy() {
    struct Once(Mutex<bool>, Runtime);

    #[async_trait]
    impl StepExecutor for Once {
        async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
            if !std::mem::replace(&mut *self.0.lock().unwrap(), true) {
                return Err(ExecutorError::lost("the worker has left"));
            }
            assert_eq!((call.attempt, call.failed), (2, 1));
            Ok(self.1.execute_step(call, host).await)
        }
    }

    let worker = Runtime::builder().workflow(&flow(true, 1)).build();
    let runtime = Runtime::builder().executor(Once(Mutex::new(false), worker)).build();
    assert_eq!(runtime.start(flow(true, 1), 1).await.unwrap().result().await.unwrap(), 2);
}

/// Never answers, and passes the host to the test.
struct Silent(Arc<Mutex<Option<(StepCall, StepHost)>>>);

#[async_trait]
impl StepExecutor for Silent {
    async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
        *self.0.lock().unwrap() = Some((call, host));
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_never_answers() {
    let limited = Workflow::<(u32,), u32>::build("hostile", ["n"], |b, (n,)| {
        let node = Node::new("step").timeout(Duration::from_secs(5));
        b.node(node, (n,), |_, (n,)| async move { Ok::<_, String>(n + 1) })
    })
    .unwrap();
    let host = Arc::new(Mutex::new(None));
    let runtime =
        Runtime::builder().executor(Silent(Arc::clone(&host))).store(MemoryStore::new()).build();
    let error = runtime.start(limited, 1).await.unwrap().result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Timeout, "{error}");
    // Late events are refused, and the host receives the signal to stop.
    let (call, late) = host.lock().unwrap().take().unwrap();
    let refused = late.record(batch(&call, 0, Vec::new())).await.unwrap_err();
    assert_eq!(refused.kind(), ExecutorErrorKind::Ended);
    assert!(matches!(late.signal().await, StepSignal::Stop { .. }));

    let run = runtime.start(flow(true, 0), 1).await.unwrap();
    within("the step to begin", async {
        while host.lock().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    run.cancel("enough").await.unwrap();
    assert_eq!(run.result().await.unwrap_err().kind(), FailureKind::Cancelled);
    let (_, late) = host.lock().unwrap().take().unwrap();
    let StepSignal::Stop { reason } = late.signal().await else { panic!("it is stopped") };
    assert_eq!(&*reason, "enough");
}

pub(crate) fn event(run: &str, path: &str, name: &str, payload: Value) -> Event {
    let event =
        json!({"run_id": run, "seq": 1, "time": 1, "path": path, "name": name, "payload": payload});
    serde_json::from_str(&event.to_string()).unwrap()
}

/// Returns a batch as a worker sends it.
pub(crate) fn batch(call: &StepCall, number: u64, events: Vec<Event>) -> StepBatch {
    let delivery =
        json!({"run": call.run, "path": call.path, "attempt": call.attempt, "id": "by hand"});
    let batch = json!({"delivery": delivery, "number": number, "events": events});
    serde_json::from_str(&batch.to_string()).unwrap()
}

#[tokio::test]
async fn records_that_are_not_the_steps_are_refused() {
    struct Forges(Runtime);

    #[async_trait]
    impl StepExecutor for Forges {
        async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
            let run = call.run.as_str();
            let done = json!({"output": 7, "duration_ms": 0});
            let failure = json!({"error": {"kind": "error", "message": "", "retryable": false}});
            for forged in [
                event(run, "other", "workflow.node.completed", done.clone()),
                event(run, "step", "workflow.node.completed", done.clone()),
                event(run, "", "run.failed", failure.clone()),
                event(run, "step", "run.failed", failure),
                event(run, "step", "run.cancelled", json!({"reason": "so"})),
                event(run, "step", "run.paused", json!({"reason": "operator"})),
                event(run, "step", "run.resumed", json!({"recovered": true})),
                event("another", "step/x", "workflow.node.completed", done),
            ] {
                // A valid event in the same batch does not help.
                let own = event(
                    run,
                    "step/model#1",
                    "model.started",
                    json!({"provider": "p", "model": "m"}),
                );
                let refused = host.record(batch(&call, 0, vec![own, forged])).await.unwrap_err();
                assert_eq!(refused.kind(), ExecutorErrorKind::Foreign, "{refused}");
                assert!(
                    refused.to_string().contains("is not an event of the step `step`"),
                    "{refused}"
                );
            }
            Ok(self.0.execute_step(call, host).await)
        }
    }

    let runtime = Runtime::builder().executor(Forges(worker())).store(MemoryStore::new()).build();
    let run = runtime.start(flow(true, 0), 1).await.unwrap();
    let id = run.run_id().clone();
    assert_eq!(run.result().await.unwrap(), 2);
    let journal = runtime.run(&id).journal().await.unwrap();
    check_events(&journal).unwrap();
    assert_eq!(journal.len(), 4, "{journal:#?}");
}

#[tokio::test]
async fn what_is_left_open_has_an_end() {
    struct Forgets;

    #[async_trait]
    impl StepExecutor for Forgets {
        async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
            let open = event(
                call.run.as_str(),
                "step/model#1",
                "model.started",
                json!({"provider": "p", "model": "m"}),
            );
            host.record(batch(&call, 0, vec![open])).await?;
            Err(ExecutorError::lost("the worker has left"))
        }
    }

    // `failed` checks that every started call has ended.
    assert_eq!(failed(Forgets).await.kind(), FailureKind::Lost);
}

#[tokio::test]
async fn a_worker_of_another_program_says_so() {
    let other = Workflow::<(u32,), u32>::build("hostile", ["n"], |b, (n,)| {
        let one = b.node("step", (n,), |_, (n,)| async move { Ok::<_, String>(n + 1) });
        b.node("more", (one,), |_, (n,)| async move { Ok::<_, String>(n + 1) })
    })
    .unwrap();
    let keep = |outcome: Value| Ok(outcome);
    let error =
        failed(Changed { worker: Runtime::builder().workflow(&other).build(), change: keep }).await;
    assert_eq!(error.kind(), FailureKind::DefinitionChanged, "{error}");
    let hash = |flow: &Workflow<(u32,), u32>| flow.graph().hash();
    for hash in [hash(&other), hash(&flow(true, 0))] {
        assert!(error.to_string().contains(&*hash), "{error}");
    }
    let error = failed(Changed { worker: Runtime::builder().build(), change: keep }).await;
    assert_eq!(error.kind(), FailureKind::UnknownWorkflow, "{error}");
    assert!(error.to_string().contains("`hostile`"), "{error}");

    struct Newer(Runtime);

    #[async_trait]
    impl StepExecutor for Newer {
        async fn execute(&self, mut call: StepCall, host: StepHost) -> Outcome {
            call.version += 1;
            Ok(self.0.execute_step(call, host).await)
        }
    }

    assert_eq!(failed(Newer(worker())).await.kind(), FailureKind::NewerVersion);

    struct Misled(Runtime, fn(&mut StepCall));

    #[async_trait]
    impl StepExecutor for Misled {
        async fn execute(&self, mut call: StepCall, host: StepHost) -> Outcome {
            let (run, path, attempt) = (call.run.clone(), call.path.clone(), call.attempt);
            (self.1)(&mut call);
            let mut outcome = self.0.execute_step(call, host).await;
            (outcome.run, outcome.path, outcome.attempt) = (run, path, attempt);
            Ok(outcome)
        }
    }

    let nowhere: fn(&mut StepCall) = |call| call.path = "nowhere".parse().unwrap();
    let unread: fn(&mut StepCall) = |call| drop(std::mem::take(&mut call.inputs));
    // A call with a changed path or missing inputs is refused before the body runs.
    assert_eq!(failed(Misled(worker(), nowhere)).await.kind(), FailureKind::ForeignOutcome);
    assert_eq!(failed(Misled(worker(), unread)).await.kind(), FailureKind::Value);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_drained_in_the_middle_of_a_step_loses_it() {
    let endless = || {
        Workflow::<(u32,), u32>::build("hostile", ["n"], |b, (n,)| {
            b.node("step", (n,), |_, (_,)| std::future::pending::<Result<u32, String>>())
        })
        .unwrap()
    };
    let worker = Runtime::builder().workflow(&endless()).build();
    let executor = Changed { worker: worker.clone(), change: |outcome: Value| Ok(outcome) };
    let runtime = Runtime::builder().executor(executor).store(MemoryStore::new()).build();
    let run = runtime.start(endless(), 1).await.unwrap();
    let id = run.run_id().clone();
    within("the journal to grow", async {
        while runtime.run(&id).journal().await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let drained = worker.drain(Duration::from_secs(5)).await;
    assert_eq!(drained.left, std::slice::from_ref(&id));
    let error = run.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Lost, "{error}");
    assert!(error.to_string().contains("was drained before the step had ended"), "{error}");
    check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
}

#[tokio::test]
async fn a_worker_that_is_drained_takes_no_step() {
    let worker = worker();
    worker.drain(Duration::ZERO).await;
    let keep = |outcome: Value| Ok(outcome);
    let error = failed(Changed { worker, change: keep }).await;
    assert_eq!((error.kind(), error.is_retryable()), (FailureKind::Lost, true), "{error}");
    assert!(
        error.to_string().contains("is being drained, which takes none; give it to another one"),
        "{error}"
    );
}

async fn saves(cx: &Context) -> Result<u32, agentflow::Error> {
    cx.save_artifact("report.txt", "text", "text/plain").await.map(|saved| saved.version)
}

async fn remembers(cx: &Context) -> Result<u32, agentflow::Error> {
    static NAME: StateKey<String> = StateKey::user("name");
    cx.set(&NAME, &"ada".to_owned()).map(|()| 1)
}

#[workflow]
async fn hostile_saves(cx: &Context, artifact: bool) -> Result<u32, agentflow::Error> {
    let saved = if artifact { saves(cx).await? } else { remembers(cx).await? };
    Ok(saved)
}

#[tokio::test(start_paused = true)]
async fn errors_of_unsupported_saves_in_a_remote_step_name_the_executor() {
    let executor = agentflow_tests::Elsewhere::on_task(test_runtime().build());
    let runtime = test_runtime().executor(executor).store(MemoryStore::new()).build();
    for artifact in [true, false] {
        let run = runtime.start(hostile_saves::workflow(), artifact).caller("ada").await.unwrap();
        let error = run.result().await.unwrap_err().to_string();
        assert!(error.contains("executor executes this step in another process"), "{error}");
        assert!(!error.contains("give the runtime"), "{error}");
    }
}
