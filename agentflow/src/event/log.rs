//! The journal of a run in memory, and those who read it while it grows.
//!
//! Recorded events are kept for the life of the run and read by place, so a subscriber that comes late or reads slowly
//! misses none and holds nobody up. Deltas go into a bounded queue of each subscriber and are lost when it is full: the
//! recorded `model.completed` has all of their text.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, Waker};

use futures_util::Stream;

use super::{Event, EventKind, EventSink, ModelDelta, RunId};
use crate::context::RunShared;
use crate::path::StepPath;
use crate::time::Timestamp;

/// The most deltas that wait for one subscriber.
const DELTA_QUEUE: usize = 1024;

pub(crate) struct EventLog {
    run_id: RunId,
    sinks: Arc<[Arc<dyn EventSink>]>,
    delta_listeners: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: Vec<Record>,
    deltas: u32,
    subscribers: Vec<Subscriber>,
    next_subscriber: u64,
}

/// An event without what all events of the log have in common.
struct Record {
    time: Timestamp,
    path: StepPath,
    kind: EventKind,
}

struct Subscriber {
    id: u64,
    deltas: VecDeque<Event>,
    waker: Option<Waker>,
}

impl EventLog {
    pub(crate) fn new(run_id: RunId, sinks: Arc<[Arc<dyn EventSink>]>) -> Self {
        let listeners = sinks.iter().filter(|sink| sink.wants_deltas()).count();
        Self { run_id, sinks, delta_listeners: AtomicUsize::new(listeners), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event and shows it to everybody who listens.
    pub(crate) fn record(&self, time: Timestamp, path: StepPath, kind: EventKind) {
        let mut state = self.state();
        let shown = (!self.sinks.is_empty()).then(|| (path.clone(), kind.clone()));
        state.records.push(Record { time, path, kind });
        state.deltas = 0;
        let seq = state.records.len() as u64;
        for subscriber in &mut state.subscribers {
            if let Some(waker) = subscriber.waker.take() {
                waker.wake();
            }
        }
        if let Some((path, kind)) = shown {
            // Still under the lock, so that every sink sees the events in their order.
            let event = Event { run_id: self.run_id.clone(), seq, part: 0, time, path, kind };
            for sink in self.sinks.iter() {
                sink.emit(&event);
            }
        }
    }

    /// Whether anybody would see a delta.
    pub(crate) fn wants_deltas(&self) -> bool {
        self.delta_listeners.load(Ordering::Relaxed) > 0
    }

    /// Shows a delta to everybody who listens now.
    pub(crate) fn delta(&self, time: Timestamp, path: &StepPath, delta: ModelDelta) {
        let mut state = self.state();
        state.deltas += 1;
        let event = Event {
            run_id: self.run_id.clone(),
            seq: state.records.len() as u64,
            part: state.deltas,
            time,
            path: path.clone(),
            kind: EventKind::ModelDelta(delta),
        };
        for subscriber in &mut state.subscribers {
            if subscriber.deltas.len() == DELTA_QUEUE {
                subscriber.deltas.pop_front();
            }
            subscriber.deltas.push_back(event.clone());
            if let Some(waker) = subscriber.waker.take() {
                waker.wake();
            }
        }
        for sink in self.sinks.iter().filter(|sink| sink.wants_deltas()) {
            sink.emit(&event);
        }
    }

    /// The events recorded so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        let state = self.state();
        (0..state.records.len()).map(|at| state.event(&self.run_id, at)).collect()
    }

    fn subscribe(&self) -> u64 {
        let mut state = self.state();
        let id = state.next_subscriber;
        state.next_subscriber += 1;
        state.subscribers.push(Subscriber { id, deltas: VecDeque::new(), waker: None });
        self.delta_listeners.fetch_add(1, Ordering::Relaxed);
        id
    }

    fn unsubscribe(&self, id: u64) {
        self.state().subscribers.retain(|subscriber| subscriber.id != id);
        self.delta_listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

impl State {
    fn event(&self, run_id: &RunId, at: usize) -> Event {
        let Record { time, path, kind } = &self.records[at];
        Event {
            run_id: run_id.clone(),
            seq: at as u64 + 1,
            part: 0,
            time: *time,
            path: path.clone(),
            kind: kind.clone(),
        }
    }
}

/// The events of a run from its first on, deltas included from the moment of subscribing; ends with the run.
///
/// A slow reader loses deltas, never recorded events, and never holds the run up.
pub struct Events {
    run: Arc<RunShared>,
    id: u64,
    delivered: usize,
    ended: bool,
}

impl Events {
    pub(crate) fn new(run: Arc<RunShared>) -> Self {
        let id = run.log.subscribe();
        Self { run, id, delivered: 0, ended: false }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Option<Event>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let log = &this.run.log;
        let mut state = log.state();
        let recorded = state.records.len();
        let Some(subscriber) = state.subscribers.iter_mut().find(|subscriber| subscriber.id == this.id) else {
            return Poll::Ready(None);
        };
        let delivered = this.delivered as u64;
        if subscriber.deltas.front().is_some_and(|delta| delta.seq <= delivered) {
            return Poll::Ready(subscriber.deltas.pop_front());
        }
        if recorded == this.delivered {
            subscriber.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let event = state.event(&log.run_id, this.delivered);
        this.delivered += 1;
        this.ended = event.kind.ends_run();
        Poll::Ready(Some(event))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.run.log.unsubscribe(self.id);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("delivered", &self.delivered).finish_non_exhaustive()
    }
}
