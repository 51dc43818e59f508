//! Notes: data about a run outside of its journal, such as the address that a client registered for
//! notifications. Notes are stored as state of a reserved owner and removed with the run.

use std::sync::Arc;

use crate::event::RunId;
use crate::store::{RunFilter, StateWrite, Store, StoreError};

/// Returns the state owner of a run's notes. It starts with a control character that no caller name
/// from a network contains, so it cannot collide with a user.
pub fn owner_of_notes(run: &RunId) -> String {
    format!("\u{1}run:{run}")
}

/// Removes the notes of a run.
pub(super) async fn remove_notes(store: &Arc<dyn Store>, run: &RunId) -> Result<(), StoreError> {
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
pub(super) async fn delete_with_notes(
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
