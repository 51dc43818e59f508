//! Notes: what a surface keeps beside a run and not in its journal, such as where a client is notified of its changes. They are
//! state under an owner that is not a user, and are removed with the run. Nothing here reads one.

use std::sync::Arc;

use crate::event::RunId;
use crate::store::{RunFilter, StateWrite, Store, StoreError};

/// The owner of a run's notes. No caller has such a name: it begins with a character that no name over a network has.
pub(crate) fn owner_of_notes(run: &RunId) -> String {
    format!("\u{1}run:{run}")
}

/// Removes the notes of a run that is removed.
pub(super) async fn forget_notes(store: &Arc<dyn Store>, run: &RunId) -> Result<(), StoreError> {
    if !store.keeps_state() {
        return Ok(());
    }
    let owner = owner_of_notes(run);
    let kept = store.state(Some(&owner), None).await?;
    let removed: Vec<StateWrite> = kept.into_iter().map(|(key, _)| StateWrite::new(Some(&owner), &key, None)).collect();
    match removed.is_empty() {
        true => Ok(()),
        false => store.put_state(removed).await,
    }
}

/// Removes a session with all of its runs, and their notes; how many runs there were.
pub(super) async fn delete_with_notes(store: &Arc<dyn Store>, session: &str) -> Result<u64, StoreError> {
    let runs = if store.keeps_state() { store.list(RunFilter::new().session(session)).await? } else { Vec::new() };
    let removed = store.delete_session(session).await?;
    for run in runs {
        forget_notes(store, &run.run_id).await?;
    }
    Ok(removed)
}
