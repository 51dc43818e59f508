//! Answers to the questions below the steps of a live run: waited for, and recorded, each question once.
//!
//! A question of a workflow's node is the workflow's; its driver waits for the answer.

use std::sync::Arc;

use super::control_events::events_of_timeout;
use super::forgotten::Void;
use super::log::EventLog;
use super::shared::RunShared;
use super::state::RunState;
use crate::error::ControlError;
use crate::event::EventKind;
use crate::path::StepPath;
use crate::value::Encoded;

impl RunShared {
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
        self.log.find_last(|of, kind| match kind {
            EventKind::ApprovalResolved { answer, by } if of == path => Some(Some((answer.clone(), Arc::clone(by)))),
            // It was asked again since the last answer.
            EventKind::ApprovalRequested(_) if of == path => Some(None),
            _ => None,
        })?
    }

    /// Records the answer of a time-out to the question at a path.
    ///
    /// # Errors
    /// When it has been answered.
    pub(crate) fn time_out(&self, path: &StepPath, answer: Encoded) -> Result<(), ControlError> {
        self.decide_timeout(|state| events_of_timeout(state, path, answer))
    }
}

impl EventLog {
    /// Returns the first result of `find` among the valid records, from the newest to the oldest.
    fn find_last<T>(&self, mut find: impl FnMut(&StepPath, &EventKind) -> Option<T>) -> Option<T> {
        let state = self.state();
        let void = Void::of(state.all().map(|record| &record.kind));
        let (kept, records) = (state.kept(), &state.records);
        let newest_first = records.iter().rev().chain(kept.iter().rev());
        let places = (0..kept.len() + records.len()).rev();
        let mut counts = places.zip(newest_first).filter(|(at, record)| !void.covers(*at, &record.path));
        counts.find_map(|(_, record)| find(&record.path, &record.kind))
    }

    /// Returns the open questions of the run: see [`RunState::of_questions`].
    pub(super) fn open_questions(&self) -> RunState {
        let state = self.state();
        let void = Void::of(state.all().map(|record| &record.kind));
        let counts = state.all().enumerate().filter(|(at, record)| !void.covers(*at, &record.path));
        RunState::of_questions(counts.map(|(_, record)| (&record.path, &record.kind)))
    }
}
