//! What a step that is executed elsewhere needs of its run's log. It records nothing.

use super::forgotten::Void;
use super::log::EventLog;
use super::records::Record;
use crate::event::{Event, EventKind, PauseReason};
use crate::path::StepPath;
use crate::time::Timestamp;

impl EventLog {
    /// Returns true if this process executes one step of a run that another process executes.
    pub(crate) fn is_of_remote_run(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.forwards)
    }

    /// How many records this life of the run has.
    pub(crate) fn position(&self) -> usize {
        self.state().records.len()
    }

    /// What is recorded at a path and below it after so many records.
    pub(crate) fn records_since(&self, position: usize, base: &StepPath) -> Vec<(Timestamp, StepPath, EventKind)> {
        let state = self.state();
        let since = state.records.iter().skip(position);
        since.filter(|record| record.path.is_within(base)).map(Record::parts).collect()
    }

    /// What a step that is executed elsewhere needs to know of the run: what is recorded of it and below it and still
    /// counts, the attempts at what it belongs to, and when nobody executed the run; without the first `after` records of
    /// this life of the run.
    pub(crate) fn records_for(&self, step: &StepPath, after: usize) -> Vec<Event> {
        let state = self.state();
        let all = || state.kept().iter().filter(|_| after == 0).chain(state.records.iter().skip(after));
        let void = Void::of(all().map(|record| &record.kind));
        let matters = |Record { path, kind, .. }: &Record| match kind {
            EventKind::RunPaused { reason: PauseReason::Operator, .. } => true,
            EventKind::RunResumed { .. } if path.is_root() => true,
            EventKind::NodeStarted { .. }
            | EventKind::NodeRetrying { .. }
            | EventKind::NodeFailed { .. }
            | EventKind::NodeReset { .. } => step.belongs_to(path) || path.is_within(step),
            _ => path.is_within(step),
        };
        let counts = |(at, record): &(usize, &Record)| matters(record) && !void.covers(*at, &record.path);
        all().enumerate().filter(counts).map(|(_, record)| state.event_of(&self.run_id, 0, record)).collect()
    }
}
