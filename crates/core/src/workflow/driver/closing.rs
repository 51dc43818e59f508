//! Records the ends of steps that fail or are stopped: of one node, or of all nodes when the run is
//! cancelled or dropped.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::lost_step::StoppedRemotely;
use super::task::Task;
use super::{OfWorkflow, WorkflowRun};
use crate::context::Context;
use crate::error::{Error, Failure, FailureKind};
use crate::event::EventKind;
use crate::failure::{RUN_CANCELLED, RUN_OVER_TIME};
use crate::run::{InSegment, Segment};
use crate::store::StoreError;
use crate::tool::{
    compensated, compensated_cancelled, pending_questions, repeated_writes, undecided_failure,
    unknown_writes,
};
use crate::value::Encoded;
use crate::workflow::machine::{Unit, stopped};
use crate::workflow::spec::Body;
use crate::workflow::step_error::StepError;

/// The failure of a workflow: the recorded error, and the typed error for a direct caller.
pub(crate) struct Failed {
    pub(crate) error: Error,
    pub(crate) original: Option<Box<dyn Any + Send>>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, original: None }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

impl WorkflowRun {
    /// Records a failed attempt, and schedules the next one if the retry policy allows it.
    pub(super) fn fail(&mut self, unit: Unit, StepError { mut failure, original }: StepError) {
        let attempt = self.machine.attempts(unit);
        if self.segment.is_run() {
            // A run has no caller that could use the typed error value.
            failure.value = None;
        }
        let error = Arc::new(failure);
        let retry = &self.machine.spec().node(unit.node).policy.retry;
        // A step that an executor stopped continues at once, as after a restart, regardless of the
        // retry policy.
        let continues = original.as_ref().is_some_and(|original| original.is::<StoppedRemotely>());
        let delay = retry.delay(self.machine.failures(unit) + 1, &error);
        match delay.or(continues.then_some(Duration::ZERO)) {
            // Without a started attempt (a failed value or question), nothing can be retried.
            Some(delay) if attempt > 0 => {
                let delay_ms = millis(delay);
                self.record(unit, EventKind::NodeRetrying { attempt, error, delay_ms });
                self.set_timer(unit, self.segment.shared.now());
            }
            _ => {
                let error = self.with_stopped_calls(unit, error);
                if matches!(
                    self.machine.spec().node(unit.node).body,
                    Body::Race(_) | Body::Fallback(_)
                ) {
                    // The failure of a race or a fallback is the failure of its last branch.
                    self.originals.retain(|(of, _)| *of != unit.node);
                }
                self.originals.extend(original.map(|original| (unit.node, original)));
                self.record(unit, EventKind::NodeFailed { attempt, error });
            }
        }
    }

    /// Adds to an interruption all calls that were stopped in the node, since a retry repeats them.
    /// This includes calls that were dropped because of the interruption. Items and branches are
    /// left unchanged: their node reports the interruption.
    pub(super) fn with_stopped_calls(&self, unit: Unit, error: Arc<Failure>) -> Arc<Failure> {
        let (path, shared) = (self.path(unit), &self.segment.shared);
        if error.kind != FailureKind::Interrupted || unit.child.is_some() {
            return error;
        }
        if self.executor.is_none() && !shared.may_have_stopped(&path) {
            return error;
        }
        shared.close_below(&path, "the step has ended");
        // If the node is one tool call, the question is already about that call.
        let direct = self.machine.spec().node(unit.node).called.is_some();
        let mut stopped = repeated_writes(shared, &path, direct);
        stopped.retain(|of| !error.message.contains(&format!("`{of}`")));
        let Some(also) = undecided_failure(&stopped) else { return error };
        Arc::new(Failure {
            message: format!("{}. Besides, {also}", error.message),
            ..Failure::clone(&error)
        })
    }

    /// Drops the running attempt of a unit, and records the ends below the unit before its own end.
    pub(super) fn cancel(&mut self, unit: Unit, reason: &str) {
        for task in self.tasks.iter_mut().filter(|task| task.unit() == unit) {
            task.drop_work();
        }
        // A call that waits for a person continues when the node runs again.
        if let Some(waiting) = pending_questions(&self.segment.shared, &self.path(unit)) {
            self.machine.apply(unit, &EventKind::ToolWaiting(waiting), self.segment.shared.now());
        }
        let attempt = self.machine.attempts(unit);
        let error = Arc::new(Failure::new(
            FailureKind::Cancelled,
            stopped(reason, self.has_unrepeatable_call(unit)),
        ));
        self.record(unit, EventKind::NodeFailed { attempt, error });
    }

    /// Returns `true` if the current attempt has started a call that must not be repeated without a
    /// decision.
    fn has_unrepeatable_call(&self, unit: Unit) -> bool {
        let path = self.path(unit);
        // Also covers a lost earlier attempt that this one has not yet asked about.
        if self.executor.is_some() && !unknown_writes(&self.segment.shared, &path).is_empty() {
            return true;
        }
        let is_body = self.machine.spec().node(unit.node).bodies().next().is_some();
        // All attempts at a body record below one path, and completed steps are not repeated.
        let attempt = if is_body { 1 } else { self.machine.failures(unit) + 1 };
        let scope = crate::context::scope_of(&path, attempt);
        let mut open = HashSet::new();
        for (_, of, kind) in self.segment.shared.log.records_below(&scope) {
            if of != path && kind.is_unrepeatable_start() {
                open.insert(of);
            } else if matches!(kind, EventKind::ToolWaiting(_))
                || is_body
                    && matches!(
                        kind,
                        EventKind::NodeCompleted { .. } | EventKind::ToolCompleted { .. }
                    )
            {
                open.remove(&of);
            }
        }
        !open.is_empty()
    }
}

impl InSegment for WorkflowRun {
    type Kind = OfWorkflow;

    fn segment(&mut self) -> &mut Segment<OfWorkflow> {
        &mut self.segment
    }

    fn name(&self) -> &str {
        &self.machine.spec().name
    }

    /// Records an event of the workflow itself. A nested workflow that waits for a person records a
    /// pause at its own path. The run then counts as paused although other steps may continue,
    /// because a person is needed.
    fn record_own(&mut self, kind: EventKind) {
        self.machine.apply_run(&kind);
        self.segment.shared.record(self.segment.base.clone(), kind);
    }

    fn hand_back_requests(&mut self) {
        self.segment.shared.unlisten(&self.segment.base);
        self.control.close();
        while let Ok(request) = self.control.try_recv() {
            if request.reply.is_some() {
                self.segment.shared.request(request);
            }
        }
    }

    fn close_steps_cancelled(&mut self, reason: &Arc<str>) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let all_of_it = self.segment.is_run() || self.segment.shared.cancellation.is_cancelled();
        match all_of_it {
            true => self.close_steps(&format!("{RUN_CANCELLED}: {reason}")),
            // If only the step was stopped, its next attempt decides on these nodes again.
            false => self.close_units(|run, unit| stopped(reason, run.has_unrepeatable_call(unit))),
        }
        if !self.segment.is_run() && self.machine.pause_reason().is_some() {
            self.record_own(EventKind::resumed());
        }
    }
}

impl WorkflowRun {
    /// Ends a run whose time limit has passed.
    pub(super) async fn end_over_time(&mut self, limit: Duration) -> Result<Encoded, Failed> {
        self.commit = None;
        self.close_steps(RUN_OVER_TIME);
        self.closed = true;
        let error = self.compensate(Error::Timeout { limit }).await?;
        self.record_failed(&error);
        self.segment.keep().await?;
        Err(error.into())
    }

    /// Drops all running steps and records their ends.
    fn close_steps(&mut self, message: &str) {
        self.drop_tasks();
        self.segment.close_strays(message);
        self.close_units(|_, _| message.to_owned());
    }

    /// Drops all tasks. Steps record the ends of their calls when they are dropped, so those
    /// precede the ends of the steps.
    fn drop_tasks(&mut self) {
        self.tasks.iter_mut().for_each(Task::drop_work);
        self.tasks.clear();
    }

    /// Drops all tasks and records the failure of each open unit.
    fn close_units(&mut self, message: impl Fn(&Self, Unit) -> String) {
        self.drop_tasks();
        for unit in self.machine.open_units() {
            let attempt = self.machine.attempts(unit);
            let error = Arc::new(Failure::new(FailureKind::Cancelled, message(self, unit)));
            self.segment.shared.close_below(&self.path(unit), &error.message);
            self.segment.shared.record(self.path(unit), EventKind::NodeFailed { attempt, error });
        }
    }
}

/// Compensation, for runs that were started with it.
impl WorkflowRun {
    fn as_a_whole(&self) -> Context {
        let shared = Arc::clone(&self.segment.shared);
        Context::new(shared, self.segment.base.clone(), self.resources.clone())
            .granted(&self.grants)
    }

    /// Compensates the completed steps of a failed run, if requested. Returns the error with which
    /// the run ends.
    pub(super) async fn compensate(&mut self, error: Error) -> Result<Error, StoreError> {
        let cx = self.as_a_whole();
        match self.compensation.is_asked() {
            true => Box::pin(compensated(self, cx, error)).await,
            false => Ok(error),
        }
    }

    /// Compensates the completed steps of a cancelled run, if requested. Returns the error with
    /// which the run ends.
    pub(super) async fn compensate_cancelled(
        &mut self,
        reason: &Arc<str>,
    ) -> Result<Error, StoreError> {
        let cx = self.as_a_whole();
        match self.compensation.is_asked() {
            true => Box::pin(compensated_cancelled(self, cx, reason)).await,
            false => Ok(Error::Cancelled { reason: Arc::clone(reason) }),
        }
    }
}

impl Drop for WorkflowRun {
    fn drop(&mut self) {
        self.dropped();
        match self.segment.is_run() {
            true => self.segment.shared.unlisten(&self.segment.base),
            // The enclosing workflow answers the requests that this one did not take.
            false => self.hand_back_requests(),
        }
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
