//! Tests faults of the program and its store: panics, outputs that are too large, and a clock that
//! is set back. The run must still end.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use agentflow::event::EventSink;
use agentflow::serde_json::json;
use agentflow::store::{
    Epoch, MemoryStore, RunFilter, RunStatus, Store, StoreError, StoreErrorKind,
};
use agentflow::time::{Clock, Timestamp};
use agentflow::tool::{FnTool, ToolPolicy};
use agentflow::workflow::{Handle, Node, NodePolicy, RetryPolicy};
use agentflow::{Agent, Error, Event, RunHandle, RunId, Runtime, Workflow, async_trait};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime};
use agentflow_tests::ProcessStore;

type Step<T> = Result<T, String>;

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Panics when it is dropped.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        panic!("boom in drop");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn flow() -> Workflow<(), u32> {
    Workflow::build("mined", [], |b, ()| {
        let mined: Handle<u32> = b.node(
            Node::new("mined").policy(NodePolicy::default().timeout(Duration::from_secs(20))),
            (),
            |_, ()| async {
                let mine = Mine;
                pass(60).await;
                std::mem::forget(mine);
                Step::Ok(1)
            },
        );
        b.node("after", (mined,), |_, (n,)| async move { Step::Ok(n) })
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_step_that_panics_as_it_is_dropped_takes_nothing_with_it() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let timed_out = runtime.start(flow(), ()).await.unwrap();
    let error = timed_out.result().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `mined` failed: the step took longer than its time limit of 20s"
    );
    check_events(&timed_out.recorded()).unwrap();

    let cancelled = runtime.start(flow(), ()).await.unwrap();
    pass(1).await;
    cancelled.cancel("enough").await.unwrap();
    assert_eq!(cancelled.result().await.unwrap_err().to_string(), "the run was cancelled: enough");
    check_events(&cancelled.recorded()).unwrap();
}

fn mined_agent(runtime: &Runtime) -> Agent {
    let tool = FnTool::new("mined", "Waits.", |_, _: Nothing| async {
        let mine = Mine;
        pass(60).await;
        std::mem::forget(mine);
        Step::Ok(1)
    });
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("mined", json!({})),
        _ => Turn::text("done"),
    });
    Agent::new(model)
        .tools([tool.policy(ToolPolicy::default().timeout(Duration::from_secs(20)))])
        .runtime(runtime)
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_as_it_is_dropped_takes_nothing_with_it() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let timed_out = mined_agent(&runtime).start("go").unwrap();
    assert_eq!(timed_out.result().await.unwrap().output(), "done");
    check_events(&timed_out.recorded()).unwrap();

    let cancelled = mined_agent(&runtime).start("go").unwrap();
    pass(1).await;
    cancelled.cancel("enough").await.unwrap();
    assert_eq!(cancelled.result().await.unwrap_err().to_string(), "the run was cancelled: enough");
    check_events(&cancelled.recorded()).unwrap();
}

type Shared = Arc<Mutex<Option<RunHandle<u32>>>>;

/// Panics at every second event, and reads the run within the sink.
#[derive(Default)]
struct PanickingSink {
    run: Arc<OnceLock<Shared>>,
    seen: Arc<Mutex<Vec<u64>>>,
    read: Arc<AtomicUsize>,
}

impl EventSink for PanickingSink {
    fn emit(&self, event: &Event) {
        self.seen.lock().unwrap().push(event.seq);
        if let Some(run) = self.run.get()
            && let Some(run) = &*run.lock().unwrap()
        {
            self.read.fetch_add(run.recorded().len(), Ordering::SeqCst);
        }
        assert!(event.seq % 2 == 1, "a sink that panics");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_may_panic_and_may_read_the_run() {
    let sink = PanickingSink::default();
    let (run, seen, read) = (Arc::clone(&sink.run), Arc::clone(&sink.seen), Arc::clone(&sink.read));
    let flow = Workflow::<(u32,), u32>::build("two", ["n"], |b, (n,)| {
        let a = b.node("a", (n,), |_, (n,)| async move {
            pass(1).await;
            Step::Ok(n)
        });
        b.node("c", (a,), |_, (n,)| async move { Step::Ok(n + 1) })
    })
    .unwrap();
    let handle =
        test_runtime().store(MemoryStore::new()).sink(sink).build().start(flow, 1).await.unwrap();
    let handle = Arc::new(Mutex::new(Some(handle)));
    run.set(Arc::clone(&handle)).unwrap();
    pass(10).await;
    let handle = handle.lock().unwrap().take().unwrap();
    assert_eq!(handle.result().await.unwrap(), 2);
    assert_eq!(*seen.lock().unwrap(), (1..=handle.recorded().len() as u64).collect::<Vec<_>>());
    assert!(read.load(Ordering::SeqCst) > 0);
}

#[tokio::test(start_paused = true)]
async fn an_output_has_a_limit() {
    let flow = |bytes: usize| {
        Workflow::<(), usize>::build("large", [], move |b, ()| {
            let text = b.node("text", (), move |_, ()| async move { Step::Ok("x".repeat(bytes)) });
            b.node("size", (text,), |_, (text,): (String,)| async move { Step::Ok(text.len()) })
        })
        .unwrap()
    };
    let runtime = test_runtime().max_output_bytes(1000).build();
    assert_eq!(flow(998).run(&runtime, ()).await.unwrap(), 998);
    let error = flow(999).run(&runtime, ()).await.unwrap_err();
    assert_eq!(error.kind(), "too_large");
    assert_eq!(
        error.to_string(),
        "the step `text` failed: the output has 1001 bytes, more than the 1000 that one step may have; put the data \
         where it belongs and hand on where it is, or raise the limit with `Runtime::builder().max_output_bytes(..)`"
    );
    // The limit applies to all outputs of a map together.
    let mapped = Workflow::<(), Vec<String>>::build("mapped", [], |b, ()| {
        let items = b.value("items", (), |()| Step::Ok((0..20).collect::<Vec<u32>>()));
        b.map("texts", items, (), |_, _: u32, ()| async { Step::Ok("x".repeat(100)) })
    })
    .unwrap();
    assert_eq!(mapped.run(&runtime, ()).await.unwrap_err().kind(), "too_large");
    // The default limit is 16 MiB.
    assert_eq!(
        flow(17 << 20).run(&test_runtime().build(), ()).await.unwrap_err().kind(),
        "too_large"
    );
}

/// A clock that can be set back.
#[derive(Clone, Debug)]
struct Wrong {
    clock: TestClock,
    back: Arc<AtomicU64>,
}

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.now().as_millis() - self.back.load(Ordering::SeqCst))
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_makes_no_pause_longer() {
    let (store, clock) =
        (MemoryStore::new(), Wrong { clock: TestClock::new(), back: Arc::default() });
    let tries = Arc::new(AtomicUsize::new(0));
    let flow = {
        let tries = Arc::clone(&tries);
        Workflow::<(), u32>::build("retried", [], move |b, ()| {
            let mut retry = RetryPolicy::retries(3);
            retry.backoff_ms = 60_000;
            let policy = NodePolicy::default().retry_policy(retry);
            b.node(Node::new("a").policy(policy), (), move |_, ()| {
                let first = tries.fetch_add(1, Ordering::SeqCst) == 0;
                async move { if first { Err("not yet".to_owned()) } else { Ok(1) } }
            })
        })
        .unwrap()
    };
    let runtime =
        || test_runtime().clock(clock.clone()).store(store.clone()).workflow(&flow).build();
    let handle = runtime().start(flow.clone(), ()).await.unwrap();
    pass(10).await;
    handle.abandon();
    clock.back.store(24 * 3600 * 1000, Ordering::SeqCst);
    let began = tokio::time::Instant::now();
    let handle = runtime().run(&RunId::new("run-1")).resume_as(&flow).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 1);
    assert!(began.elapsed() <= Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_refused_stops_nothing() {
    let store = ProcessStore::new().without_snapshots();
    let flow = Workflow::<(), usize>::build("many", [], |b, ()| {
        let items = b.value("items", (), |()| Step::Ok((0..2000).collect::<Vec<u32>>()));
        let mapped: Handle<Vec<u32>> = b.map("mapped", items, (), |_, n: u32, ()| async move {
            pass(1).await;
            Step::Ok(n)
        });
        b.value("count", (mapped,), |(all,)| Step::Ok(all.len()))
    })
    .unwrap();
    let handle = test_runtime().store(store.clone()).build().start(flow, ()).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 2000);
    assert!(store.refused_snapshots() > 0, "a snapshot was due");
    assert_eq!(store.record(handle.run_id()).await.unwrap().unwrap().status, RunStatus::Success);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_a_step_returns_is_not_taken_for_a_stop() {
    // The step returns an error of the kind `cancelled`, but the run was not cancelled.
    let flow = Workflow::<(), u32>::build("own", [], |b, ()| {
        b.node("a", (), |_, ()| async { Err::<u32, _>(Error::Cancelled { reason: "mine".into() }) })
    })
    .unwrap();
    let error = flow.run(&test_runtime().build(), ()).await.unwrap_err();
    assert_eq!(error.to_string(), "the step `a` failed: the run was cancelled: mine");
}

fn spinning() -> Workflow<(u64,), u64> {
    Workflow::build("spinning", ["n"], |b, (n,)| {
        let step = |_: agentflow::Context, n: u64, ()| async move { Step::Ok(n + 1) };
        b.repeat(Node::new("again"), n, (), u32::MAX, |_: &u64| false, step)
    })
    .unwrap()
}

/// Uses the real clock. A paused clock does not advance while a task is ready.
#[tokio::test]
async fn a_run_that_is_always_ready_can_be_stopped() {
    let runtime = Runtime::default();
    let handle = runtime.start(spinning(), 0).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    handle.pause().await.unwrap();
    handle.unpause().await.unwrap();
    handle.cancel("enough").await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "cancelled");

    let limited =
        tokio::time::timeout(Duration::from_millis(20), spinning().run(&runtime, 0)).await;
    assert!(limited.is_err(), "its future leaves room for a time limit around it");
    let limited = runtime.start(spinning(), 0).timeout(Duration::from_millis(50)).await.unwrap();
    assert_eq!(limited.result().await.unwrap_err().kind(), "timeout");

    let model = ScriptedModel::from_fn(|_| Turn::call("next", json!({})));
    let next = FnTool::new("next", "Does nothing.", |_, _: Nothing| async { Step::Ok(1) });
    let limits = agentflow::agent::Limits::default().max_steps(u32::MAX).max_llm_calls(u32::MAX);
    let agent = Agent::new(model).tools([next]).settings(limits.timeout(Duration::from_millis(50)));
    assert_eq!(agent.run("go").await.unwrap_err().kind(), "timeout");
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_says_of_its_failure_is_bounded() {
    let long = FnTool::new("long", "Fails.", |_, _: Nothing| async {
        Err::<u32, _>("e".repeat(10_000_000))
    });
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("long", json!({})),
        3 => Turn::call("x".repeat(100_000), json!({})),
        _ => Turn::text("done"),
    });
    let result = Agent::new(model).tools([long]).run("go").await.unwrap();
    let told: Vec<usize> = result
        .events()
        .iter()
        .filter_map(|event| match &event.kind {
            agentflow::event::EventKind::ToolFailed { result, .. } => Some(result.output.len()),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|length| *length < 2000), "{told:?}");
}

/// A store that never records that a run is free again.
#[derive(Debug)]
struct UnclosableStore(MemoryStore);

#[async_trait]
impl agentflow::store::StoreLayer for UnclosableStore {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn close(&self, _: &RunId, _: Epoch) -> Result<(), StoreError> {
        Err(StoreError::new(StoreErrorKind::Io, "the network is gone"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_end_is_kept_has_its_result_also_when_it_cannot_be_closed() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(UnclosableStore(store.clone())).build();
    let flow = Workflow::<(), u32>::build("kept", [], |b, ()| {
        b.node("one", (), |_, ()| async { Step::Ok(1) })
    })
    .unwrap();
    assert_eq!(runtime.start(flow, ()).await.unwrap().result().await.unwrap(), 1);
    let status = store.list(RunFilter::new()).await.unwrap()[0].status;
    assert_eq!(status, RunStatus::Success);
}
