//! The futures that a workflow's driver polls: running steps, and timers.
//!
//! A step is polled at its place: a call in it finds the place, and can end the step by it.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;
use tracing::Span;

use crate::error::FailureKind;
use crate::path::StepPath;
use crate::run::{Around, AroundSlot, RunShared, stopping};
use crate::store::StoreError;
use crate::telemetry;
use crate::time::Timestamp;
use crate::tool::{StepPlace, TimeLimit, ToolDefinition, late_text, slot};
use crate::value::Encoded;
use crate::workflow::callee;
use crate::workflow::machine::Unit;
use crate::workflow::spec::{NodeSpec, StepFuture};
use crate::workflow::step_error::{StepError, caught};

/// A running step, or a timer.
pub(super) struct Task {
    unit: Unit,
    work: Work,
}

enum Work {
    Step {
        began: Timestamp,
        step: Step,
    },
    Commit {
        began: Timestamp,
        commit: Commit,
        step: Option<Step>,
    },
    /// Since when somebody waits, and until then.
    Timer(Timestamp, Pin<Box<Sleep>>),
    Dropped,
}

/// A step with its place.
pub(super) struct Step {
    future: StepFuture,
    place: Arc<StepPlace>,
    around: AroundSlot,
    /// The tool whose function the step consists of, when it is one.
    called: Option<Arc<ToolDefinition>>,
    /// That of the tool call which the step consists of.
    span: Span,
}

type Commit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// How a task ended.
pub(super) enum Ended {
    Step {
        unit: Unit,
        path: StepPath,
        began: Timestamp,
        result: Result<Encoded, StepError>,
    },
    Timer {
        unit: Unit,
        since: Timestamp,
    },
    /// The start of the step could not be kept, so it was not begun.
    Uncommitted(StoreError),
}

impl Ended {
    /// Whether a step has failed.
    pub(super) fn is_failure(&self) -> bool {
        matches!(self, Self::Step { result: Err(_), .. })
    }
}

impl Step {
    /// A step that is made and polled at a place.
    pub(super) fn new(place: Arc<StepPlace>, make: impl FnOnce() -> Result<StepFuture, StepError>) -> Self {
        let around = Around::at(Arc::clone(&place)).into_slot();
        // None of its code runs before it is polled.
        let made = caught(make);
        let future = made.unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))));
        Self { future, place, around, called: None, span: Span::none() }
    }

    pub(super) fn with_limit(mut self, limit: Option<Duration>, called: Option<&Arc<ToolDefinition>>) -> Self {
        if let Some(limit) = limit {
            let called = called.map(Arc::clone);
            self.future = Box::pin(WithLimit::new(limit, Arc::clone(&self.place), called, self.future));
        }
        self
    }

    /// A step that consists of a call of a tool waits for its turn when only so many calls run at once; the call of a
    /// function has its span here.
    pub(super) fn at_its_turn(mut self, node: &NodeSpec) -> Self {
        let Some(tool) = &node.called else {
            // An agent or a workflow has a span of its own.
            if node.does.is_none() && node.callee.and_then(callee::word).is_none() {
                self.span = telemetry::step_span(self.place.cx.path(), self.place.cx.run());
            }
            return self;
        };
        if tool.policy.concurrency.is_some() {
            let (cx, tool, future) = (self.place.cx.clone(), Arc::clone(tool), self.future);
            self.future = Box::pin(async move {
                let _slot = slot(&cx, &tool).await;
                future.await
            });
        }
        if node.callee.is_some() {
            self.span = telemetry::tool_span_of_step(tool, self.place.cx.run(), || self.place.cx.call_key());
        }
        self.called = Some(Arc::clone(tool));
        self
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Encoded, StepError>> {
        let Self { future, around, span, .. } = self;
        let poll = || span.in_scope(|| around.run(|| future.as_mut().poll(cx)));
        let polled = std::panic::catch_unwind(AssertUnwindSafe(poll));
        if let Some(failure) = self.place.ended() {
            return Poll::Ready(Err(StepError::recorded(failure)));
        }
        if self.place.is_without_output() {
            return Poll::Ready(Encoded::new("").map_err(|error| StepError::value("an output", &error)));
        }
        let name = self.called.as_ref().map(|tool| &**tool.catalogue_name());
        let polled = polled.unwrap_or_else(|panic| Poll::Ready(Err(StepError::panicked_in(name, &*panic))));
        if let Poll::Ready(Ok(_)) = &polled
            && let Some(failure) = self.place.mismatch()
        {
            return Poll::Ready(Err(StepError::recorded(failure)));
        }
        polled
    }
}

impl Task {
    /// A step; with a store, it begins when its start is kept there.
    pub(super) fn step(unit: Unit, began: Timestamp, step: Step, durable: Option<Arc<RunShared>>) -> Self {
        let work = match durable {
            None => Work::Step { began, step },
            Some(shared) => {
                let commit: Commit = Box::pin(async move { shared.log.commit().await });
                Work::Commit { began, commit, step: Some(step) }
            }
        };
        Self { unit, work }
    }

    pub(super) fn timer(unit: Unit, since: Timestamp, left: Duration) -> Self {
        Self { unit, work: Work::Timer(since, Box::pin(tokio::time::sleep(left))) }
    }

    pub(super) fn unit(&self) -> Unit {
        self.unit
    }

    /// Whether a step is running, or about to.
    pub(super) fn is_step(&self) -> bool {
        matches!(self.work, Work::Step { .. } | Work::Commit { .. })
    }

    /// Drops the step or the wait now. A step that panics as it is dropped takes nothing else with it.
    pub(super) fn drop_work(&mut self) {
        let work = std::mem::replace(&mut self.work, Work::Dropped);
        if std::panic::catch_unwind(AssertUnwindSafe(|| stopping(|| drop(work)))).is_err() {
            // The text of the panic is where the program writes those of all its panics: nothing is taken out of it.
            tracing::error!("a step panicked while it was dropped");
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
                Work::Step { began, step } => {
                    let result = std::task::ready!(step.poll(cx));
                    match &result {
                        Ok(output) if step.called.is_some() => {
                            let bytes = u64::try_from(output.as_str().len()).unwrap_or(u64::MAX);
                            telemetry::record_output_size(&step.span, bytes);
                        }
                        Ok(_) => {}
                        Err(error) => telemetry::record_failed(&step.span, error.failure.kind.as_str()),
                    }
                    let (path, began) = (step.place.cx.path().clone(), *began);
                    this.drop_work();
                    return Poll::Ready(Ended::Step { unit, path, began, result });
                }
                Work::Commit { began, commit, step } => match commit.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => {
                        this.drop_work();
                        return Poll::Ready(Ended::Uncommitted(error));
                    }
                    Poll::Ready(Ok(())) => {
                        let began = *began;
                        this.work = match step.take() {
                            Some(step) => Work::Step { began, step },
                            None => Work::Dropped,
                        };
                    }
                },
                Work::Timer(since, sleep) => {
                    std::task::ready!(sleep.as_mut().poll(cx));
                    return Poll::Ready(Ended::Timer { unit, since: *since });
                }
                // Nobody waits for it; it stays until the run ends.
                Work::Dropped => return Poll::Pending,
            }
        }
    }
}

/// A step with a time limit.
struct WithLimit {
    limit: Duration,
    time: TimeLimit,
    place: Arc<StepPlace>,
    /// The tool that the step consists of a call of.
    called: Option<Arc<ToolDefinition>>,
    future: StepFuture,
}

impl WithLimit {
    fn new(limit: Duration, place: Arc<StepPlace>, called: Option<Arc<ToolDefinition>>, future: StepFuture) -> Self {
        Self { limit, time: TimeLimit::new(limit), place, called, future }
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
        let of_step = &this.place.cx;
        let waits = this.place.waits_for_turn() || of_step.run().log.waits_within(of_step.path());
        std::task::ready!(this.time.poll_unless(waits, cx));
        let limit = this.limit;
        let problem = match &this.called {
            Some(tool) => late_text(tool.catalogue_name(), limit, tool.policy.effects),
            None => format!("the step took longer than its time limit of {limit:?}"),
        };
        Poll::Ready(Err(StepError::new(FailureKind::Timeout, problem)))
    }
}
