//! The ends that a workflow gives to what it stops: a node, or all of them when the run is cancelled or dropped.

use std::sync::Arc;

use super::WorkflowRun;
use super::task::Task;
use crate::error::{Error, Failure, FailureKind};
use crate::event::EventKind;
use crate::workflow::machine::{Unit, stopped};

impl WorkflowRun {
    /// Drops what a unit does, so that what is below it has its end first, and records its own.
    pub(super) fn cancel(&mut self, unit: Unit, reason: &str) {
        for task in self.tasks.iter_mut().filter(|task| task.unit() == unit) {
            task.drop_work();
        }
        let attempt = self.machine.attempts(unit);
        let error = Arc::new(Failure::new(FailureKind::Cancelled, stopped(reason, self.has_begun_once(unit))));
        self.record(unit, EventKind::NodeFailed { attempt, error });
    }

    /// Whether the present attempt at a unit has begun something within it that may not simply be done again.
    fn has_begun_once(&self, unit: Unit) -> bool {
        let path = self.path(unit);
        let scope = crate::context::scope_of(&path, self.machine.failures(unit) + 1);
        self.shared.log.records_below(&scope).iter().any(|(_, of, kind)| *of != path && kind.begins_once())
    }

    pub(super) fn close_cancelled(&mut self, reason: &Arc<str>) {
        if !self.open {
            return;
        }
        self.open = false;
        // What is below a step records its end before the step does.
        self.tasks.iter_mut().for_each(Task::drop_work);
        self.tasks.clear();
        for unit in self.machine.open_units() {
            let attempt = self.machine.attempts(unit);
            let error = Arc::new(Failure::new(FailureKind::Cancelled, format!("the run was cancelled: {reason}")));
            self.shared.close_below(&self.path(unit), &error.message);
            self.shared.record(self.path(unit), EventKind::NodeFailed { attempt, error });
        }
        if !self.base.is_root() && self.machine.pause_reason().is_some() {
            self.record_run(EventKind::resumed());
        }
        self.shared.record(
            self.base.clone(),
            match self.base.is_root() {
                true => EventKind::RunCancelled { reason: Arc::clone(reason) },
                false => {
                    let error = Error::Cancelled { reason: Arc::clone(reason) };
                    EventKind::WorkflowFailed { error: Arc::new(Failure::from(&error)) }
                }
            },
        );
    }
}

impl Drop for WorkflowRun {
    fn drop(&mut self) {
        if self.open {
            if self.base.is_root() {
                // Of a run with a store nothing of this is kept: it is unfinished there and can be taken up again.
                self.shared.cancel("the run's future was dropped");
            }
            let reason: Arc<str> = match self.shared.cancellation.is_cancelled() {
                true => self.shared.cancel_reason(),
                false => "the step was dropped".into(),
            };
            self.close_cancelled(&reason);
        }
        self.shared.unlisten(&self.base);
        if self.base.is_root() {
            self.shared.close();
            return;
        }
        // Requests that this workflow did not take are answered by the one around it.
        self.control.close();
        while let Ok(request) = self.control.try_recv() {
            if request.reply.is_some() {
                self.shared.request(request);
            }
        }
    }
}
