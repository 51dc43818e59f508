//! Sinks that are slow, that block, that read the run they observe, and that panic. The run
//! continues, and lost events are counted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use agentflow::event::{AsyncEventSink, EventSink, QueuedSink, WhenFull};
use agentflow::store::MemoryStore;
use agentflow::{Agent, Event, RunId, Runtime};
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};
use futures_util::FutureExt;

/// A sink that records the numbers of the events it received.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u64>>>);

impl Seen {
    fn note(&self, event: &Event) {
        self.0.lock().unwrap().push(event.seq);
    }

    fn all(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

/// A barrier that blocks a sink until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |open| !*open).unwrap());
    }
}

/// Builds an agent that answers after this many turns with tool calls.
fn agent(turns: usize) -> Agent {
    let model = ScriptedModel::from_fn(move |request| match request.messages.len() {
        len if len < 2 * turns => Turn::call("no_such_tool", serde_json::json!({})),
        _ => Turn::text("done"),
    });
    Agent::new(model).name("speaker")
}

fn slow(gate: &Gate, seen: &Seen, capacity: usize) -> QueuedSink {
    let (gate, seen) = (gate.clone(), seen.clone());
    let sink = move |event: &Event| {
        gate.pass();
        seen.note(event);
    };
    QueuedSink::new(sink, capacity)
}

/// Returns the numbers of all events of a run with this many events.
fn all(events: u64) -> Vec<u64> {
    (1..=events).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_a_sink_that_must_lose_nothing() {
    let (gate, seen) = (Gate::default(), Seen::default());
    let sink = slow(&gate, &seen, 2);
    let runtime = Runtime::builder().sink(sink.clone()).build();
    let handle = agent(2).runtime(&runtime).start("go").unwrap();
    // The run is blocked by the full queue: the sink processes one event and two wait.
    within("the events to be queued", async {
        while sink.waiting() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(handle.result().now_or_never().is_none());
    assert!(seen.all().is_empty());
    gate.open();
    handle.result().await.unwrap();
    let drained = runtime.drain(Duration::from_secs(60)).await;
    assert_eq!((drained.unflushed.len(), sink.lost(), sink.waiting()), (0, 0, 0));
    assert_eq!(seen.all(), all(handle.recorded().len() as u64));
}

#[tokio::test]
async fn a_sink_that_may_lose_events_holds_nothing_up_and_counts_them() {
    let (gate, seen) = (Gate::default(), Seen::default());
    let sink = slow(&gate, &seen, 2).when_full(WhenFull::Drop);
    let runtime = Runtime::builder().sink(sink.clone()).build();
    let handle = agent(2).runtime(&runtime).start("go").unwrap();
    handle.result().await.unwrap();
    let events = handle.recorded().len() as u64;
    // Two events wait, or three if the thread has taken one.
    assert!((events - 3..=events - 2).contains(&sink.lost()), "{} of {events}", sink.lost());
    gate.open();
    assert!(sink.flush_within(Duration::from_secs(60)).await);
    let seen = seen.all();
    assert_eq!(seen.len() as u64 + sink.lost(), events);
    // The thread takes the first event at an unknown time, and then the queue has room for a later
    // one.
    assert_eq!(seen[..2], all(2), "the first ones, in order");
    assert!(seen.is_sorted(), "{seen:?}");
}

/// A sink that reads the run of each event it receives.
struct Reads {
    runtime: Arc<OnceLock<Runtime>>,
    read: Arc<AtomicUsize>,
}

impl Reads {
    async fn read(&self, run: &RunId) {
        let runtime = self.runtime.get().unwrap();
        let report = runtime.run(run).inspect().await.unwrap();
        let journal = runtime.run(run).journal().await.unwrap();
        // The sink has its own thread, so the run continues meanwhile.
        assert!(report.run.events <= journal.len() as u64);
        let handle = runtime.run(run).attach().await.unwrap();
        assert_eq!(handle.run_id(), run);
        self.read.fetch_add(1, Ordering::SeqCst);
    }
}

impl EventSink for Reads {
    fn emit(&self, event: &Event) {
        // The in-memory store never waits, so this completes at once, on the run's own thread.
        self.read(&event.run_id).now_or_never().expect("nothing holds a lock that this needs");
    }
}

#[agentflow::async_trait]
impl AsyncEventSink for Reads {
    async fn emit(&self, event: &Event) {
        self.read(&event.run_id).await;
        if event.seq == 2 {
            panic!("a sink that panics hinders nobody");
        }
    }
}

#[tokio::test]
async fn a_sink_may_read_the_run_that_it_is_told_about_and_may_panic() {
    let (runtime, read) = (Arc::<OnceLock<Runtime>>::default(), Arc::<AtomicUsize>::default());
    let reads = || Reads { runtime: Arc::clone(&runtime), read: Arc::clone(&read) };
    let (seen, last) = (Seen::default(), Seen::default());
    let (notes, noted_last) = (seen.clone(), last.clone());
    let panics = move |event: &Event| {
        notes.note(event);
        panic!("a sink that panics hinders nobody");
    };
    let built = test_runtime()
        .store(MemoryStore::new())
        .sink(reads())
        .sink(QueuedSink::of_async(reads(), 1))
        .sink(panics.clone())
        .sink(QueuedSink::new(panics, 1))
        .sink(move |event: &Event| noted_last.note(event))
        .build();
    runtime.set(built.clone()).unwrap();
    let result = agent(2).runtime(&built).run("go").await.unwrap();
    assert!(built.drain(Duration::from_secs(60)).await.unflushed.is_empty());
    let events = result.events().len();
    assert_eq!(read.load(Ordering::SeqCst), 2 * events);
    assert_eq!(seen.all().len(), 2 * events);
    assert_eq!(last.all(), all(events as u64));
}

/// A sink that never accepts an event.
struct Stuck;

#[agentflow::async_trait]
impl AsyncEventSink for Stuck {
    async fn emit(&self, _: &Event) {
        std::future::pending::<()>().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_does_not_end_holds_a_drain_up_to_its_deadline_only() {
    let stuck = QueuedSink::of_async(Stuck, 1000);
    let runtime = test_runtime().sink(stuck.clone()).sink(|_: &Event| {}).build();
    agent(1).runtime(&runtime).run("go").await.unwrap();
    let unflushed = runtime.drain(Duration::from_secs(5)).await.unflushed;
    assert!(unflushed.len() == 1 && unflushed[0].ends_with("::Stuck"), "{unflushed:?}");
    assert!(stuck.waiting() > 0);
    assert!(!stuck.flush_within(Duration::from_secs(5)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_that_nobody_empties_holds_a_drain_up_to_its_deadline_only() {
    let stuck = QueuedSink::of_async(Stuck, 1);
    let runtime = Runtime::builder().store(MemoryStore::new()).sink(stuck.clone()).build();
    let handle = agent(2).runtime(&runtime).start("go").unwrap();
    // The run is blocked by the full queue: the sink processes one event and one waits.
    within("the events to be queued", async {
        while stuck.waiting() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let drained = runtime.drain(Duration::ZERO).await;
    assert!(
        drained.unflushed.len() == 1 && drained.unflushed[0].ends_with("::Stuck"),
        "{:?}",
        drained.unflushed
    );
    let of_run = drained.left.iter().chain(&drained.ended);
    assert_eq!(of_run.collect::<Vec<_>>(), [handle.run_id()]);
}

#[test]
fn a_drain_on_the_only_thread_ends_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (unflushed, lost) = runtime.block_on(async {
        let stuck = QueuedSink::of_async(Stuck, 1);
        let runtime = Runtime::builder().sink(stuck.clone()).build();
        let _run = agent(2).runtime(&runtime).start("go").unwrap();
        (runtime.drain(Duration::from_millis(50)).await.unflushed, stuck.lost())
    });
    assert_eq!(unflushed.len(), 1, "{unflushed:?}");
    assert!(lost > 0, "what did not fit by then is counted");
}
