//! Selects the parts of a run's log that a remote step needs.

use super::forgotten::InvalidatedRecords;
use super::log::EventLog;
use super::records::Record;
use crate::event::{Event, EventKind, PauseReason};
use crate::path::StepPath;
use crate::time::Timestamp;

impl EventLog {
    /// Returns `true` if this process executes one step of a run that another process owns.
    pub(crate) fn is_of_remote_run(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.forwards)
    }

    /// Returns the number of records since the run was started or resumed.
    pub(crate) fn position(&self) -> usize {
        self.state().records.len()
    }

    /// Returns the records at a path and below it, without the first `position` records.
    pub(crate) fn records_since(
        &self,
        position: usize,
        base: &StepPath,
    ) -> Vec<(Timestamp, StepPath, EventKind)> {
        let state = self.state();
        let since = state.records.iter().skip(position);
        since.filter(|record| record.path.is_within(base)).map(Record::parts).collect()
    }

    /// Returns the records that a remote step needs, without the first `after` records: valid
    /// records of the step and below it, the attempts at the steps that contain it, and the times
    /// in which the run was not executed.
    pub(crate) fn records_for(&self, step: &StepPath, after: usize) -> Vec<Event> {
        let state = self.state();
        let all =
            || state.kept().iter().filter(|_| after == 0).chain(state.records.iter().skip(after));
        let void = InvalidatedRecords::from_kinds(all().map(|record| &record.kind));
        let matters = |Record { path, kind, .. }: &Record| match kind {
            // Pauses and resumes determine the execution time of the step.
            EventKind::RunPaused { reason: PauseReason::Operator, .. } => true,
            EventKind::RunResumed { .. } if path.is_root() => true,
            EventKind::NodeStarted { .. }
            | EventKind::NodeRetrying { .. }
            | EventKind::NodeFailed { .. }
            | EventKind::NodeReset { .. } => step.belongs_to(path) || path.is_within(step),
            _ => path.is_within(step),
        };
        let counts =
            |(at, record): &(usize, &Record)| matters(record) && !void.covers(*at, &record.path);
        all()
            .enumerate()
            .filter(counts)
            .map(|(_, record)| state.event_of(&self.run_id, 0, record))
            .collect()
    }
}
