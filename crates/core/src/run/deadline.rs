//! The time limit of a run, or of an agent in one. It stands still while the run waits for a person: while an operator
//! holds it, or somebody is asked in it.
//!
//! It ends nothing: whoever waits for the work does.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::shared::RunShared;
use crate::path::StepPath;

/// The outcome of `work`, which records at a path and below it, unless it is executed for longer than `limit`.
#[expect(clippy::manual_async_fn, reason = "an `async fn` has room for what it is given twice, in every run")]
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
                // Work that is always ready leaves no budget for it.
                let mut over = pin!(tokio::task::unconstrained(tokio::time::sleep(limit)));
                // The work goes first: a question that it asks stops the clock, and its answer, which wakes it, starts the
                // clock.
                let ran = std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
                    Poll::Ready(done) => Poll::Ready(Some(done)),
                    Poll::Pending if shared.log.waits_for_person(base) => Poll::Ready(None),
                    Poll::Pending => over.as_mut().poll(cx).map(|()| None),
                });
                if let Some(done) = ran.await {
                    return Some(done);
                }
            }
            let used = began.elapsed().saturating_sub(shared.held_for().saturating_sub(held_before));
            limit = limit.saturating_sub(used);
            // Boxed, so that a run which nobody holds does not hold the room of it.
            if !limit.is_zero()
                && let Some(done) = Box::pin(while_it_stands_still(shared, base, work.as_mut())).await
            {
                return Some(done);
            }
        }
        None
    }
}

/// The outcome of `work`, when it ends while the time limit stands still: what had begun continues meanwhile.
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
