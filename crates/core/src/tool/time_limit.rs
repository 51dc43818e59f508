//! `TimeLimit`: the time that a step or a call may take. A person's time is not the step's, so the clock stands still while
//! something in the step waits for an answer.
//!
//! It ends nothing: whoever polls it does.

use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::context::Context;

/// The time that a step or a call may take.
pub(crate) struct TimeLimit {
    left: Duration,
    /// Since when the clock runs, and when it is over.
    running: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl TimeLimit {
    /// It begins when it is first polled.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { left: limit, running: None }
    }

    /// Ready when the time is over. It is polled after the work: a question that the work asks stops the clock, and its
    /// answer, which wakes the work, starts it again.
    pub(crate) fn poll_over(&mut self, task: &mut task::Context<'_>, cx: &Context) -> Poll<()> {
        self.poll_unless(cx.run().log.waits_within(cx.path()), task)
    }

    /// Polls until the time is over. The clock stops while `waits` is true.
    pub(crate) fn poll_unless(&mut self, waits: bool, task: &mut task::Context<'_>) -> Poll<()> {
        if waits {
            if let Some((since, _)) = self.running.take() {
                self.left = self.left.saturating_sub(since.elapsed());
            }
            return Poll::Pending;
        }
        let left = self.left;
        let (_, sleep) = self.running.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        sleep.as_mut().poll(task)
    }
}
