//! Removing runs: one by its id, or all that ended a while ago. It undoes nothing.

use std::time::Duration;

use super::Runtime;
use super::run_notes::forget_notes;
use crate::error::Result;
use crate::event::{Event, EventKind, NotUndone, RunId};
use crate::path::StepPath;
use crate::run::{DoneCalls, Found, RunJournal, RunState, read_events};
use crate::store::{RunFilter, RunRecord, RunStatus, StoreError, StoreErrorKind};

/// How many runs are listed at once.
const PAGE: usize = 500;

/// Which of the runs that have ended are removed: those that nothing was recorded of for a while.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::runtime::Purge;
///
/// let purge = Purge::older_than(Duration::from_secs(30 * 24 * 3600)).name("nightly");
/// # let _ = purge;
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is removed before `Runtime::purge` has it"]
pub struct Purge {
    age: Duration,
    filter: RunFilter,
}

impl Purge {
    /// All runs that ended longer ago than this.
    pub fn older_than(age: Duration) -> Self {
        let ended = [RunStatus::Success, RunStatus::Failed, RunStatus::Cancelled];
        Self { age, filter: ended.into_iter().fold(RunFilter::new(), RunFilter::status) }
    }

    /// Only runs of the agent or workflow of this name.
    pub fn name(mut self, name: impl Into<std::sync::Arc<str>>) -> Self {
        self.filter = self.filter.name(name);
        self
    }
}

/// What was lost with a run that [`Runtime::delete`] removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// What of its journal could not be read, where the run had not ended.
    pub unreadable: Option<String>,
    /// The calls that were still to be undone.
    pub not_undone: Vec<NotUndone>,
}

impl Runtime {
    /// Removes a run from the store, with its journal: one that has ended; one that still has to undo what it had done,
    /// and that no process executes; one whose journal this release cannot read, so that nobody here can resume or cancel
    /// it. What is lost with it is returned. Dropping the future leaves open whether it is removed.
    ///
    /// # Errors
    /// When the runtime has no store, there is no such run, the run can be cancelled and was not, a process executes it, or
    /// the store removes nothing.
    pub async fn delete(&self, run: &RunId) -> Result<Deleted> {
        let store = self.require_store()?;
        let unfinished = match store.delete(run).await {
            Ok(()) => {
                forget_notes(&store, run).await?;
                return Ok(Deleted::default());
            }
            Err(error) if error.kind() == StoreErrorKind::Unfinished => error,
            // Notes may be left of one that was removed before.
            Err(error) if error.kind() == StoreErrorKind::NotFound => {
                forget_notes(&store, run).await?;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        let Some(Found::Free(_reservation)) = self.find(run).await else { return Err(unfinished.into()) };
        let record = store.record(run).await?.ok_or_else(|| StoreError::not_found(run))?;
        let deleted = match read_events(&store, run, 0).await {
            Ok(events) => {
                let unknown = events.iter().any(|event| matches!(event.kind, EventKind::Unknown(_)));
                if !unknown && record.status != RunStatus::Compensating {
                    return Err(unfinished.into());
                }
                let unreadable = RunJournal::whole(events.clone()).started(run).err().map(|error| error.to_string());
                let compensates = RunState::of(&events).compensates;
                let undos = DoneCalls::of(&events).undos().into_iter();
                let open = undos.filter(|undo| compensates && undo.state.is_open());
                let not_undone = open.map(|undo| undo.call.not_undone("the run was deleted before it was undone"));
                Deleted { unreadable, not_undone: not_undone.collect() }
            }
            Err(error) if matches!(error.kind(), StoreErrorKind::Damaged | StoreErrorKind::NewerVersion) => {
                Deleted { unreadable: Some(error.to_string()), not_undone: Vec::new() }
            }
            Err(error) => return Err(error.into()),
        };
        // Only a run that has ended is removed, by every store.
        let reason = "it was deleted before its end".into();
        let end = Event {
            run_id: run.clone(),
            seq: record.events + 1,
            part: 0,
            time: self.host().clock.now(),
            path: StepPath::root(),
            kind: EventKind::RunCancelled { reason, by: None },
        };
        store.amend(run, record.events, vec![end]).await?;
        store.delete(run).await?;
        forget_notes(&store, run).await?;
        Ok(deleted)
    }

    /// The runs that [`purge`](Self::purge) would remove, the newest first. A run of a session is not among them: it is what
    /// the session remembers, and goes with it ([`purge_sessions`](Self::purge_sessions)).
    ///
    /// # Errors
    /// When the runtime has no store, or it cannot list its runs.
    pub async fn purgeable(&self, purge: &Purge) -> Result<Vec<RunRecord>> {
        let store = self.require_store()?;
        let now = self.host().clock.now();
        let (mut old, mut filter) = (Vec::new(), purge.filter.clone().limit(PAGE));
        loop {
            let page = store.list(filter.clone()).await?;
            if let Some(last) = page.last() {
                filter = filter.after(last);
            }
            let ends = page.len() < PAGE;
            old.extend(page.into_iter().filter(|run| run.session.is_none() && now.since(run.updated) > purge.age));
            if ends {
                return Ok(old);
            }
        }
    }

    /// Removes runs that ended a while ago, one after another, and gives those that it removed. One that is retried
    /// meanwhile stays. Dropping the future stops between two runs.
    ///
    /// # Errors
    /// As [`purgeable`](Self::purgeable) and [`delete`](Self::delete); what was removed before stays removed.
    pub async fn purge(&self, purge: &Purge) -> Result<Vec<RunRecord>> {
        let store = self.require_store()?;
        let mut removed = Vec::new();
        for run in self.purgeable(purge).await? {
            match store.delete(&run.run_id).await {
                Ok(()) => {
                    if let Err(error) = forget_notes(&store, &run.run_id).await {
                        tracing::warn!(run = %run.run_id, %error, "the notes of a removed run stay; delete it again");
                    }
                    removed.push(run);
                }
                // It continues, or somebody else has removed it.
                Err(error)
                    if matches!(
                        error.kind(),
                        StoreErrorKind::Unfinished | StoreErrorKind::Busy | StoreErrorKind::NotFound
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(removed)
    }
}
