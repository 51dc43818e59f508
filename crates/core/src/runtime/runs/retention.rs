//! Removes runs. [`Purge`] selects runs that ended some time ago. Removing compensates nothing.
//!
//! The notes of a run are removed with it. Notes are data about a run outside of its journal, such
//! as the address that a client registered for notifications. They are stored as state of a
//! reserved owner.

use std::sync::Arc;
use std::time::Duration;

use crate::access::AccessAction;
use crate::error::Result;
use crate::event::{Event, EventKind, NotUndone, RunId};
use crate::path::StepPath;
use crate::run::{CompensationPlan, Found, RunJournal, RunState, read_events};
use crate::runtime::execution::workflow_runs::find;
use crate::runtime::runs::run_ref::RunRef;
use crate::store::{RunFilter, RunStatus, StateWrite, Store, StoreError, StoreErrorKind};

/// Selects ended runs for removal, by the time since their last event.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::prelude::*;
/// use agentflow::runtime::Purge;
/// use agentflow::store::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let month = Purge::older_than(Duration::from_secs(30 * 24 * 3600));
/// assert!(runtime.runs().purge(&month).await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is removed before `Runs::purge` has it"]
pub struct Purge {
    pub(super) age: Duration,
    pub(super) filter: RunFilter,
}

impl Purge {
    /// Selects all runs that ended longer ago than this.
    pub fn older_than(age: Duration) -> Self {
        let ended = [RunStatus::Success, RunStatus::Failed, RunStatus::Cancelled];
        Self { age, filter: ended.into_iter().fold(RunFilter::new(), RunFilter::status) }
    }

    /// Restricts the selection to runs of the agent or workflow with this name.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.filter = self.filter.name(name);
        self
    }
}

/// Data that was lost with a run that [`RunRef::delete`](crate::runtime::RunRef::delete) removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// Error of reading the journal, if the run had not ended.
    pub unreadable: Option<String>,
    /// Calls that were still to be compensated.
    pub not_undone: Vec<NotUndone>,
}

impl RunRef<'_> {
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
    pub async fn delete(self) -> Result<Deleted> {
        self.check_access(AccessAction::Delete).await?;
        let run = self.run;
        let store = self.runtime.require_store()?;
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
        let Some(Found::Free(_reservation)) = find(self.runtime, run).await else {
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
            time: self.runtime.host().clock.now(),
            path: StepPath::root(),
            kind: EventKind::RunCancelled { reason, by: None },
        };
        store.amend(run, record.events, vec![end]).await?;
        store.delete(run).await?;
        remove_notes(&store, run).await?;
        Ok(deleted)
    }
}

/// Returns the state owner of a run's notes. It starts with a control character that no caller name
/// from a network contains, so it cannot collide with a user.
pub fn owner_of_notes(run: &RunId) -> String {
    format!("\u{1}run:{run}")
}

/// Removes the notes of a run.
pub(crate) async fn remove_notes(store: &Arc<dyn Store>, run: &RunId) -> Result<(), StoreError> {
    let Some(state) = store.state() else { return Ok(()) };
    let owner = owner_of_notes(run);
    let kept = state.read_state(Some(&owner), None).await?;
    let removed: Vec<StateWrite> =
        kept.into_iter().map(|(key, _)| StateWrite::new(Some(&owner), &key, None)).collect();
    match removed.is_empty() {
        true => Ok(()),
        false => state.put_state(removed).await,
    }
}

/// Removes a session with all of its runs and their notes. Returns the number of runs.
pub(crate) async fn delete_with_notes(
    store: &Arc<dyn Store>,
    session: &str,
) -> Result<u64, StoreError> {
    let sessions = store.require_sessions()?;
    let runs = match store.state() {
        Some(_) => store.list(RunFilter::new().session(session)).await?,
        None => Vec::new(),
    };
    let removed = sessions.delete_session(session).await?;
    for run in runs {
        remove_notes(store, &run.run_id).await?;
    }
    Ok(removed)
}
