//! Passes events to sinks: in order, one at a time, and never under a lock of the log.
//!
//! A sink may therefore be slow, read the run whose events it receives, or panic without affecting
//! the run.

use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentflow_schema::text::panic_text;

use crate::event::{Event, EventSink};

pub(super) struct Emitter {
    sinks: Arc<[Arc<dyn EventSink>]>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// `true` while a thread passes events to the sinks. It also passes the events that are added
    /// meanwhile.
    emitting: bool,
}

impl Emitter {
    pub(super) fn new(sinks: Arc<[Arc<dyn EventSink>]>) -> Self {
        Self { sinks, queue: Mutex::default() }
    }

    pub(super) fn delta_sinks(&self) -> usize {
        self.sinks.iter().filter(|sink| sink.wants_deltas()).count()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the next event. The caller holds the log's lock, so that events are in order.
    pub(super) fn add(&self, event: Event) {
        self.queue().events.push_back(event);
    }

    /// Passes all added events to the sinks, unless another thread does so already. The caller must
    /// not hold the log's lock.
    pub(super) fn emit(&self) {
        let mut queue = self.queue();
        if queue.emitting || queue.events.is_empty() {
            return;
        }
        queue.emitting = true;
        // The queue is unlocked while a sink runs, since a sink may record events of the same run.
        while let Some(event) = queue.events.pop_front() {
            drop(queue);
            self.show(&event);
            queue = self.queue();
        }
        queue.emitting = false;
    }

    fn show(&self, event: &Event) {
        for sink in self.sinks.iter().filter(|sink| event.is_recorded() || sink.wants_deltas()) {
            let shown = std::panic::catch_unwind(AssertUnwindSafe(|| sink.emit(event)));
            if let Err(panic) = shown {
                let problem = panic_text(&*panic);
                tracing::error!(run = %event.run_id, event = event.name(), problem, "an event sink panicked");
            }
        }
    }
}

impl fmt::Debug for Emitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emitter").field("sinks", &self.sinks.len()).finish_non_exhaustive()
    }
}
