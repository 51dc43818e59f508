//! `EarlierAttempts`: what the attempts before the present one have recorded, at the same step or at the same call of a
//! tool. The call of an agent or a workflow looks there for what it has done already.
//!
//! It reads a journal and decides nothing.

use std::time::Duration;

use crate::context::{Context, attempt_of};
use crate::event::{Edge, EventKind, Subject};
use crate::path::StepPath;
use crate::run::is_own_failure;
use crate::time::Timestamp;

use super::undecided::asks;

/// What is recorded at a step and around it, also where earlier attempts made the call of a tool that this is.
pub(crate) struct EarlierAttempts<'c> {
    cx: &'c Context,
    pub(crate) recorded: Vec<(Timestamp, StepPath, EventKind)>,
}

impl<'c> EarlierAttempts<'c> {
    /// `None` when this is the first attempt.
    pub(crate) fn of(cx: &'c Context) -> Option<Self> {
        let (before, _) = cx.made_before();
        if cx.failed_attempts() == 0 && before.is_empty() {
            return None;
        }
        let step = cx.path();
        let counts = |path: &StepPath| {
            path.belongs_to(step) || step.belongs_to(path) || before.iter().any(|call| path.is_within(call))
        };
        Some(Self { cx, recorded: cx.run().log.records_where(counts) })
    }

    /// How many attempts have failed since one of them began an agent or a workflow at a path; `None` when none of them
    /// did.
    pub(crate) fn failures_since(&self, path: &StepPath) -> Option<u32> {
        let (cx, (before, _)) = (self.cx, self.cx.made_before());
        if let Some(attempt) = attempt_of(cx.path(), path) {
            return cx.attempt_scope().checked_sub(attempt).filter(|failures| *failures > 0);
        }
        // Each of these calls has ended since.
        let is_below = |call: &StepPath| call != cx.path() && attempt_of(call, path).is_some();
        before.iter().any(is_below).then_some(u32::MAX)
    }

    /// Whether an attempt has failed after a record and was not stopped: perhaps because of what the record says.
    pub(crate) fn has_failed_since(&self, at: usize) -> bool {
        let (step, (_, failed)) = (self.cx.path(), self.cx.made_before());
        // A call of a tool has another attempt only then.
        let of_call = step.is_tool_call() && (failed || self.cx.failed_attempts() > 0);
        of_call || self.recorded[at..].iter().any(|(_, path, kind)| path == step && is_own_failure(kind))
    }

    /// Whether an operator was asked about a path after a record.
    pub(crate) fn is_asked_since(&self, base: &StepPath, at: usize) -> bool {
        let name = format!("`{base}`");
        self.recorded[at..].iter().any(|(_, path, kind)| match kind {
            EventKind::NodeFailed { error, .. } if asks(kind) => {
                self.cx.path().belongs_to(path) && error.message.contains(&name)
            }
            _ => false,
        })
    }

    /// How long an agent or a workflow was executed that the step dropped, as the record at `at` says; `None` when the step
    /// has failed of itself since, or an operator was asked about it, so that it continues.
    pub(crate) fn held_back(&self, base: &StepPath, at: usize) -> Option<Duration> {
        let mut since = self.recorded[at..].iter();
        let around = since.any(|(_, path, kind)| self.cx.path().belongs_to(path) && is_own_failure(kind));
        (!self.is_asked_since(base, at) && !around && !self.has_failed_since(at))
            .then(|| lived(&self.recorded[..=at], base))
    }

    /// What is recorded of an agent or a workflow.
    pub(crate) fn into_records_of(self, base: &StepPath) -> Vec<(Timestamp, StepPath, EventKind)> {
        self.recorded.into_iter().filter(|(_, path, _)| path.is_within(base)).collect()
    }
}

/// How long the agent or the workflow at a path was executed up to its end, which is the last of these records.
pub(crate) fn lived(recorded: &[(Timestamp, StepPath, EventKind)], base: &StepPath) -> Duration {
    let began = recorded.iter().rev().find(|(_, path, kind)| {
        let shape = kind.shape();
        path == base && shape.edge == Edge::Opens && matches!(shape.subject, Subject::Agent | Subject::Workflow)
    });
    match (began, recorded.last()) {
        (Some((began, ..)), Some((ended, ..))) => ended.since(*began),
        _ => Duration::ZERO,
    }
}
