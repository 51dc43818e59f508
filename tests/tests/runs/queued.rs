//! Tests queued runs and workers: a run is stored by one process and executed by another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow::store::{
    Epoch, LeaseStore, MemoryStore, RunFilter, RunRecord, RunStatus, Store, StoreError,
    StoreErrorKind,
};
use agentflow::{Error, Event, RunId, async_trait};
use agentflow_testing::{TestClock, check_events, test_runtime, within};
use agentflow_tests::ProcessStore;
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);
const DRAIN: Duration = Duration::from_secs(30);

/// Numbers of concurrent and of all executed steps.
#[derive(Clone, Default)]
struct Gauge(Arc<[AtomicUsize; 3]>);

impl Gauge {
    async fn hold(&self, time: Duration) {
        let [now, most, all] = &*self.0;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        all.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(time).await;
        now.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.0[1].load(Ordering::SeqCst)
    }

    fn all(&self) -> usize {
        self.0[2].load(Ordering::SeqCst)
    }
}

/// Work for some seconds.
#[tool(idempotent)]
async fn work(gauge: Inject<Gauge>, seconds: u64) -> Result<u64> {
    gauge.hold(SECOND * u32::try_from(seconds).unwrap_or(u32::MAX)).await;
    Ok(seconds)
}

#[workflow]
async fn queued_work(cx: &Context, seconds: u64) -> Result<u64> {
    let worked = work(cx.inject()?, seconds).await?;
    Ok(worked + 1)
}

#[workflow]
async fn queued_rest(cx: &Context, seconds: u64) -> Result<u64> {
    let worked = work(cx.inject()?, seconds).await?;
    Ok(worked + 2)
}

#[workflow]
async fn queued_question(text: String) -> Result<String> {
    let approval = gate!("continue?", text).await?;
    Ok(format!("{}", matches!(approval, Approval::Granted { .. })))
}

fn process(store: &ProcessStore, number: u32, gauge: &Gauge) -> RuntimeBuilder {
    test_runtime().store(store.process(number)).resource(gauge.clone())
}

fn spawn(runtime: &Runtime, concurrency: usize) -> JoinHandle<Result<()>> {
    tokio::spawn(runtime.worker().concurrency(concurrency).run())
}

async fn stop(runtime: &Runtime, worker: JoinHandle<Result<()>>) {
    runtime.drain(DRAIN).await;
    within("the end of a worker", worker).await.unwrap().unwrap();
}

async fn status(runtime: &Runtime, run: &RunId) -> RunStatus {
    runtime.run(run).record().await.unwrap().status
}

#[tokio::test(start_paused = true)]
async fn a_queued_run_is_executed_by_the_process_that_resumes_it() {
    let (store, gauge) = (ProcessStore::new(), Gauge::default());
    // The process that queues the run lacks the resource of its tool.
    let front = test_runtime().store(store.process(1)).build();
    let clock = TestClock::new();
    let back = process(&store, 2, &gauge).clock(clock.clone()).build();
    let run = front
        .start(queued_work::workflow(), 3)
        .run_id(RunId::new("one"))
        .caller("ada")
        .tag("desk", "news")
        .timeout(SECOND * 10)
        .queued()
        .await
        .unwrap();
    tokio::time::sleep(SECOND * 60).await;
    let record = front.run(&run).record().await.unwrap();
    assert_eq!((record.status, record.events, gauge.all()), (RunStatus::Queued, 1, 0));
    assert_eq!((record.caller.as_deref(), record.tags["desk"].as_str()), (Some("ada"), "news"));
    let handle = back.run(&run).resume().await.unwrap();
    assert_eq!(status(&front, &run).await, RunStatus::Running);
    // The time limit of ten seconds does not include the minute in the queue.
    assert_eq!(handle.result().await.unwrap().decode::<u64>().unwrap(), 4);
    let events = front.run(&run).journal().await.unwrap();
    check_events(&events).unwrap();
    assert!(!events.iter().any(|event| matches!(event.kind, EventKind::RunCancelled { .. })));
    assert_eq!(status(&front, &run).await, RunStatus::Success);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_queued_is_refused() {
    let gauge = Gauge::default();
    let without_store = test_runtime().resource(gauge.clone()).build();
    let refused = without_store.start(queued_work::workflow(), 1).queued().await.unwrap_err();
    assert!(matches!(&refused, Error::Store(_)), "{refused}");
    let store = ProcessStore::new();
    let runtime = process(&store, 1, &gauge).build();
    let given = runtime.start(queued_work::workflow(), 1).resource(gauge.clone()).queued().await;
    let given = given.unwrap_err().to_string();
    assert!(given.contains("Gauge") && given.contains("`run_resource`"), "{given}");
    assert_eq!(runtime.runs().list(RunFilter::new()).await.unwrap(), []);
    let id = RunId::new("twice");
    runtime.start(queued_work::workflow(), 1).run_id(id.clone()).queued().await.unwrap();
    for queues in [true, false] {
        let again = runtime.start(queued_work::workflow(), 1).run_id(id.clone());
        let again = match queues {
            true => again.queued().await.map(drop),
            false => again.await.map(drop),
        };
        let Err(Error::Store(error)) = again else {
            panic!("a second run has the id of the first")
        };
        assert_eq!(error.kind(), StoreErrorKind::Exists);
    }
    let unknown = runtime.start_named("nowhere", json!({})).queued().await.unwrap_err();
    assert!(unknown.to_string().contains("nowhere"), "{unknown}");
    runtime.drain(SECOND).await;
    let drained = runtime.start(queued_work::workflow(), 1).queued().await;
    assert!(matches!(drained, Err(Error::Draining)), "{drained:?}");
}

#[tokio::test(start_paused = true)]
async fn a_queued_run_is_controlled_like_any_other() {
    let (store, gauge) = (ProcessStore::new(), Gauge::default());
    let runtime = process(&store, 1, &gauge).build();
    let cancelled = runtime.start(queued_work::workflow(), 1).queued().await.unwrap();
    runtime.run(&cancelled).cancel("not needed").await.unwrap();
    assert_eq!(status(&runtime, &cancelled).await, RunStatus::Cancelled);
    let held = runtime.start(queued_work::workflow(), 1).queued().await.unwrap();
    runtime.run(&held).pause().await.unwrap();
    let worker = spawn(&runtime, 4);
    tokio::time::sleep(SECOND * 20).await;
    assert_eq!((status(&runtime, &held).await, gauge.all()), (RunStatus::Paused, 0));
    runtime.run(&held).unpause().await.unwrap();
    let output = runtime.run(&held).attach().await.unwrap().result().await.unwrap();
    assert_eq!(output.decode::<u64>().unwrap(), 2);
    stop(&runtime, worker).await;
    assert_eq!(gauge.all(), 1, "the cancelled run is not executed");
}

#[tokio::test(start_paused = true)]
async fn workers_share_the_runs_and_keep_to_their_limits() {
    let (store, gauge) = (ProcessStore::new(), Gauge::default());
    let front = test_runtime().store(store.process(9)).build();
    let mut runs = Vec::new();
    for number in 0..30 {
        let id = RunId::new(format!("run-{number:02}"));
        runs.push(front.start(queued_work::workflow(), 2).run_id(id).queued().await.unwrap());
    }
    let workers: Vec<Runtime> =
        (1..=3).map(|number| process(&store, number, &gauge).build()).collect();
    let loops: Vec<_> = workers.iter().map(|runtime| spawn(runtime, 2)).collect();
    for run in &runs {
        let handle = front.run(run).attach().await.unwrap();
        let output = within("the end of a queued run", handle.result()).await.unwrap();
        assert_eq!(output.decode::<u64>().unwrap(), 3);
    }
    assert_eq!((gauge.all(), gauge.most()), (30, 6));
    for (runtime, worker) in workers.iter().zip(loops) {
        stop(runtime, worker).await;
    }
    for run in &runs {
        let events = front.run(run).journal().await.unwrap();
        check_events(&events).unwrap();
        let recovered =
            |event: &&Event| matches!(event.kind, EventKind::RunResumed { recovered: true, .. });
        assert_eq!(events.iter().filter(recovered).count(), 1, "{run} is taken once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_takes_the_runs_of_its_names_and_the_oldest_first() {
    let (store, gauge) = (ProcessStore::new(), Gauge::default());
    let clock = TestClock::new();
    let runtime = process(&store, 1, &gauge).clock(clock.clone()).build();
    let mut queued = Vec::new();
    for _ in 0..3 {
        queued.push(runtime.start(queued_rest::workflow(), 5).queued().await.unwrap());
        tokio::time::sleep(SECOND).await;
        queued.push(runtime.start(queued_work::workflow(), 5).queued().await.unwrap());
        tokio::time::sleep(SECOND).await;
    }
    let worker = tokio::spawn(runtime.worker().names(["queued_rest"]).concurrency(1).run());
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(status(&runtime, &queued[0]).await, RunStatus::Running, "the oldest one");
    tokio::time::sleep(SECOND * 60).await;
    for (at, run) in queued.iter().enumerate() {
        let expected = if at % 2 == 0 { RunStatus::Success } else { RunStatus::Queued };
        assert_eq!(status(&runtime, run).await, expected, "{run}");
    }
    stop(&runtime, worker).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_leaves_room_for_others() {
    let (store, gauge) = (ProcessStore::new(), Gauge::default());
    let runtime = process(&store, 1, &gauge).build();
    let mut asking = Vec::new();
    for _ in 0..5 {
        asking.push(
            runtime.start(queued_question::workflow(), "x".to_owned()).queued().await.unwrap(),
        );
    }
    let last = runtime.start(queued_work::workflow(), 1).queued().await.unwrap();
    let worker = spawn(&runtime, 1);
    let handle = runtime.run(&last).attach().await.unwrap();
    assert_eq!(within("the last run", handle.result()).await.unwrap().decode::<u64>().unwrap(), 2);
    for run in &asking {
        let questions = runtime.run(run).questions().await.unwrap();
        let question = &questions[0];
        runtime.run(run).approve(&question.path, Approval::granted(), "ada").await.unwrap();
        let answered = runtime.run(run).attach().await.unwrap().result().await.unwrap();
        assert_eq!(answered.decode::<String>().unwrap(), "true");
    }
    stop(&runtime, worker).await;
}

#[tokio::test(start_paused = true)]
async fn the_runs_of_a_dead_process_continue() {
    let (store, gauge) = (ProcessStore::new(), Gauge::default());
    let first = process(&store, 1, &gauge).build();
    let second = process(&store, 2, &gauge).build();
    let worker = spawn(&second, 4);
    let run = first.start(queued_work::workflow(), 5).await.unwrap();
    let id = run.run_id().clone();
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(gauge.all(), 1, "a worker does not take a run that another process executes");
    run.abandon();
    store.process(1).die();
    let handle = second.run(&id).attach().await.unwrap();
    let output = within("the run of the dead process", handle.result()).await.unwrap();
    assert_eq!(output.decode::<u64>().unwrap(), 6);
    stop(&second, worker).await;
}

/// A store whose lists and openings fail a few times each.
#[derive(Debug)]
struct Unreachable {
    inner: MemoryStore,
    lists: AtomicU32,
    openings: AtomicU32,
}

/// Counts down to 0. Fails as long as there is something to count.
fn fail(left: &AtomicU32) -> Result<(), StoreError> {
    match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
        Ok(_) => Err(StoreError::new(StoreErrorKind::Io, "the store is away")),
        Err(_) => Ok(()),
    }
}

#[async_trait]
impl agentflow::store::StoreLayer for Unreachable {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn claimable(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        fail(&self.lists)?;
        self.inner().claimable(filter).await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        fail(&self.openings)?;
        self.inner().open(run).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_a_store_that_is_away() {
    let gauge = Gauge::default();
    let store = Unreachable {
        inner: MemoryStore::new(),
        lists: AtomicU32::new(5),
        openings: AtomicU32::new(3),
    };
    let runtime = test_runtime().store(store).resource(gauge.clone()).build();
    let run = runtime.start(queued_work::workflow(), 1).queued().await.unwrap();
    let worker = spawn(&runtime, 1);
    let handle = runtime.run(&run).attach().await.unwrap();
    assert_eq!(within("a run", handle.result()).await.unwrap().decode::<u64>().unwrap(), 2);
    stop(&runtime, worker).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_a_worker_cannot_execute_is_left_to_another() {
    let (store, gauge) = (ProcessStore::new(), Gauge::default());
    let lacking = test_runtime().store(store.process(1)).build();
    let runs = [
        lacking.start(queued_work::workflow(), 1).queued().await.unwrap(),
        lacking.start(queued_work::workflow(), 1).queued().await.unwrap(),
    ];
    let asking = lacking.start(queued_question::workflow(), "x".to_owned()).queued().await.unwrap();
    // Its runtime lacks the resource of `work`.
    let worker = spawn(&lacking, 1);
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!(status(&lacking, &asking).await, RunStatus::Paused, "refused runs hide no others");
    for run in &runs {
        assert_eq!(status(&lacking, run).await, RunStatus::Queued);
    }
    let able = process(&store, 2, &gauge).build();
    let other = spawn(&able, 1);
    for run in &runs {
        let handle = able.run(run).attach().await.unwrap();
        assert_eq!(
            within("a refused run", handle.result()).await.unwrap().decode::<u64>().unwrap(),
            2
        );
    }
    stop(&lacking, worker).await;
    stop(&able, other).await;
}

/// A store that does not know which process executes a run.
#[derive(Debug)]
struct WithoutLeases(MemoryStore);

impl agentflow::store::StoreLayer for WithoutLeases {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn leases(&self) -> Option<&dyn LeaseStore> {
        None
    }
}

#[tokio::test]
async fn a_worker_needs_a_store_with_leases() {
    let refused = within("a worker", test_runtime().build().worker().run()).await.unwrap_err();
    assert!(matches!(refused, Error::Store(_)), "{refused}");
    let runtime = test_runtime().store(WithoutLeases(MemoryStore::new())).build();
    let refused = within("a worker", runtime.worker().run()).await.unwrap_err();
    let Error::Store(error) = &refused else { panic!("{refused}") };
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}
