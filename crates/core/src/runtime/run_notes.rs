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
    if !store.keeps_state() {
        return Ok(());
    }
    let owner = owner_of_notes(run);
    let kept = store.state(Some(&owner), None).await?;
    let removed: Vec<StateWrite> =
        kept.into_iter().map(|(key, _)| StateWrite::new(Some(&owner), &key, None)).collect();
    match removed.is_empty() {
        true => Ok(()),
        false => store.put_state(removed).await,
    }
}

/// Removes a session with all of its runs and their notes. Returns the number of runs.
pub(super) async fn delete_with_notes(
    store: &Arc<dyn Store>,
    session: &str,
) -> Result<u64, StoreError> {
    let runs = if store.keeps_state() {
        store.list(RunFilter::new().session(session)).await?
    } else {
        Vec::new()
    };
    let removed = store.delete_session(session).await?;
    for run in runs {
        remove_notes(store, &run.run_id).await?;
    }
    Ok(removed)
}
