//! The time limit of a run, or of an agent in a run. It is suspended while an operator holds the
//! run, or the run waits for a person.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::shared::RunShared;
use crate::path::StepPath;

/// Returns the outcome of `work`, or `None` if it executes for longer than `limit`. `base` is the
/// path at which and below which the work records events.
#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` has room for what it is given twice, in every run"
)]
pub(crate) fn within<'r, T>(
    shared: &'r RunShared,
    base: &'r StepPath,
    mut limit: Duration,
    mut work: Pin<&'r mut impl Future<Output = T>>,
) -> impl Future<Output = Option<T>> {
    async move {
        while !limit.is_zero() {
            let (began, held_before) = (Instant::now(), shared.held_for());
            {
                // Work that is always ready uses up tokio's budget, which would delay the timer.
                let mut over = pin!(tokio::task::unconstrained(tokio::time::sleep(limit)));
                // The work is polled first: if it asks a question, it suspends the time limit; the
                // answer wakes it and continues the time limit.
                let ran = std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
                    Poll::Ready(done) => Poll::Ready(Some(done)),
                    Poll::Pending if shared.log.waits_for_person(base) => Poll::Ready(None),
                    Poll::Pending => over.as_mut().poll(cx).map(|()| None),
                });
                if let Some(done) = ran.await {
                    return Some(done);
                }
            }
            // Time in which the run was held does not count.
            let used =
                began.elapsed().saturating_sub(shared.held_for().saturating_sub(held_before));
            limit = limit.saturating_sub(used);
            // Boxed, so that a run that is never held does not reserve space for this future.
            if !limit.is_zero()
                && let Some(done) =
                    Box::pin(while_it_stands_still(shared, base, work.as_mut())).await
            {
                return Some(done);
            }
        }
        None
    }
}

/// Polls `work` while the time limit is suspended. Returns its outcome if it ends during that time,
/// and `None` when the time limit continues.
async fn while_it_stands_still<T>(
    shared: &RunShared,
    base: &StepPath,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let asking = std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if shared.log.waits_for_person(base) => Poll::Pending,
        Poll::Pending => Poll::Ready(None),
    });
    if let Some(done) = asking.await {
        return Some(done);
    }
    if shared.is_held() {
        return tokio::select! {
            biased;
            done = &mut work => Some(done),
            () = shared.until_held(false) => None,
        };
    }
    None
}
