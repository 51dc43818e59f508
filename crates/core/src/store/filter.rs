//! `RunFilter` and `RunList`: which runs a list has, and the list. They read no journal.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{RunRecord, RunStatus, StoreError};
use crate::event::RunId;
use crate::time::Timestamp;

/// Selects the runs of a list. Without conditions it selects all of them.
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
    /// All runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// All runs that have not ended.
    pub fn unfinished() -> Self {
        RunStatus::ALL.iter().copied().filter(|status| !status.has_ended()).fold(Self::new(), Self::status)
    }

    /// Only runs of this status; several are alternatives.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> Self {
        self.statuses.push(status);
        self
    }

    /// Only runs of the agent or workflow of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only runs that were started on behalf of this caller.
    #[must_use]
    pub fn caller(mut self, caller: impl Into<Arc<str>>) -> Self {
        self.caller = Some(caller.into());
        self
    }

    /// Only runs that have this tag with this value; of several tags, only runs that have all of them.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// Only runs of this session.
    #[must_use]
    pub fn session(mut self, session: impl Into<Arc<str>>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// At most so many runs, the newest ones.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Only runs that began at this time or later.
    #[must_use]
    pub fn since(mut self, time: Timestamp) -> Self {
        self.since = Some(time);
        self
    }

    /// Only runs that began before this time.
    #[must_use]
    pub fn until(mut self, time: Timestamp) -> Self {
        self.until = Some(time);
        self
    }

    /// Only runs that stand behind this one in the list: the next page, when it is the last run of a page. Runs that
    /// begin or end meanwhile move none from one page to another.
    #[must_use]
    pub fn after(mut self, run: &RunRecord) -> Self {
        self.after = Some((run.created, run.run_id.clone()));
        self
    }

    /// The time from which on a run must have begun.
    pub fn get_since(&self) -> Option<Timestamp> {
        self.since
    }

    /// The time before which a run must have begun.
    pub fn get_until(&self) -> Option<Timestamp> {
        self.until
    }

    /// When the run began behind which the list begins, and its id.
    pub fn get_after(&self) -> Option<(Timestamp, &RunId)> {
        self.after.as_ref().map(|(created, run)| (*created, run))
    }

    /// The statuses that a run may have; empty when it may have any.
    pub fn get_statuses(&self) -> &[RunStatus] {
        &self.statuses
    }

    /// The name that a run must have.
    pub fn get_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The caller that a run must have.
    pub fn get_caller(&self) -> Option<&str> {
        self.caller.as_deref()
    }

    /// The tags that a run must have, with their values.
    pub fn get_tags(&self) -> &[(String, String)] {
        &self.tags
    }

    /// The session that a run must be one of.
    pub fn get_session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The most runs of a list.
    pub fn get_limit(&self) -> Option<usize> {
        self.limit
    }

    /// Whether the filter selects a run, regardless of the limit.
    pub fn admits(&self, run: &RunRecord) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&run.status))
            && self.name.as_ref().is_none_or(|name| *name == run.name)
            && self.caller.as_ref().is_none_or(|caller| run.caller.as_ref() == Some(caller))
            && self.tags.iter().all(|(key, value)| run.tags.get(key) == Some(value))
            && self.session.as_ref().is_none_or(|id| run.session.as_ref().is_some_and(|of| of.session == *id))
            && self.since.is_none_or(|since| run.created >= since)
            && self.until.is_none_or(|until| run.created < until)
            && self.after.as_ref().is_none_or(|(created, id)| (run.created, &run.run_id) < (*created, id))
    }

    /// The selected runs in the order of a list: the newest first, and of the same time the one with the greater id.
    pub fn select(&self, runs: impl IntoIterator<Item = RunRecord>) -> Vec<RunRecord> {
        let mut selected: Vec<RunRecord> = runs.into_iter().filter(|run| self.admits(run)).collect();
        selected.sort_by_cached_key(|run| Reverse((run.created, run.run_id.clone())));
        selected.truncate(self.limit.unwrap_or(usize::MAX));
        selected
    }
}

/// The runs of a list, and those that cannot be read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunList {
    /// The selected runs, the newest first.
    pub runs: Vec<RunRecord>,
    /// The runs that cannot be read and may be among the selected ones, each with the reason: `damaged`, or
    /// `newer_version`.
    pub unreadable: Vec<(RunId, StoreError)>,
}

impl RunList {
    /// A list of both.
    pub fn new(runs: Vec<RunRecord>, unreadable: Vec<(RunId, StoreError)>) -> Self {
        Self { runs, unreadable }
    }
}
