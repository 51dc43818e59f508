//! [`RunFilter`], [`RunOrder`] and [`RunList`]: the selection of runs for a list, its order, and the
//! list. They only use run records, not journals.

use std::cmp::Reverse;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

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
    changed_since: Option<Timestamp>,
    order: RunOrder,
    after: Option<ListPosition>,
}

/// The order of a list of runs. For equal times, runs are ordered by descending id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunOrder {
    /// The newest run is first, by [`RunRecord::created`]. A run keeps its place while the list is
    /// read page by page, so each run is listed at most once, and no run that existed at the first
    /// page is omitted.
    #[default]
    Created,
    /// The run that changed last is first, by [`RunRecord::updated`]. A run that changes moves to the
    /// front. While the list is read page by page, a run that does not change is listed exactly
    /// once. A run that changes meanwhile is listed at most once, and is omitted if it moved before
    /// it was reached; [`RunFilter::changed_since`] with the time of the first page finds it. This
    /// requires that the clocks of all processes agree.
    Changed,
}

impl RunOrder {
    /// Returns the time of a run that determines its place in the order.
    pub fn time_of(self, run: &RunRecord) -> Timestamp {
        match self {
            Self::Created => run.created,
            Self::Changed => run.updated,
        }
    }
}

/// The last run of a page.
#[derive(Clone, Debug, PartialEq)]
struct ListPosition {
    created: Timestamp,
    updated: Timestamp,
    run: RunId,
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

    /// Limits the list to its first `limit` runs.
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

    /// Selects runs whose last event was recorded at or after this time.
    #[must_use]
    pub fn changed_since(mut self, time: Timestamp) -> Self {
        self.changed_since = Some(time);
        self
    }

    /// Sets the order of the list. Default: [`RunOrder::Created`].
    #[must_use]
    pub fn order(mut self, order: RunOrder) -> Self {
        self.order = order;
        self
    }

    /// Selects runs that follow this run in the order of the list. Pass the last run of a page, as it
    /// was listed, to get the next page. [`RunOrder`] describes the effect of runs that change in the
    /// meantime.
    #[must_use]
    pub fn after(mut self, run: &RunRecord) -> Self {
        self.after = Some(ListPosition {
            created: run.created,
            updated: run.updated,
            run: run.run_id.clone(),
        });
        self
    }

    /// Returns the filter without limit and position: all runs that the conditions select.
    #[must_use]
    pub fn without_page(mut self) -> Self {
        self.limit = None;
        self.after = None;
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

    /// Earliest time of the last event of a selected run.
    pub fn get_changed_since(&self) -> Option<Timestamp> {
        self.changed_since
    }

    /// Order of the list.
    pub fn get_order(&self) -> RunOrder {
        self.order
    }

    /// Time and id of the run that precedes the list. The time is the one of the
    /// [order](Self::get_order).
    pub fn get_after(&self) -> Option<(Timestamp, &RunId)> {
        self.after.as_ref().map(|last| {
            let time = match self.order {
                RunOrder::Created => last.created,
                RunOrder::Changed => last.updated,
            };
            (time, &last.run)
        })
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
            && self.changed_since.is_none_or(|since| run.updated >= since)
            // Lists are in descending order, so the following runs are smaller.
            && self.get_after().is_none_or(|last| (self.order.time_of(run), &run.run_id) < last)
    }

    /// Returns the selected runs in the [order](Self::get_order) of the list, at most as many as the
    /// limit.
    pub fn select(&self, runs: impl IntoIterator<Item = RunRecord>) -> Vec<RunRecord> {
        let mut selected: Vec<RunRecord> =
            runs.into_iter().filter(|run| self.admits(run)).collect();
        selected.sort_by_cached_key(|run| Reverse((self.order.time_of(run), run.run_id.clone())));
        selected.truncate(self.limit.unwrap_or(usize::MAX));
        selected
    }
}

/// The runs of a list, with the runs that cannot be read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunList {
    /// The selected runs, in the order of the filter.
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
