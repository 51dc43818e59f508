//! `EarlierAttempts`: the records of earlier attempts of a step or a tool call. The call to an
//! agent or a workflow uses them to find the work it has already done.

use std::time::Duration;

use crate::context::{Context, attempt_of};
use crate::event::{Edge, EventKind, Subject};
use crate::path::StepPath;
use crate::run::is_own_failure;
use crate::time::Timestamp;

use super::undecided::asks;

/// The records at a step and around it. If the step is a tool call, this includes the paths at
/// which earlier attempts made the call.
pub(crate) struct EarlierAttempts<'c> {
    cx: &'c Context,
    pub(crate) recorded: Vec<(Timestamp, StepPath, EventKind)>,
}

impl<'c> EarlierAttempts<'c> {
    /// Reads the records. Returns `None` in the first attempt.
    pub(crate) fn read(cx: &'c Context) -> Option<Self> {
        let (before, _) = cx.made_before();
        if cx.failed_attempts() == 0 && before.is_empty() {
            return None;
        }
        let step = cx.path();
        let counts = |path: &StepPath| {
            path.belongs_to(step)
                || step.belongs_to(path)
                || before.iter().any(|call| path.is_within(call))
        };
        Some(Self { cx, recorded: cx.run().log.records_where(counts) })
    }

    /// Returns the number of attempts that failed since one of them started an agent or a workflow
    /// at `path`. Returns `None` if no earlier attempt did.
    pub(crate) fn failures_since(&self, path: &StepPath) -> Option<u32> {
        let (cx, (before, _)) = (self.cx, self.cx.made_before());
        if let Some(attempt) = attempt_of(cx.path(), path) {
            return cx.attempt_scope().checked_sub(attempt).filter(|failures| *failures > 0);
        }
        // The calls at earlier paths have all ended, so `u32::MAX` replaces the exact number.
        let is_below = |call: &StepPath| call != cx.path() && attempt_of(call, path).is_some();
        before.iter().any(is_below).then_some(u32::MAX)
    }

    /// Returns `true` if an attempt failed on its own after the record at `at`, possibly because of
    /// it.
    pub(crate) fn has_failed_since(&self, at: usize) -> bool {
        let (step, (_, failed)) = (self.cx.path(), self.cx.made_before());
        // A tool call gets another attempt only after it has failed.
        let of_call = step.is_tool_call() && (failed || self.cx.failed_attempts() > 0);
        of_call
            || self.recorded[at..]
                .iter()
                .any(|(_, path, kind)| path == step && is_own_failure(kind))
    }

    /// Returns `true` if an operator was asked about a path after the record at `at`.
    pub(crate) fn is_asked_since(&self, base: &StepPath, at: usize) -> bool {
        let name = format!("`{base}`");
        self.recorded[at..].iter().any(|(_, path, kind)| match kind {
            EventKind::NodeFailed { error, .. } if asks(kind) => {
                self.cx.path().belongs_to(path) && error.message.contains(&name)
            }
            _ => false,
        })
    }

    /// Returns the execution time of an agent or a workflow that the step dropped, up to the record
    /// at `at`. Returns `None` if it should continue instead, because the step has failed on its
    /// own since then or an operator was asked about it.
    pub(crate) fn held_back(&self, base: &StepPath, at: usize) -> Option<Duration> {
        let mut since = self.recorded[at..].iter();
        let around =
            since.any(|(_, path, kind)| self.cx.path().belongs_to(path) && is_own_failure(kind));
        (!self.is_asked_since(base, at) && !around && !self.has_failed_since(at))
            .then(|| lived(&self.recorded[..=at], base))
    }

    /// Returns the records of an agent or a workflow.
    pub(crate) fn into_records_of(self, base: &StepPath) -> Vec<(Timestamp, StepPath, EventKind)> {
        self.recorded.into_iter().filter(|(_, path, _)| path.is_within(base)).collect()
    }
}

/// Returns the execution time of the agent or workflow at a path up to its end, which is the last
/// record.
pub(crate) fn lived(recorded: &[(Timestamp, StepPath, EventKind)], base: &StepPath) -> Duration {
    let began = recorded.iter().rev().find(|(_, path, kind)| {
        let shape = kind.shape();
        path == base
            && shape.edge == Edge::Opens
            && matches!(shape.subject, Subject::Agent | Subject::Workflow)
    });
    match (began, recorded.last()) {
        (Some((began, ..)), Some((ended, ..))) => ended.since(*began),
        _ => Duration::ZERO,
    }
}
