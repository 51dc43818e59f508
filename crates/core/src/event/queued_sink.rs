//! `QueuedSink`: a sink behind a bounded queue, on its own thread, for sinks that are slow or
//! async.
//!
//! The queue keeps the order of events and counts the events that it drops. With [`WhenFull::Drop`]
//! it never blocks a run.

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

/// Receives the events of runs asynchronously, for example to write them to a database or a
/// service.
///
/// Wrap it in a [`QueuedSink`] to give it to a runtime. The queue passes on one event after the
/// other, in the order in which they were recorded.
#[async_trait]
pub trait AsyncEventSink: Send + Sync + 'static {
    /// Receives one event. The next event follows when this future has completed. A panic is
    /// logged, and the event is skipped.
    async fn emit(&self, event: &Event);

    /// Writes out buffered events. The default does nothing.
    async fn flush(&self) {}

    /// Returns `true` to receive deltas too. Called once, when a run starts. Default: `false`.
    fn wants_deltas(&self) -> bool {
        false
    }

    /// Returns the name of the sink in reports such as
    /// [`Drained::unflushed`](crate::runtime::Drained::unflushed). Default: the name of its type.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }
}

/// Behaviour of a [`QueuedSink`] for a recorded event when its queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// Blocks the run until the queue has room, so no event is lost. The wait blocks the thread
    /// that executes the run; do not use this setting for a sink that itself waits for work of the
    /// run. The wait ends early only at the deadline of a runtime that is being
    /// [drained](crate::Runtime::drain): the event is then dropped and counted, as by
    /// [`Drop`](Self::Drop).
    #[default]
    Wait,
    /// Drops the event and counts it. [`QueuedSink::lost`] returns the count, and each gap is
    /// logged as a warning.
    Drop,
}

/// A sink behind a bounded queue. Runs put their events into the queue and continue; the queue's
/// own thread passes them to the sink.
///
/// The thread starts with the first event. It ends after the last clone of the `QueuedSink` is
/// dropped and all accepted events were passed on. Clones share one queue: keep a clone to query
/// it. A delta never waits. If the queue is full, the delta is dropped, since the next recorded
/// event contains its full text.
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
/// // At the end of the program. Without it, events that are still queued are lost.
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

/// State shared by all clones. Dropping the last clone closes the queue.
struct Door {
    queue: Arc<Queue>,
    sink: WrappedSink,
    deltas: bool,
}

/// The wrapped sink, to which the thread passes events.
#[derive(Clone)]
enum WrappedSink {
    Quick(Arc<dyn EventSink>),
    Waiting(Arc<dyn AsyncEventSink>),
}

struct Queue {
    capacity: usize,
    state: Mutex<QueueState>,
    /// An event or a flush request was added, or the queue was closed.
    filled: Condvar,
    /// The queue has room again.
    taken: Condvar,
    /// A flush finished.
    handed: Notify,
}

#[derive(Default)]
struct QueueState {
    events: VecDeque<Event>,
    /// Numbers of accepted events and of events passed to the sink.
    accepted: u64,
    handed: u64,
    /// Numbers of requested and of finished flushes.
    flushes: u64,
    flushed: u64,
    /// Numbers of dropped events and of dropped events that were logged.
    lost: u64,
    told: u64,
    started: bool,
    closed: bool,
    /// The thread could not start. It is not started again.
    given_up: bool,
    /// Time limit for a run that waits for room. It is set while the runtime is being drained.
    wait_until: Option<Instant>,
}

/// The next action of the thread.
enum QueueAction {
    Event(Event),
    /// All events that precede this flush were passed on.
    Flush(u64),
    End,
}

impl QueuedSink {
    /// Wraps a synchronous sink in a queue of `capacity` events, at least one. By default, a run
    /// waits while the queue is full.
    pub fn new(sink: impl EventSink + 'static, capacity: usize) -> Self {
        let deltas = sink.wants_deltas();
        Self::from_sink(WrappedSink::Quick(Arc::new(sink)), deltas, capacity)
    }

    /// Wraps an async sink in a queue of `capacity` events, at least one. A tokio runtime on the
    /// queue's own thread polls it.
    pub fn of_async(sink: impl AsyncEventSink, capacity: usize) -> Self {
        let deltas = sink.wants_deltas();
        Self::from_sink(WrappedSink::Waiting(Arc::new(sink)), deltas, capacity)
    }

    fn from_sink(sink: WrappedSink, deltas: bool, capacity: usize) -> Self {
        let queue = Queue {
            capacity: capacity.max(1),
            state: Mutex::default(),
            filled: Condvar::new(),
            taken: Condvar::new(),
            handed: Notify::new(),
        };
        Self {
            door: Arc::new(Door { queue: Arc::new(queue), sink, deltas }),
            when_full: WhenFull::default(),
        }
    }

    /// Sets the behaviour for a recorded event when the queue is full. Default: [`WhenFull::Wait`].
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Returns the number of recorded events that were dropped. With [`WhenFull::Wait`] it is 0,
    /// unless the deadline of a drain passed while a run waited, or the thread of the queue could
    /// not start.
    pub fn lost(&self) -> u64 {
        self.door.queue.state().lost
    }

    /// Returns the number of accepted events that were not passed to the sink yet.
    pub fn waiting(&self) -> u64 {
        let state = self.door.queue.state();
        state.accepted - state.handed
    }

    /// Waits until the sink has received and flushed all events that were accepted before this
    /// call, at most for `deadline` by tokio's clock. Returns `true` if it has.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. No event is lost.
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
            // A delta never waits.
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
        // The first event starts the thread, so an unused sink costs no thread.
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
        // Runs that already wait must see the new limit too.
        queue.taken.notify_all();
    }

    fn name(&self) -> &str {
        match &self.door.sink {
            WrappedSink::Quick(sink) => sink.name(),
            WrappedSink::Waiting(sink) => sink.name(),
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
            // Created before the check, so that a notification between the check and the await is
            // not lost.
            let handed = queue.handed.notified();
            if queue.state().flushed >= number {
                return;
            }
            handed.await;
        }
    }
}

impl QueuedSink {
    /// Starts the thread. Called for the first event.
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
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes events to the sink until the queue is closed. Runs on the queue's thread.
    fn hand_over(&self, sink: &WrappedSink) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "the thread of an event sink has no runtime; its events are left out");
                return self.give_up();
            }
        };
        loop {
            match self.next() {
                QueueAction::End => return,
                QueueAction::Event(event) => {
                    sink.take(&runtime, Some(&event));
                    let mut state = self.state();
                    state.handed += 1;
                    // Logs each gap once, with the number of events since the last warning.
                    let gap = state.lost - state.told;
                    state.told = state.lost;
                    drop(state);
                    if gap > 0 {
                        tracing::warn!(
                            lost = gap,
                            "an event sink was too slow; so many events were left out"
                        );
                    }
                }
                QueueAction::Flush(number) => {
                    sink.take(&runtime, None);
                    self.state().flushed = number;
                    self.handed.notify_waiters();
                }
            }
        }
    }

    /// Drops all queued events and releases all waiting tasks, because no thread passes events on.
    /// Later events are dropped too.
    fn give_up(&self) {
        let mut state = self.state();
        // All current and later flushes count as finished.
        (state.given_up, state.flushed) = (true, u64::MAX);
        let left = state.events.len() as u64;
        state.lost += left;
        state.handed += left;
        state.events.clear();
        drop(state);
        self.taken.notify_all();
        self.handed.notify_waiters();
    }

    fn next(&self) -> QueueAction {
        let mut state = self.state();
        loop {
            if let Some(event) = state.events.pop_front() {
                drop(state);
                self.taken.notify_one();
                return QueueAction::Event(event);
            }
            // Flushes follow the queued events, since a flush covers all events accepted before it.
            if state.flushed < state.flushes {
                return QueueAction::Flush(state.flushes);
            }
            if state.closed {
                return QueueAction::End;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl WrappedSink {
    /// Passes an event to the sink, or flushes the sink if `event` is `None`. Catches and logs a
    /// panic.
    fn take(&self, runtime: &tokio::runtime::Runtime, event: Option<&Event>) {
        let taken = match (self, event) {
            // `emit` runs outside the tokio runtime, because it may block on another runtime.
            (Self::Quick(sink), Some(event)) => {
                std::panic::catch_unwind(AssertUnwindSafe(|| sink.emit(event)))
            }
            (Self::Quick(sink), None) => {
                runtime.block_on(AssertUnwindSafe(sink.flush()).catch_unwind())
            }
            (Self::Waiting(sink), Some(event)) => {
                runtime.block_on(AssertUnwindSafe(sink.emit(event)).catch_unwind())
            }
            (Self::Waiting(sink), None) => {
                runtime.block_on(AssertUnwindSafe(sink.flush()).catch_unwind())
            }
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
