//! [`RunFilter`] and [`RunList`]: the selection of runs for a list, and the list. They only use run
//! records, not journals.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{RunRecord, RunStatus, StoreError};
use crate::event::RunId;
use crate::time::Timestamp;

/// Selects the runs of a list. A filter without conditions selects all runs.
///
/// ```
/// use agentflow::store::{RunFilter, RunStatus};
///
/// let failed = RunFilter::new().name("nightly").status(RunStatus::Failed).limit(20);
/// assert_eq!(failed.get_statuses(), [RunStatus::Failed]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    statuses: Vec<RunStatus>,
    name: Option<Arc<str>>,
    caller: Option<Arc<str>>,
    tags: Vec<(String, String)>,
    session: Option<Arc<str>>,
    limit: Option<usize>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    after: Option<(Timestamp, RunId)>,
}

impl RunFilter {
    /// Creates a filter that selects all runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a filter that selects all runs that have not ended.
    pub fn unfinished() -> Self {
        RunStatus::ALL
            .iter()
            .copied()
            .filter(|status| !status.has_ended())
            .fold(Self::new(), Self::status)
    }

    /// Selects runs with this status. Several statuses are alternatives.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> Self {
        self.statuses.push(status);
        self
    }

    /// Selects runs of the agent or workflow with this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Selects runs that were started on behalf of this caller.
    #[must_use]
    pub fn caller(mut self, caller: impl Into<Arc<str>>) -> Self {
        self.caller = Some(caller.into());
        self
    }

    /// Selects runs that have this tag with this value. If called several times, a run must have
    /// all of the tags.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// Selects runs of this session.
    #[must_use]
    pub fn session(mut self, session: impl Into<Arc<str>>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Limits the list to the newest `limit` runs.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Removes the limit.
    #[must_use]
    pub fn without_limit(mut self) -> Self {
        self.limit = None;
        self
    }

    /// Selects runs that started at or after this time.
    #[must_use]
    pub fn since(mut self, time: Timestamp) -> Self {
        self.since = Some(time);
        self
    }

    /// Selects runs that started before this time.
    #[must_use]
    pub fn until(mut self, time: Timestamp) -> Self {
        self.until = Some(time);
        self
    }

    /// Selects runs that follow this run in the order of the list. Pass the last run of a page to
    /// get the next page. Runs that start or end in the meantime do not move between pages.
    #[must_use]
    pub fn after(mut self, run: &RunRecord) -> Self {
        self.after = Some((run.created, run.run_id.clone()));
        self
    }

    /// Earliest start time of a selected run.
    pub fn get_since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Time before which a selected run must have started.
    pub fn get_until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Start time and id of the run that precedes the list.
    pub fn get_after(&self) -> Option<(Timestamp, &RunId)> {
        self.after.as_ref().map(|(created, run)| (*created, run))
    }

    /// Statuses of the selected runs; empty if any status is selected.
    pub fn get_statuses(&self) -> &[RunStatus] {
        &self.statuses
    }

    /// Name of the selected runs.
    pub fn get_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Caller of the selected runs.
    pub fn get_caller(&self) -> Option<&str> {
        self.caller.as_deref()
    }

    /// Tags, with their values, that a selected run must have.
    pub fn get_tags(&self) -> &[(String, String)] {
        &self.tags
    }

    /// Session of the selected runs.
    pub fn get_session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Maximum number of runs in the list.
    pub fn get_limit(&self) -> Option<usize> {
        self.limit
    }

    /// Returns `true` if the filter selects a run, regardless of the limit.
    pub fn admits(&self, run: &RunRecord) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&run.status))
            && self.name.as_ref().is_none_or(|name| *name == run.name)
            && self.caller.as_ref().is_none_or(|caller| run.caller.as_ref() == Some(caller))
            && self.tags.iter().all(|(key, value)| run.tags.get(key) == Some(value))
            && self.session.as_ref().is_none_or(|id| run.session.as_ref().is_some_and(|of| of.session == *id))
            && self.since.is_none_or(|since| run.created >= since)
            && self.until.is_none_or(|until| run.created < until)
            // Lists are in descending order, so the following runs are smaller.
            && self.after.as_ref().is_none_or(|(created, id)| (run.created, &run.run_id) < (*created, id))
    }

    /// Returns the selected runs in the order of a list: newest first, and by descending id for
    /// equal times.
    pub fn select(&self, runs: impl IntoIterator<Item = RunRecord>) -> Vec<RunRecord> {
        let mut selected: Vec<RunRecord> =
            runs.into_iter().filter(|run| self.admits(run)).collect();
        selected.sort_by_cached_key(|run| Reverse((run.created, run.run_id.clone())));
        selected.truncate(self.limit.unwrap_or(usize::MAX));
        selected
    }
}

/// The runs of a list, with the runs that cannot be read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunList {
    /// The selected runs, newest first.
    pub runs: Vec<RunRecord>,
    /// Runs that cannot be read and may belong to the list, each with its error: `damaged` or
    /// `newer_version`.
    pub unreadable: Vec<(RunId, StoreError)>,
}

impl RunList {
    /// Creates a list.
    pub fn new(runs: Vec<RunRecord>, unreadable: Vec<(RunId, StoreError)>) -> Self {
        Self { runs, unreadable }
    }
}
