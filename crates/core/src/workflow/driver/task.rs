//! The futures that the driver of a workflow polls: running steps and timers.
//!
//! Each step is polled inside its task-local scope. Calls in the step find their [`CurrentStep`]
//! there, and can end the step through it.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;
use tracing::Span;

use crate::error::FailureKind;
use crate::path::StepPath;
use crate::run::{Around, RunShared, TaskScopeSlot, stopping};
use crate::store::StoreError;
use crate::telemetry;
use crate::time::Timestamp;
use crate::tool::{CurrentStep, TimeLimit, ToolDefinition, slot, timeout_message};
use crate::value::Encoded;
use crate::workflow::callee;
use crate::workflow::machine::Unit;
use crate::workflow::spec::{PlanNode, StepFuture};
use crate::workflow::step_error::{StepError, caught};

/// A running step or a timer.
pub(super) struct Task {
    unit: Unit,
    work: Work,
}

enum Work {
    Step {
        began: Timestamp,
        step: Step,
    },
    /// The start of the step is being committed. The step runs after that.
    Commit {
        began: Timestamp,
        commit: Commit,
        step: Option<Step>,
    },
    /// Start of the wait, and the timer for its end.
    Timer(Timestamp, Pin<Box<Sleep>>),
    Dropped,
}

/// A step and the scope in which it is polled.
pub(super) struct Step {
    future: StepFuture,
    place: Arc<CurrentStep>,
    around: TaskScopeSlot,
    /// Tool whose call the step consists of.
    called: Option<Arc<ToolDefinition>>,
    /// Span of the tool call that the step consists of, or of the step.
    span: Span,
}

type Commit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// Result of a finished task.
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
    /// The start of the step could not be committed, so the step was not executed.
    Uncommitted(StoreError),
}

impl Ended {
    /// Returns `true` if the task is a step that failed.
    pub(super) fn is_failure(&self) -> bool {
        matches!(self, Self::Step { result: Err(_), .. })
    }
}

impl Step {
    /// Creates a step. `make` runs inside the scope of the step.
    pub(super) fn new(
        place: Arc<CurrentStep>,
        make: impl FnOnce() -> Result<StepFuture, StepError>,
    ) -> Self {
        let around = Around::at(Arc::clone(&place)).into_slot();
        // `make` only builds the future: no code of the step runs before the first poll.
        let made = caught(make);
        let future = made.unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))));
        Self { future, place, around, called: None, span: Span::none() }
    }

    pub(super) fn with_limit(
        mut self,
        limit: Option<Duration>,
        called: Option<&Arc<ToolDefinition>>,
    ) -> Self {
        if let Some(limit) = limit {
            let called = called.map(Arc::clone);
            self.future =
                Box::pin(TimeLimitedStep::new(limit, Arc::clone(&self.place), called, self.future));
        }
        self
    }

    /// Adds the concurrency limit and the span of the tool call that the step consists of. A step
    /// without a tool gets the span of a step.
    pub(super) fn with_tool_limits(mut self, node: &PlanNode) -> Self {
        let Some(tool) = &node.called else {
            // Agents and workflows create their own spans.
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
            self.span = telemetry::tool_span_of_step(tool, self.place.cx.run(), || {
                self.place.cx.call_key()
            });
        }
        self.called = Some(Arc::clone(tool));
        self
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Encoded, StepError>> {
        let Self { future, around, span, .. } = self;
        let poll = || span.in_scope(|| around.run(|| future.as_mut().poll(cx)));
        // A panic in a step fails the step, not the run.
        let polled = std::panic::catch_unwind(AssertUnwindSafe(poll));
        // A call in the step may have ended the step, regardless of the result of its future.
        if let Some(failure) = self.place.ended() {
            return Poll::Ready(Err(StepError::recorded(failure)));
        }
        if self.place.is_without_output() {
            return Poll::Ready(
                Encoded::new("").map_err(|error| StepError::value("an output", &error)),
            );
        }
        let name = self.called.as_ref().map(|tool| &**tool.catalogue_name());
        let polled =
            polled.unwrap_or_else(|panic| Poll::Ready(Err(StepError::panicked_in(name, &*panic))));
        if let Poll::Ready(Ok(_)) = &polled
            && let Some(failure) = self.place.mismatch()
        {
            return Poll::Ready(Err(StepError::recorded(failure)));
        }
        polled
    }
}

impl Task {
    /// Creates a step. In a run with a store, the step starts after its start is committed.
    pub(super) fn step(
        unit: Unit,
        began: Timestamp,
        step: Step,
        durable: Option<Arc<RunShared>>,
    ) -> Self {
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

    /// Returns `true` if a step is running or about to run.
    pub(super) fn is_step(&self) -> bool {
        matches!(self.work, Work::Step { .. } | Work::Commit { .. })
    }

    /// Drops the step or the timer now. A panic in a destructor of the step affects no other step.
    pub(super) fn drop_work(&mut self) {
        let work = std::mem::replace(&mut self.work, Work::Dropped);
        if std::panic::catch_unwind(AssertUnwindSafe(|| stopping(|| drop(work)))).is_err() {
            // The panic hook of the program has already printed the text of the panic.
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
                        Err(error) => {
                            telemetry::record_failed(&step.span, error.failure.kind.as_str());
                        }
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
                // The result was already returned, or the task was cancelled. It stays in the set
                // until the run ends.
                Work::Dropped => return Poll::Pending,
            }
        }
    }
}

/// A step with a time limit.
struct TimeLimitedStep {
    limit: Duration,
    time: TimeLimit,
    place: Arc<CurrentStep>,
    /// Tool whose call the step consists of.
    called: Option<Arc<ToolDefinition>>,
    future: StepFuture,
}

impl TimeLimitedStep {
    fn new(
        limit: Duration,
        place: Arc<CurrentStep>,
        called: Option<Arc<ToolDefinition>>,
        future: StepFuture,
    ) -> Self {
        Self { limit, time: TimeLimit::new(limit), place, called, future }
    }
}

impl Future for TimeLimitedStep {
    type Output = Result<Encoded, StepError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Poll::Ready(result) = this.future.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        // The time starts with the first poll of the step, which is after its start was committed.
        // It does not include waits for earlier steps or for a person.
        let of_step = &this.place.cx;
        let waits = this.place.waits_for_turn() || of_step.run().log.waits_within(of_step.path());
        std::task::ready!(this.time.poll_unless(waits, cx));
        let limit = this.limit;
        let problem = match &this.called {
            Some(tool) => timeout_message(tool.catalogue_name(), limit, tool.policy.effects),
            None => format!("the step took longer than its time limit of {limit:?}"),
        };
        Poll::Ready(Err(StepError::new(FailureKind::Timeout, problem)))
    }
}
