//! Tests executors that never answer, answer too late or panic: operators can still control the run
//! within bounded time. Also tests progress and questions of steps on workers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::event::{EventKind, EventSink};
use agentflow::executor::{ExecutorError, StepCall, StepExecutor, StepHost, StepOutcome};
use agentflow::prelude::*;
use agentflow::run::RunHandle;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json;
use agentflow::store::{MemoryStore, RunStatus};
use agentflow::{Error, Event, RunId, Workflow, async_trait};
use agentflow_testing::{EffectLog, check_events, test_runtime, within};
use agentflow_tests::Elsewhere;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

type Outcome = Result<StepOutcome, ExecutorError>;

/// Never answers, and notifies about calls.
#[derive(Clone, Default)]
struct Silent(Arc<Asked>);

#[derive(Default)]
struct Asked {
    once: Notify,
    calls: Mutex<Vec<(StepCall, StepHost)>>,
}

#[async_trait]
impl StepExecutor for Silent {
    async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
        self.0.calls.lock().unwrap().push((call, host));
        self.0.once.notify_one();
        std::future::pending().await
    }
}

fn flow() -> Workflow<(u32,), u32> {
    Workflow::build("silent", ["n"], |b, (n,)| {
        b.node("step", (n,), |_, (n,)| async move { Ok::<_, String>(n + 1) })
    })
    .unwrap()
}

async fn begun() -> (Silent, Runtime, RunHandle<u32>, RunId) {
    let silent = Silent::default();
    let runtime = test_runtime().executor(silent.clone()).store(MemoryStore::new()).build();
    let run = runtime.start(flow(), 1).await.unwrap();
    within("`silent.0.once`", silent.0.once.notified()).await;
    let id = run.run_id().clone();
    (silent, runtime, run, id)
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_executor_never_answers_is_paused_and_cancelled() {
    let (silent, runtime, run, id) = begun().await;
    run.pause().await.unwrap();
    assert_eq!(runtime.run(&id).record().await.unwrap().status, RunStatus::Paused);
    run.unpause().await.unwrap();
    assert_eq!(runtime.run(&id).record().await.unwrap().status, RunStatus::Running);
    run.cancel("enough").await.unwrap();
    assert_eq!(run.result().await.unwrap_err().kind(), FailureKind::Cancelled);
    check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
    // A late answer executes no part of the step.
    let (call, host) = silent.0.calls.lock().unwrap().pop().unwrap();
    let worker = test_runtime().workflow(&flow()).build();
    let late = worker.execute_step(call, host).await;
    assert!(matches!(late.end, agentflow::executor::StepEnd::Refused { .. }), "{late:?}");
    assert_eq!(runtime.run(&id).journal().await.unwrap().last().unwrap().name(), "run.cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_executor_never_answers_has_its_time_limit() {
    let silent = Silent::default();
    let runtime = test_runtime().executor(silent.clone()).store(MemoryStore::new()).build();
    let run = runtime.start(flow(), 1).timeout(Duration::from_secs(3)).await.unwrap();
    let id = run.run_id().clone();
    assert!(matches!(run.result().await, Err(Error::Timeout { .. })));
    check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_executor_never_answers_is_left_at_the_deadline_of_a_drain() {
    let (_silent, runtime, run, id) = begun().await;
    let drained = runtime.drain(Duration::from_secs(5)).await;
    assert_eq!(drained.left, std::slice::from_ref(&id));
    drop(run);
    // The journal is left without an end, so that another process can resume the run.
    let journal = runtime.run(&id).journal().await.unwrap();
    assert_eq!(journal.last().unwrap().name(), "workflow.node.started", "it has no end on record");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_left_is_resumed_by_a_process_with_an_executor_that_answers() {
    let store = MemoryStore::new();
    let first = test_runtime().executor(Silent::default()).store(store.clone()).build();
    let run = first.start(flow(), 1).await.unwrap();
    let id = run.run_id().clone();
    first.drain(Duration::from_secs(5)).await;
    drop(run);
    let worker = test_runtime().workflow(&flow()).build();
    let second = test_runtime()
        .executor(Elsewhere::on_task(worker))
        .store(store.as_another_process())
        .build();
    let run = second.run(&id).resume_as(&flow()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    check_events(&second.run(&id).journal().await.unwrap()).unwrap();
}

/// Panics before it returns a future.
struct PanickingExecutor;

impl StepExecutor for PanickingExecutor {
    fn execute<'s, 'f>(&'s self, _: StepCall, _: StepHost) -> BoxFuture<'f, Outcome>
    where
        's: 'f,
        Self: 'f,
    {
        panic!("no future")
    }
}

/// Panics when the returned future is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

struct PanicOnDropExecutor(Silent);

#[async_trait]
impl StepExecutor for PanicOnDropExecutor {
    async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
        let _bomb = Bomb;
        self.0.execute(call, host).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_breaks() {
    let runtime = test_runtime().executor(PanickingExecutor).store(MemoryStore::new()).build();
    let error = runtime.start(flow(), 1).await.unwrap().result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Lost, "{error}");
    assert!(error.to_string().contains("the executor of the step panicked: no future"), "{error}");

    let silent = Silent::default();
    let runtime = test_runtime()
        .executor(PanicOnDropExecutor(silent.clone()))
        .store(MemoryStore::new())
        .build();
    let run = runtime.start(flow(), 1).await.unwrap();
    within("`silent.0.once`", silent.0.once.notified()).await;
    let id = run.run_id().clone();
    run.cancel("enough").await.unwrap();
    assert_eq!(run.result().await.unwrap_err().kind(), FailureKind::Cancelled);
    check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
}

/// Answers with these bytes.
struct Bytes(Vec<u8>);

#[async_trait]
impl StepExecutor for Bytes {
    async fn execute(&self, _: StepCall, _: StepHost) -> Outcome {
        Ok(serde_json::from_slice(&self.0)?)
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_is_a_typed_failure() {
    for bytes in [&b""[..], b"\xff\xfe\x00", b"null", b"[]", b"{\"run\":1}", &[b'['; 100_000]] {
        let runtime =
            test_runtime().executor(Bytes(bytes.to_vec())).store(MemoryStore::new()).build();
        let error = runtime.start(flow(), 1).await.unwrap().result().await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::UnreadableOutcome, "{error}");
    }
}

/// Measures a piece.
#[tool(effects = "none")]
async fn silent_measured(cx: &Context, n: u32) -> u32 {
    cx.emit(&format!("piece {n}"));
    tokio::task::yield_now().await;
    n
}

#[workflow]
async fn silent_progress(cx: &Context, numbers: Vec<u32>) -> Result<u32> {
    let all = measured_all(cx, numbers).await?;
    Ok(all)
}

async fn measured_all(cx: &Context, numbers: Vec<u32>) -> Result<u32> {
    let mut sum = 0;
    for (at, n) in numbers.iter().enumerate() {
        cx.emit(&(at + 1));
        sum += silent_measured(cx, *n).await;
    }
    Ok(sum)
}

/// Collects the progress events.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<String>>>);

impl Shown {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl EventSink for Shown {
    fn emit(&self, event: &Event) {
        if let EventKind::StepProgress { value } = &event.kind {
            self.0.lock().unwrap().push(format!("{} {value}", event.path));
        }
    }

    fn wants_deltas(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn progress_comes_along() {
    let shown = |runtime: RuntimeBuilder| async move {
        let shown = Shown::default();
        let runtime = runtime.sink(shown.clone()).store(MemoryStore::new()).build();
        let run = runtime.start(silent_progress::workflow(), vec![7, 8]).await.unwrap();
        let id = run.run_id().clone();
        assert_eq!(run.result().await.unwrap(), 15);
        let journal = runtime.run(&id).journal().await.unwrap();
        assert!(journal.iter().all(|event| event.name() != "step.progress"), "it is not recorded");
        shown.all()
    };
    let here = shown(test_runtime()).await;
    assert_eq!(
        here,
        [
            "all 1",
            "all/tool#1.silent_measured \"piece 7\"",
            "all 2",
            "all/tool#2.silent_measured \"piece 8\""
        ]
    );
    for executor in
        [Elsewhere::on_task(test_runtime().build()), Elsewhere::on_thread(test_runtime().build())]
    {
        assert_eq!(shown(test_runtime().executor(executor)).await, here);
    }
    // Progress is not shown while a redaction is active.
    let redacts = || test_runtime().with(agentflow::middleware::redact().emails());
    for executor in
        [Elsewhere::on_task(redacts().build()), Elsewhere::on_task(test_runtime().build())]
    {
        assert_eq!(shown(redacts().executor(executor)).await, [""; 0]);
    }
}

/// Pays after a consent.
#[tool(approve)]
async fn silent_pay(cx: &Context, log: Inject<EffectLog>, cents: u32) -> u32 {
    log.note(cx);
    cents
}

#[workflow]
async fn silent_payments(cx: &Context, all: Vec<u32>) -> Result<Vec<u32>> {
    let paid = map!(all, |cents| paid_with_consent(cx, cents)).await?;
    Ok(paid)
}

async fn paid_with_consent(cx: &Context, cents: u32) -> Result<u32> {
    Ok(silent_pay(cx, cx.inject()?, cents).await)
}

/// Executes each step, and loses its first attempt while the step waits for an answer.
struct FirstAttemptLosingExecutor(Runtime);

#[async_trait]
impl StepExecutor for FirstAttemptLosingExecutor {
    async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
        let first = call.attempt == 1;
        let executed = self.0.execute_step(call, host);
        match first {
            true => match tokio::time::timeout(Duration::from_secs(1), executed).await {
                Ok(outcome) => Ok(outcome),
                Err(_) => Err(ExecutorError::lost("the worker has left")),
            },
            false => Ok(executed.await),
        }
    }
}

#[workflow]
async fn silent_payments_again(cx: &Context, all: Vec<u32>) -> Result<Vec<u32>> {
    #[node(retry = 1)]
    let paid = map!(all, |cents| paid_with_consent(cx, cents)).await?;
    Ok(paid)
}

#[tokio::test(start_paused = true)]
async fn a_question_outlives_the_worker_that_asked() {
    let effects = EffectLog::new();
    let worker = test_runtime().resource(effects.clone()).build();
    let far = test_runtime()
        .executor(FirstAttemptLosingExecutor(worker))
        .resource(effects.clone())
        .store(MemoryStore::new())
        .build();
    let run = far.start(silent_payments_again::workflow(), vec![3, 4]).await.unwrap();
    let id = run.run_id().clone();
    let mut events = run.events();
    let mut asked = 0;
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(event.kind, EventKind::ApprovalRequested(_)) {
            asked += 1;
            // The first two questions belong to the first attempts. The later ones are answered.
            if asked > 2 {
                far.run(&id)
                    .approve(&event.path.to_string(), Approval::granted(), "ada")
                    .await
                    .unwrap();
            }
        }
    }
    assert_eq!(run.result().await.unwrap(), [3, 4]);
    assert_eq!(effects.counts().values().sum::<usize>(), 2);
    check_events(&far.run(&id).journal().await.unwrap()).unwrap();
}

/// Gives each step to the next worker and uses each worker once.
struct RollingExecutor(Mutex<Vec<Runtime>>);

#[async_trait]
impl StepExecutor for RollingExecutor {
    async fn execute(&self, call: StepCall, host: StepHost) -> Outcome {
        let worker = self.0.lock().unwrap().pop().unwrap();
        Ok(worker.execute_step(call, host).await)
    }
}

#[workflow]
async fn silent_nested(cx: &Context, cents: u32) -> Result<u32> {
    let sure = gate!("sure?", cents).await?;
    let paid = paid_if(cx, (sure.is_granted(), cents)).await?;
    Ok(paid)
}

async fn paid_if(cx: &Context, (sure, cents): (bool, u32)) -> Result<u32> {
    cx.inject::<EffectLog>()?.note(cx);
    Ok(if sure { cents } else { 0 })
}

#[workflow]
async fn silent_outer(cx: &Context, cents: u32) -> Result<u32> {
    let all = silent_nested(cx, cents).await?;
    Ok(all)
}

#[tokio::test(start_paused = true)]
async fn workers_are_replaced_while_a_person_is_asked() {
    let effects = EffectLog::new();
    let workers: Vec<_> =
        (0..3).map(|_| test_runtime().resource(effects.clone()).build()).collect();
    let executor = RollingExecutor(Mutex::new(workers.clone()));
    let far = test_runtime()
        .executor(executor)
        .resource(effects.clone())
        .store(MemoryStore::new())
        .build();
    let run = far.start(silent_outer::workflow(), 5).await.unwrap();
    let id = run.run_id().clone();
    let asked = || async {
        let report = far.run(&id).inspect().await.unwrap();
        report.nodes.iter().any(|node| node.name == "all/sure" && node.question.is_some())
    };
    for worker in workers.iter().skip(1).rev() {
        within("the run to ask", async {
            while !asked().await {
                tokio::task::yield_now().await;
            }
        })
        .await;
        worker.drain(Duration::from_secs(60)).await;
        within("the journal to grow", async {
            while far.run(&id).journal().await.unwrap().last().unwrap().name()
                == "workflow.node.retrying"
            {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    within("the run to ask", async {
        while !asked().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    far.run(&id).approve("all/sure", Approval::granted(), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 5);
    assert_eq!(effects.counts().values().sum::<usize>(), 1);
    check_events(&far.run(&id).journal().await.unwrap()).unwrap();
}

#[tokio::test]
async fn items_are_asked_about_elsewhere_each_by_itself() {
    let effects = EffectLog::new();
    let worker = test_runtime().resource(effects.clone()).build();
    let far = test_runtime()
        .executor(Elsewhere::on_thread(worker))
        .resource(effects.clone())
        .store(MemoryStore::new());
    let far = far.build();
    let run = far.start(silent_payments::workflow(), vec![3, 4]).await.unwrap();
    let id = run.run_id().clone();
    let mut events = run.events();
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(event.kind, EventKind::ApprovalRequested(_)) {
            far.run(&id)
                .approve(&event.path.to_string(), Approval::granted(), "ada")
                .await
                .unwrap();
        }
    }
    assert_eq!(run.result().await.unwrap(), [3, 4]);
    assert_eq!(effects.counts().values().sum::<usize>(), 2);
    check_events(&far.run(&id).journal().await.unwrap()).unwrap();
}
