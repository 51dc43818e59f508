//! `QueuedSink`: a sink behind a bounded queue, on a thread of its own, for sinks that are slow or async.
//!
//! It keeps the order of events and says what it left out; it never blocks a run unless it was asked to lose nothing.

use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentflow_schema::text::panic_text;
use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::Notify;

use super::{Event, EventSink};

/// Takes the events of runs, and may wait for something while it does: a database, say, or a service.
///
/// It is given to a runtime in a [`QueuedSink`], which hands it one event after the other, in the order in which they were
/// recorded.
#[async_trait]
pub trait AsyncEventSink: Send + Sync + 'static {
    /// Takes one event. The next one is handed over when this has ended. A panic is logged, and the event is over.
    async fn emit(&self, event: &Event);

    /// Hands on whatever it has put off. The default does nothing.
    async fn flush(&self) {}

    /// Whether deltas are wanted too; asked once, when a run starts. The default is no.
    fn wants_deltas(&self) -> bool {
        false
    }

    /// What it is called where it is named, as in [`Drained::unflushed`](crate::runtime::Drained::unflushed). Default: the
    /// name of its type.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }
}

/// What a [`QueuedSink`] does with a recorded event when its queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// The run waits until there is room, and nothing is lost. It waits on its own thread, so a sink that itself waits for
    /// something the run has to do must not have this. Only at the deadline of a runtime that is being
    /// [drained](crate::Runtime::drain) the wait is over: the event is left out and counted, as by [`Drop`](Self::Drop).
    #[default]
    Wait,
    /// The event is left out and counted: [`QueuedSink::lost`] says how many, and each gap is a warning in the log of the
    /// program.
    Drop,
}

/// A sink behind a queue: runs hand over their events and continue, and a thread of the sink's own hands them to it.
///
/// The thread begins with the first event and ends when the last clone of this is dropped and all that was accepted is
/// handed over. A clone is the same queue: keep one to ask it something. A delta never waits: one that finds the queue
/// full is left out, since the recorded event after it has all of its text.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use agentflow::event::{AsyncEventSink, Event, QueuedSink, WhenFull};
/// use agentflow::prelude::*;
/// # use agentflow_testing::{ScriptedModel, Turn};
///
/// #[derive(Clone, Default)]
/// struct Audit(Arc<Mutex<Vec<String>>>);
///
/// #[agentflow::async_trait]
/// impl AsyncEventSink for Audit {
///     async fn emit(&self, event: &Event) {
///         // A service would be awaited here.
///         self.0.lock().unwrap().push(event.id());
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let audit = Audit::default();
/// let queue = QueuedSink::of_async(audit.clone(), 1000).when_full(WhenFull::Drop);
/// let runtime = Runtime::builder().sink(queue.clone()).build();
/// # let model = ScriptedModel::new([Turn::text("Hello.")]);
/// Agent::new(model).runtime(&runtime).run("Say hello.").await?;
///
/// // At the end of the program; without it, what is still in the queue is lost with the process.
/// runtime.drain(Duration::from_secs(20)).await;
/// assert_eq!((audit.0.lock().unwrap().len(), queue.lost()), (5, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct QueuedSink {
    door: Arc<Door>,
    when_full: WhenFull,
}

/// What all clones share; the queue is closed with the last of them.
struct Door {
    queue: Arc<Queue>,
    sink: Taker,
    deltas: bool,
}

/// The sink that the thread hands events to.
#[derive(Clone)]
enum Taker {
    Quick(Arc<dyn EventSink>),
    Waiting(Arc<dyn AsyncEventSink>),
}

struct Queue {
    capacity: usize,
    state: Mutex<State>,
    /// An event was added, or nothing more will be.
    filled: Condvar,
    /// There is room again.
    taken: Condvar,
    /// Something was handed over.
    handed: Notify,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// How many events were accepted, and how many of them were handed over.
    accepted: u64,
    handed: u64,
    /// How many flushes were asked for, and how many of them are done.
    flushes: u64,
    flushed: u64,
    /// How many events were left out, and how many of them the log of the program knows.
    lost: u64,
    told: u64,
    started: bool,
    closed: bool,
    /// There is no thread, and no other one begins.
    given_up: bool,
    /// Until when a run waits for room: the runtime is being drained.
    wait_until: Option<Instant>,
}

/// What the thread does next.
enum Next {
    Event(Event),
    /// Nothing is left before the flush of this number.
    Flush(u64),
    End,
}

impl QueuedSink {
    /// A sink that may be slow, with room for so many events, at least one. A run waits when there is no room.
    pub fn new(sink: impl EventSink + 'static, capacity: usize) -> Self {
        let deltas = sink.wants_deltas();
        Self::of(Taker::Quick(Arc::new(sink)), deltas, capacity)
    }

    /// The same of a sink that waits for something. It is polled by a tokio runtime of its own, on its thread.
    pub fn of_async(sink: impl AsyncEventSink, capacity: usize) -> Self {
        let deltas = sink.wants_deltas();
        Self::of(Taker::Waiting(Arc::new(sink)), deltas, capacity)
    }

    fn of(sink: Taker, deltas: bool, capacity: usize) -> Self {
        let queue = Queue {
            capacity: capacity.max(1),
            state: Mutex::default(),
            filled: Condvar::new(),
            taken: Condvar::new(),
            handed: Notify::new(),
        };
        Self { door: Arc::new(Door { queue: Arc::new(queue), sink, deltas }), when_full: WhenFull::default() }
    }

    /// What is done with a recorded event when the queue is full. Default: [`WhenFull::Wait`].
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// How many recorded events were left out since the queue was full; 0 with [`WhenFull::Wait`], unless a runtime was
    /// drained whose deadline came while a run waited, or the program could begin no thread.
    pub fn lost(&self) -> u64 {
        self.door.queue.state().lost
    }

    /// How many events were accepted and are not handed over yet.
    pub fn waiting(&self) -> u64 {
        let state = self.door.queue.state();
        state.accepted - state.handed
    }

    /// Waits until all that was accepted before this is handed over and the sink has flushed it; for so long at most, by
    /// tokio's time. Whether it is.
    pub async fn flush_within(&self, deadline: Duration) -> bool {
        tokio::time::timeout(deadline, self.flush()).await.is_ok()
    }
}

#[async_trait]
impl EventSink for QueuedSink {
    fn emit(&self, event: &Event) {
        let queue = &self.door.queue;
        let mut state = queue.state();
        if state.given_up {
            state.lost += u64::from(event.is_recorded());
            return;
        }
        while state.events.len() >= queue.capacity {
            if !event.is_recorded() {
                return;
            }
            if self.when_full == WhenFull::Drop {
                state.lost += 1;
                return;
            }
            state = match state.wait_until {
                None => queue.taken.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        state.lost += 1;
                        return;
                    }
                    queue.taken.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            if state.given_up {
                state.lost += 1;
                return;
            }
        }
        state.accepted += 1;
        state.events.push_back(event.clone());
        let begins = !std::mem::replace(&mut state.started, true);
        drop(state);
        match begins {
            true => self.begin(),
            false => queue.filled.notify_one(),
        }
    }

    fn wants_deltas(&self) -> bool {
        self.door.deltas
    }

    fn wait_until(&self, end: Option<Instant>) {
        let queue = &self.door.queue;
        queue.state().wait_until = end;
        // Those that wait already learn it too.
        queue.taken.notify_all();
    }

    fn name(&self) -> &str {
        match &self.door.sink {
            Taker::Quick(sink) => sink.name(),
            Taker::Waiting(sink) => sink.name(),
        }
    }

    async fn flush(&self) {
        let queue = &self.door.queue;
        let number = {
            let mut state = queue.state();
            if !state.started {
                return;
            }
            state.flushes += 1;
            state.flushes
        };
        queue.filled.notify_one();
        loop {
            let handed = queue.handed.notified();
            if queue.state().flushed >= number {
                return;
            }
            handed.await;
        }
    }
}

impl QueuedSink {
    /// Begins the thread, with the first event.
    fn begin(&self) {
        let (queue, sink) = (Arc::clone(&self.door.queue), self.door.sink.clone());
        let thread = std::thread::Builder::new().name("agentflow-sink".to_owned());
        if let Err(error) = thread.spawn(move || queue.hand_over(&sink)) {
            tracing::error!(%error, "the thread of an event sink could not begin; its events are left out");
            self.door.queue.give_up();
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does.
    fn hand_over(&self, sink: &Taker) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "the thread of an event sink has no runtime; its events are left out");
                return self.give_up();
            }
        };
        loop {
            match self.next() {
                Next::End => return,
                Next::Event(event) => {
                    sink.take(&runtime, Some(&event));
                    let mut state = self.state();
                    state.handed += 1;
                    let gap = state.lost - state.told;
                    state.told = state.lost;
                    drop(state);
                    if gap > 0 {
                        tracing::warn!(lost = gap, "an event sink was too slow; so many events were left out");
                    }
                }
                Next::Flush(number) => {
                    sink.take(&runtime, None);
                    self.state().flushed = number;
                    self.handed.notify_waiters();
                }
            }
        }
    }

    /// Nobody hands anything over any more: whatever comes is left out, and nobody waits.
    fn give_up(&self) {
        let mut state = self.state();
        (state.given_up, state.flushed) = (true, u64::MAX);
        let left = state.events.len() as u64;
        state.lost += left;
        state.handed += left;
        state.events.clear();
        drop(state);
        self.taken.notify_all();
        self.handed.notify_waiters();
    }

    fn next(&self) -> Next {
        let mut state = self.state();
        loop {
            if let Some(event) = state.events.pop_front() {
                drop(state);
                self.taken.notify_one();
                return Next::Event(event);
            }
            if state.flushed < state.flushes {
                return Next::Flush(state.flushes);
            }
            if state.closed {
                return Next::End;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Taker {
    /// Hands an event over, or lets the sink flush. A panic ends with it.
    fn take(&self, runtime: &tokio::runtime::Runtime, event: Option<&Event>) {
        let taken = match (self, event) {
            // Outside of the runtime, so that it may block on one of its own.
            (Self::Quick(sink), Some(event)) => std::panic::catch_unwind(AssertUnwindSafe(|| sink.emit(event))),
            (Self::Quick(sink), None) => runtime.block_on(AssertUnwindSafe(sink.flush()).catch_unwind()),
            (Self::Waiting(sink), Some(event)) => runtime.block_on(AssertUnwindSafe(sink.emit(event)).catch_unwind()),
            (Self::Waiting(sink), None) => runtime.block_on(AssertUnwindSafe(sink.flush()).catch_unwind()),
        };
        if let Err(panic) = taken {
            let event = event.map_or("none", Event::name);
            tracing::error!(event, problem = panic_text(&*panic), "an event sink panicked");
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.queue.state().closed = true;
        self.queue.filled.notify_one();
    }
}

impl fmt::Debug for QueuedSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedSink")
            .field("capacity", &self.door.queue.capacity)
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}
