//! Finds the records of a run that a change of its definition invalidated.

use crate::event::{EventKind, Redefined};
use crate::path::StepPath;

/// The changes of a run's definition, each with its index among the records.
pub(crate) struct InvalidatedRecords<'e> {
    changes: Vec<(usize, &'e Redefined)>,
}

impl<'e> InvalidatedRecords<'e> {
    /// Collects the changes from all records of a run, in order.
    pub(crate) fn from_kinds(kinds: impl Iterator<Item = &'e EventKind>) -> Self {
        let changes = kinds.enumerate().filter_map(|(at, kind)| match kind {
            EventKind::RunResumed { redefined: Some(redefined), .. } => Some((at, &**redefined)),
            _ => None,
        });
        Self { changes: changes.collect() }
    }

    /// Returns `true` if a later change invalidated the record at index `at`.
    pub(crate) fn covers(&self, at: usize, path: &StepPath) -> bool {
        let forgets =
            |change: &Redefined| change.forgotten.iter().any(|node| path.belongs_to(node));
        self.changes.iter().any(|(later, change)| *later > at && forgets(change))
    }
}
