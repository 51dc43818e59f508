//! Answers to the questions below the steps of a live run: waited for, and recorded, each question once.
//!
//! A question of a workflow's node is the workflow's; its driver waits for the answer.

use std::sync::Arc;

use super::control_events::events_of_timeout;
use super::control_request::ControlRequest;
use super::shared::{RunShared, locked};
use super::state::RunState;
use crate::error::ControlError;
use crate::event::EventKind;
use crate::path::StepPath;
use crate::value::Encoded;

impl RunShared {
    /// Does what was asked of a workflow in the run that has ended, or has not begun again after a restart: it finds
    /// that in the journal when it begins.
    pub(crate) fn do_by_journal(&self, request: &ControlRequest) -> Result<(), ControlError> {
        let deciding = locked(&self.operations().deciding);
        for (path, kind) in self.events_by_journal(request)? {
            self.record(path, kind);
        }
        drop(deciding);
        self.operations().answered.notify_waiters();
        Ok(())
    }

    /// Waits until the question at a path is answered, and gives the answer with who gave it.
    pub(crate) async fn answer_at(&self, path: &StepPath) -> (Encoded, Arc<str>) {
        let operations = self.operations();
        loop {
            let answered = operations.answered.notified();
            match self.answered_at(path) {
                Some(answer) => return answer,
                None => answered.await,
            }
        }
    }

    /// The answer to the question at a path, with who gave it, once there is one.
    pub(crate) fn answered_at(&self, path: &StepPath) -> Option<(Encoded, Arc<str>)> {
        let recorded = self.log.records_below(path);
        let last = recorded.into_iter().rev().find_map(|(_, of, kind)| match kind {
            EventKind::ApprovalResolved { answer, by } if of == *path => Some(Some((answer, by))),
            // It was asked again since the last answer.
            EventKind::ApprovalRequested(_) if of == *path => Some(None),
            _ => None,
        });
        last.flatten()
    }

    /// Records the answer of a time-out to the question at a path.
    ///
    /// # Errors
    /// When it has been answered.
    pub(crate) fn time_out(&self, path: &StepPath, answer: Encoded) -> Result<(), ControlError> {
        let deciding = locked(&self.operations().deciding);
        let state = RunState::of_records(&self.log.records_below(&StepPath::root()));
        for (path, kind) in events_of_timeout(&state, path, answer)? {
            self.record(path, kind);
        }
        drop(deciding);
        self.operations().answered.notify_waiters();
        Ok(())
    }
}
