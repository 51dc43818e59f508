//! `SessionRecord` and `SessionFilter`: the row of a session in a list, and which sessions a list has. All of it follows
//! from the records of the session's runs; nothing here reads a journal.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{RunRecord, RunStatus};
use crate::event::RunId;
use crate::time::Timestamp;

/// What a list says of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The session.
    pub id: Arc<str>,
    /// The agent of its last run.
    pub agent: Arc<str>,
    /// On whose behalf its first run was started.
    pub caller: Option<Arc<str>>,
    /// The tags of its first run.
    pub tags: BTreeMap<String, String>,
    /// When it began.
    pub created: Timestamp,
    /// When something was recorded last.
    pub updated: Timestamp,
    /// How many runs were started in it.
    pub runs: u64,
    /// The completed run with the highest number: the next run continues its history.
    pub head: Option<RunId>,
    /// The run that has not ended; the next one begins after it has.
    pub unfinished: Option<RunId>,
}

impl SessionRecord {
    /// The record of a session from the records of its runs, in any order: of all of them, or at least of the first, the
    /// last, the head and the unfinished one. `None` when none of them is a run of a session.
    pub fn of(runs: impl IntoIterator<Item = RunRecord>) -> Option<Self> {
        let number = |run: &RunRecord| run.session.as_ref().map_or(0, |place| place.number);
        let runs: BTreeMap<u64, RunRecord> = runs.into_iter().map(|run| (number(&run), run)).collect();
        let (first, last) = (runs.values().next()?, runs.values().next_back()?);
        let place = last.session.as_ref()?;
        let head = runs.values().rev().find(|run| run.status == RunStatus::Success);
        let unfinished = runs.values().find(|run| !run.status.has_ended());
        let updated = [head, unfinished].into_iter().flatten().map(|run| run.updated).fold(last.updated, Ord::max);
        Some(Self {
            id: Arc::clone(&place.session),
            agent: Arc::clone(&last.name),
            caller: first.caller.clone(),
            tags: first.tags.clone(),
            created: first.created,
            updated,
            runs: place.number,
            head: head.map(|run| run.run_id.clone()),
            unfinished: unfinished.map(|run| run.run_id.clone()),
        })
    }
}

/// Selects the sessions of a list. Without conditions it selects all of them.
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
    /// All sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only sessions whose first run was started on behalf of this caller.
    #[must_use]
    pub fn caller(mut self, caller: impl Into<Arc<str>>) -> Self {
        self.caller = Some(caller.into());
        self
    }

    /// Only sessions whose first run has this tag with this value; of several tags, only those that have all of them.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// Only sessions in which nothing was recorded at this time or later.
    #[must_use]
    pub fn idle_since(mut self, time: Timestamp) -> Self {
        self.idle_since = Some(time);
        self
    }

    /// At most so many sessions, the newest ones.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Only sessions that stand behind this one in the list: the next page, when it is the last session of a page.
    #[must_use]
    pub fn after(mut self, session: &SessionRecord) -> Self {
        self.after = Some((session.created, Arc::clone(&session.id)));
        self
    }

    /// The caller that a session must have.
    pub fn get_caller(&self) -> Option<&str> {
        self.caller.as_deref()
    }

    /// The tags that a session must have, with their values.
    pub fn get_tags(&self) -> &[(String, String)] {
        &self.tags
    }

    /// The most sessions of a list.
    pub fn get_limit(&self) -> Option<usize> {
        self.limit
    }

    /// When the session began behind which the list begins, and its id.
    pub fn get_after(&self) -> Option<(Timestamp, &str)> {
        self.after.as_ref().map(|(created, id)| (*created, &**id))
    }

    /// Whether the filter selects a session, regardless of the limit.
    pub fn admits(&self, session: &SessionRecord) -> bool {
        self.caller.as_ref().is_none_or(|caller| session.caller.as_ref() == Some(caller))
            && self.tags.iter().all(|(key, value)| session.tags.get(key) == Some(value))
            && self.idle_since.is_none_or(|time| session.updated < time)
            && self.after.as_ref().is_none_or(|(created, id)| (session.created, &session.id) < (*created, id))
    }

    /// The selected sessions in the order of a list: the newest first, and of the same time the one with the greater id.
    pub fn select(&self, sessions: impl IntoIterator<Item = SessionRecord>) -> Vec<SessionRecord> {
        let mut selected: Vec<_> = sessions.into_iter().filter(|session| self.admits(session)).collect();
        selected.sort_by_cached_key(|session| Reverse((session.created, Arc::clone(&session.id))));
        selected.truncate(self.limit.unwrap_or(usize::MAX));
        selected
    }
}

/// The sessions that runs are in.
pub(super) fn sessions_of(runs: impl IntoIterator<Item = RunRecord>) -> impl Iterator<Item = SessionRecord> {
    let mut sessions: BTreeMap<Arc<str>, Vec<RunRecord>> = BTreeMap::new();
    for run in runs {
        if let Some(place) = &run.session {
            sessions.entry(Arc::clone(&place.session)).or_default().push(run);
        }
    }
    sessions.into_values().filter_map(SessionRecord::of)
}
