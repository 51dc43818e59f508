//! `TimeLimit`: the time limit of a step or a call. The clock stops while the step waits for a
//! person's answer.

use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::context::Context;

/// The remaining time of a step or a call. The poller ends the work when it is used up.
pub(crate) struct TimeLimit {
    left: Duration,
    /// The start of the running clock, and the timer that ends it. `None` while the clock is
    /// stopped.
    running: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl TimeLimit {
    /// Creates a limit whose clock starts at the first poll.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { left: limit, running: None }
    }

    /// Returns `Ready` when the time is used up. Poll it after the work: a question that the work
    /// sends stops the clock, and the answer, which wakes the work, starts it again.
    pub(crate) fn poll_over(&mut self, task: &mut task::Context<'_>, cx: &Context) -> Poll<()> {
        self.poll_unless(cx.run().log.waits_within(cx.path()), task)
    }

    /// Polls the clock, which stops while `waits` is `true`.
    pub(crate) fn poll_unless(&mut self, waits: bool, task: &mut task::Context<'_>) -> Poll<()> {
        // Dropping the timer stops the clock. The unused time is kept for the next poll.
        if waits {
            if let Some((since, _)) = self.running.take() {
                self.left = self.left.saturating_sub(since.elapsed());
            }
            return Poll::Pending;
        }
        let left = self.left;
        let (_, sleep) = self
            .running
            .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        sleep.as_mut().poll(task)
    }
}
