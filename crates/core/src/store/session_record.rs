//! [`SessionRecord`] and [`SessionFilter`]: the row of a session in a list, and the selection of
//! sessions. Both are computed from the records of the session's runs, without reading journals.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{RunRecord, RunStatus};
use crate::event::RunId;
use crate::time::Timestamp;

/// The row of a session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionRecord {
    /// Id of the session.
    pub id: Arc<str>,
    /// Agent of the last run.
    pub agent: Arc<str>,
    /// Caller on whose behalf the first run was started.
    pub caller: Option<Arc<str>>,
    /// Tags of the first run.
    pub tags: BTreeMap<String, String>,
    /// Time at which the session started.
    pub created: Timestamp,
    /// Time of the last recorded event.
    pub updated: Timestamp,
    /// Number of runs that were started in the session.
    pub runs: u64,
    /// The completed run with the highest number. The next run continues its history.
    pub head: Option<RunId>,
    /// The run that has not ended, if any. The next run cannot start before it ends.
    pub unfinished: Option<RunId>,
}

impl SessionRecord {
    /// Creates the record of a session from the records of its runs, in any order. The first run,
    /// the last run, the head and the unfinished run are sufficient. Returns `None` if no run
    /// belongs to a session.
    pub fn of(runs: impl IntoIterator<Item = RunRecord>) -> Option<Self> {
        let number = |run: &RunRecord| run.session.as_ref().map_or(0, |place| place.number);
        let runs: BTreeMap<u64, RunRecord> =
            runs.into_iter().map(|run| (number(&run), run)).collect();
        // Runs without a session have the number 0. If there are no others,
        // `last` has no session.
        let (first, last) = (runs.values().next()?, runs.values().next_back()?);
        let place = last.session.as_ref()?;
        let head = runs.values().rev().find(|run| run.status == RunStatus::Success);
        let unfinished = runs.values().find(|run| !run.status.has_ended());
        let updated = [head, unfinished]
            .into_iter()
            .flatten()
            .map(|run| run.updated)
            .fold(last.updated, Ord::max);
        Some(Self {
            id: Arc::clone(&place.session),
            agent: Arc::clone(&last.name),
            caller: first.caller.clone(),
            tags: first.tags.clone(),
            created: first.created,
            updated,
            // The runs of a session are numbered from 1 without gaps.
            runs: place.number,
            head: head.map(|run| run.run_id.clone()),
            unfinished: unfinished.map(|run| run.run_id.clone()),
        })
    }
}

/// Selects the sessions of a list. A filter without conditions selects all sessions.
///
/// ```
/// use agentflow::store::SessionFilter;
///
/// let of_ada = SessionFilter::new().caller("ada").tag("channel", "web").limit(20);
/// assert_eq!(of_ada.get_caller(), Some("ada"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionFilter {
    caller: Option<Arc<str>>,
    tags: Vec<(String, String)>,
    idle_since: Option<Timestamp>,
    limit: Option<usize>,
    after: Option<(Timestamp, Arc<str>)>,
}

impl SessionFilter {
    /// Creates a filter that selects all sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects sessions whose first run was started on behalf of this caller.
    #[must_use]
    pub fn caller(mut self, caller: impl Into<Arc<str>>) -> Self {
        self.caller = Some(caller.into());
        self
    }

    /// Selects sessions whose first run has this tag with this value. If called several times, it
    /// must have all of the tags.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// Selects sessions without recorded events at or after this time.
    #[must_use]
    pub fn idle_since(mut self, time: Timestamp) -> Self {
        self.idle_since = Some(time);
        self
    }

    /// Limits the list to the newest `limit` sessions.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Selects sessions that follow this session in the order of the list. Pass the last session of
    /// a page to get the next page.
    #[must_use]
    pub fn after(mut self, session: &SessionRecord) -> Self {
        self.after = Some((session.created, Arc::clone(&session.id)));
        self
    }

    /// Caller of the selected sessions.
    pub fn get_caller(&self) -> Option<&str> {
        self.caller.as_deref()
    }

    /// Tags, with their values, that a selected session must have.
    pub fn get_tags(&self) -> &[(String, String)] {
        &self.tags
    }

    /// Maximum number of sessions in the list.
    pub fn get_limit(&self) -> Option<usize> {
        self.limit
    }

    /// Start time and id of the session that precedes the list.
    pub fn get_after(&self) -> Option<(Timestamp, &str)> {
        self.after.as_ref().map(|(created, id)| (*created, &**id))
    }

    /// Returns `true` if the filter selects a session, regardless of the limit.
    pub fn admits(&self, session: &SessionRecord) -> bool {
        self.caller.as_ref().is_none_or(|caller| session.caller.as_ref() == Some(caller))
            && self.tags.iter().all(|(key, value)| session.tags.get(key) == Some(value))
            && self.idle_since.is_none_or(|time| session.updated < time)
            // Lists are in descending order, so the following sessions are smaller.
            && self.after.as_ref().is_none_or(|(created, id)| (session.created, &session.id) < (*created, id))
    }

    /// Returns the selected sessions in the order of a list: newest first, and by descending id for
    /// equal times.
    pub fn select(&self, sessions: impl IntoIterator<Item = SessionRecord>) -> Vec<SessionRecord> {
        let mut selected: Vec<_> =
            sessions.into_iter().filter(|session| self.admits(session)).collect();
        selected.sort_by_cached_key(|session| Reverse((session.created, Arc::clone(&session.id))));
        selected.truncate(self.limit.unwrap_or(usize::MAX));
        selected
    }
}
