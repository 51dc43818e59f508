//! The futures that a workflow's driver polls: running steps, and timers.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use crate::error::FailureKind;
use crate::run::RunShared;
use crate::store::StoreError;
use crate::text::panic_text;
use crate::time::Timestamp;
use crate::value::Encoded;
use crate::workflow::machine::Unit;
use crate::workflow::spec::StepFuture;
use crate::workflow::step_error::StepError;

/// A running step, or a timer.
pub(super) struct Task {
    unit: Unit,
    work: Work,
}

enum Work {
    Step { began: Timestamp, future: StepFuture },
    Commit { began: Timestamp, commit: Commit, future: Option<StepFuture> },
    Timer(Pin<Box<Sleep>>),
    Dropped,
}

type Commit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// How a task ended.
pub(super) enum Ended {
    Step {
        unit: Unit,
        began: Timestamp,
        result: Result<Encoded, StepError>,
    },
    Timer {
        unit: Unit,
    },
    /// The start of the step could not be kept, so it was not begun.
    Uncommitted(StoreError),
}

impl Task {
    /// A step; with a store, it begins when its start is kept there.
    pub(super) fn step(unit: Unit, began: Timestamp, future: StepFuture, durable: Option<Arc<RunShared>>) -> Self {
        let work = match durable {
            None => Work::Step { began, future },
            Some(shared) => {
                let commit: Commit = Box::pin(async move { shared.log.commit().await });
                Work::Commit { began, commit, future: Some(future) }
            }
        };
        Self { unit, work }
    }

    pub(super) fn timer(unit: Unit, left: Duration) -> Self {
        Self { unit, work: Work::Timer(Box::pin(tokio::time::sleep(left))) }
    }

    pub(super) fn unit(&self) -> Unit {
        self.unit
    }

    /// Drops the step or the wait now. A step that panics as it is dropped takes nothing else with it.
    pub(super) fn drop_work(&mut self) {
        let work = std::mem::replace(&mut self.work, Work::Dropped);
        if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(work))) {
            tracing::error!(problem = panic_text(&*panic), "a step panicked while it was dropped");
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.drop_work();
    }
}

impl Future for Task {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let this = &mut *self;
        let unit = this.unit;
        loop {
            match &mut this.work {
                Work::Step { began, future } => {
                    let polled = std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
                    let result = match polled {
                        Ok(Poll::Pending) => return Poll::Pending,
                        Ok(Poll::Ready(result)) => result,
                        Err(panic) => Err(StepError::panicked(&*panic)),
                    };
                    let began = *began;
                    this.drop_work();
                    return Poll::Ready(Ended::Step { unit, began, result });
                }
                Work::Commit { began, commit, future } => match commit.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => {
                        this.drop_work();
                        return Poll::Ready(Ended::Uncommitted(error));
                    }
                    Poll::Ready(Ok(())) => {
                        let began = *began;
                        this.work = match future.take() {
                            Some(future) => Work::Step { began, future },
                            None => Work::Dropped,
                        };
                    }
                },
                Work::Timer(sleep) => {
                    std::task::ready!(sleep.as_mut().poll(cx));
                    return Poll::Ready(Ended::Timer { unit });
                }
                // Nobody waits for it; it stays until the run ends.
                Work::Dropped => return Poll::Pending,
            }
        }
    }
}

/// A step with a time limit.
pub(super) struct WithLimit {
    limit: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    future: StepFuture,
}

impl WithLimit {
    pub(super) fn new(limit: Duration, future: StepFuture) -> Self {
        Self { limit, sleep: None, future }
    }
}

impl Future for WithLimit {
    type Output = Result<Encoded, StepError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Poll::Ready(result) = this.future.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        // The time begins when the step does, which may be after its start was committed.
        let limit = this.limit;
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        std::task::ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(StepError::new(
            FailureKind::Timeout,
            format!("the step took longer than its time limit of {limit:?}"),
        )))
    }
}
