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
pub(crate) async fn within<T>(
    shared: &RunShared,
    base: &StepPath,
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let mut left = limit;
    while !left.is_zero() {
        let (began, held_before) = (Instant::now(), shared.held_for());
        // The work goes first: a question that it asks stops the clock, and its answer, which wakes it, starts the clock.
        let ran = {
            // Work that is always ready leaves no budget for it.
            let mut over = pin!(tokio::task::unconstrained(tokio::time::sleep(left)));
            std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if shared.log.waits_for_person(base) => Poll::Ready(None),
                Poll::Pending => over.as_mut().poll(cx).map(|()| None),
            })
            .await
        };
        if ran.is_some() {
            return ran;
        }
        let used = began.elapsed().saturating_sub(shared.held_for().saturating_sub(held_before));
        left = left.saturating_sub(used);
        if left.is_zero() {
            break;
        }
        // What had begun continues meanwhile.
        let asking = std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if shared.log.waits_for_person(base) => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        });
        let answered = asking.await;
        if answered.is_some() {
            return answered;
        }
        if shared.is_held() {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                // Boxed, so that a run which nobody holds does not hold the room of it.
                () = Box::pin(shared.until_held(false)) => {}
            }
        }
    }
    None
}
