//! Removes runs: a single run by its id, or all runs that ended some time ago. Removing compensates
//! nothing.

use std::time::Duration;

use super::Runtime;
use super::run_notes::remove_notes;
use crate::error::Result;
use crate::event::{Event, EventKind, NotUndone, RunId};
use crate::path::StepPath;
use crate::run::{CompensationPlan, Found, RunJournal, RunState, read_events};
use crate::store::{RunFilter, RunRecord, RunStatus, StoreError, StoreErrorKind};

/// Number of runs that are listed at once.
const PAGE: usize = 500;

/// Selects ended runs for removal, by the time since their last event.
#[derive(Clone, Debug)]
#[must_use = "nothing is removed before `Runtime::purge` has it"]
pub struct Purge {
    age: Duration,
    filter: RunFilter,
}

impl Purge {
    /// Selects all runs that ended longer ago than this.
    pub fn older_than(age: Duration) -> Self {
        let ended = [RunStatus::Success, RunStatus::Failed, RunStatus::Cancelled];
        Self { age, filter: ended.into_iter().fold(RunFilter::new(), RunFilter::status) }
    }

    /// Restricts the selection to runs of the agent or workflow with this name.
    pub fn name(mut self, name: impl Into<std::sync::Arc<str>>) -> Self {
        self.filter = self.filter.name(name);
        self
    }
}

/// Data that was lost with a run that [`Runtime::delete`] removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// Error of reading the journal, if the run had not ended.
    pub unreadable: Option<String>,
    /// Calls that were still to be compensated.
    pub not_undone: Vec<NotUndone>,
}

impl Runtime {
    /// Removes a run and its journal from the store. It must have ended, or still have to be
    /// compensated without being executed by a process, or have a journal that this release cannot
    /// read, so that it cannot be resumed or cancelled here. Returns the data that is lost.
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not be removed.
    ///
    /// # Errors
    /// If the runtime has no store, the run does not exist, the run should be cancelled first, a
    /// process executes it, or the store does not support removal.
    pub async fn delete(&self, run: &RunId) -> Result<Deleted> {
        let store = self.require_store()?;
        let unfinished = match store.delete(run).await {
            Ok(()) => {
                remove_notes(&store, run).await?;
                return Ok(Deleted::default());
            }
            Err(error) if error.kind() == StoreErrorKind::Unfinished => error,
            // An earlier removal may have left notes.
            Err(error) if error.kind() == StoreErrorKind::NotFound => {
                remove_notes(&store, run).await?;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        let Some(Found::Free(_reservation)) = self.find(run).await else {
            return Err(unfinished.into());
        };
        let record = store.record(run).await?.ok_or_else(|| StoreError::not_found(run))?;
        let deleted = match read_events(&store, run, 0).await {
            Ok(events) => {
                let unknown =
                    events.iter().any(|event| matches!(event.kind, EventKind::Unknown(_)));
                if !unknown && record.status != RunStatus::Compensating {
                    return Err(unfinished.into());
                }
                let unreadable = RunJournal::whole(events.clone())
                    .started(run)
                    .err()
                    .map(|error| error.to_string());
                let compensates = RunState::from_events(&events).compensates;
                let undos = CompensationPlan::from_events(&events).undos().into_iter();
                let open = undos.filter(|undo| compensates && undo.state.is_open());
                let not_undone = open
                    .map(|undo| undo.call.not_undone("the run was deleted before it was undone"));
                Deleted { unreadable, not_undone: not_undone.collect() }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    StoreErrorKind::Damaged | StoreErrorKind::NewerVersion
                ) =>
            {
                Deleted { unreadable: Some(error.to_string()), not_undone: Vec::new() }
            }
            Err(error) => return Err(error.into()),
        };
        // Stores remove only ended runs, so an end event is appended first.
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
        remove_notes(&store, run).await?;
        Ok(deleted)
    }

    /// Returns the runs that [`purge`](Self::purge) would remove, newest first. Runs of sessions
    /// are excluded: they are the content of their session and are removed with it
    /// ([`purge_sessions`](Self::purge_sessions)).
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its runs.
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
            old.extend(
                page.into_iter()
                    .filter(|run| run.session.is_none() && now.since(run.updated) > purge.age),
            );
            if ends {
                return Ok(old);
            }
        }
    }

    /// Removes ended runs, one after another, and returns the removed runs. A run that is retried
    /// meanwhile stays.
    ///
    /// # Cancel safety
    /// Dropping the future stops between two runs.
    ///
    /// # Errors
    /// As [`purgeable`](Self::purgeable) and [`delete`](Self::delete). Runs that were removed
    /// before the error remain removed.
    pub async fn purge(&self, purge: &Purge) -> Result<Vec<RunRecord>> {
        let store = self.require_store()?;
        let mut removed = Vec::new();
        for run in self.purgeable(purge).await? {
            match store.delete(&run.run_id).await {
                Ok(()) => {
                    if let Err(error) = remove_notes(&store, &run.run_id).await {
                        tracing::warn!(run = %run.run_id, %error, "the notes of a removed run stay; delete it again");
                    }
                    removed.push(run);
                }
                // The run continues, or was removed by another process.
                Err(error)
                    if matches!(
                        error.kind(),
                        StoreErrorKind::Unfinished
                            | StoreErrorKind::Busy
                            | StoreErrorKind::NotFound
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(removed)
    }
}
