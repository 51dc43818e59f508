//! Answers to questions below the steps of a live run: waits for them, and records each answer
//! once.
//!
//! Questions of a workflow's node are not handled here; the driver of the workflow waits for their
//! answers.

use std::sync::Arc;

use super::control_events::events_of_timeout;
use super::forgotten::InvalidatedRecords;
use super::log::EventLog;
use super::shared::RunShared;
use super::state::RunState;
use crate::error::ControlError;
use crate::event::EventKind;
use crate::path::StepPath;
use crate::value::Encoded;

impl RunShared {
    /// Waits until the question at a path is answered. Returns the answer and the person who
    /// answered.
    pub(crate) async fn answer_at(&self, path: &StepPath) -> (Encoded, Arc<str>) {
        let operations = self.operations();
        loop {
            // Created before the check, so that an answer in between is not missed.
            let answered = operations.answered.notified();
            match self.answered_at(path) {
                Some(answer) => return answer,
                None => answered.await,
            }
        }
    }

    /// Returns the answer to the question at a path and the person who answered, if it is answered.
    pub(crate) fn answered_at(&self, path: &StepPath) -> Option<(Encoded, Arc<str>)> {
        self.log.find_last(|of, kind| match kind {
            EventKind::ApprovalResolved { answer, by } if of == path => {
                Some(Some((answer.clone(), Arc::clone(by))))
            }
            // The question was asked again after the last answer.
            EventKind::ApprovalRequested(_) if of == path => Some(None),
            _ => None,
        })?
    }

    /// Records the answer that applies when the time limit of the question at a path is reached.
    ///
    /// # Errors
    /// Fails if the question was answered before.
    pub(crate) fn time_out(&self, path: &StepPath, answer: Encoded) -> Result<(), ControlError> {
        self.decide_timeout(|state| events_of_timeout(state, path, answer))
    }
}

impl EventLog {
    /// Returns the first result of `find` among the valid records, from the newest to the oldest.
    fn find_last<T>(&self, mut find: impl FnMut(&StepPath, &EventKind) -> Option<T>) -> Option<T> {
        let state = self.state();
        let void = InvalidatedRecords::from_kinds(state.all().map(|record| &record.kind));
        let (kept, records) = (state.kept(), &state.records);
        let newest_first = records.iter().rev().chain(kept.iter().rev());
        let places = (0..kept.len() + records.len()).rev();
        let mut counts =
            places.zip(newest_first).filter(|(at, record)| !void.covers(*at, &record.path));
        counts.find_map(|(_, record)| find(&record.path, &record.kind))
    }

    /// Returns the open questions of the run: see [`RunState::from_open_questions`].
    pub(super) fn open_questions(&self) -> RunState {
        let state = self.state();
        let void = InvalidatedRecords::from_kinds(state.all().map(|record| &record.kind));
        let counts = state.all().enumerate().filter(|(at, record)| !void.covers(*at, &record.path));
        RunState::from_open_questions(counts.map(|(_, record)| (&record.path, &record.kind)))
    }
}
