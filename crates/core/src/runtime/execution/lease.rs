//! `RunLease`: the lease of a run that is about to be resumed. It is acquired from the store and
//! then either passed to the run or released.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{ControlError, Error};
use crate::event::RunId;
use crate::store::{Epoch, RunStatus, Store, StoreError, StoreErrorKind, close_in_background};

/// Lease of a run that this process does not execute yet. Dropping it releases the lease.
pub(crate) struct RunLease {
    store: Arc<dyn Store>,
    run: RunId,
    pub(crate) epoch: Epoch,
    given_up: bool,
}

impl RunLease {
    pub(crate) async fn open(store: &Arc<dyn Store>, run: &RunId) -> Result<Self, StoreError> {
        let (store, run) = (Arc::clone(store), run.clone());
        let (opened, is_open) = oneshot::channel();
        // On a separate task: if the caller is dropped while the store acquires the lease, the
        // lease must still be released.
        tokio::spawn(async move {
            let epoch = store.open(&run).await;
            // If the caller is gone, dropping the lease releases it.
            drop(opened.send(epoch.map(|epoch| Self { store, run, epoch, given_up: false })));
        });
        is_open.await.unwrap_or_else(|_| {
            let message = "the run could not be opened, since the program is ending";
            Err(StoreError::new(StoreErrorKind::Io, message))
        })
    }

    /// Releases the lease because the run cannot be resumed.
    pub(crate) async fn give_up(mut self) -> Result<(), StoreError> {
        let closed = self.store.close(&self.run, self.epoch).await;
        self.given_up = true;
        closed
    }

    /// Passes the lease to the run, which releases it when it ends.
    pub(crate) fn hand_over(mut self) {
        self.given_up = true;
    }
}

impl Drop for RunLease {
    fn drop(&mut self) {
        if !self.given_up
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            close_in_background(&runtime, &self.store, &self.run, self.epoch);
        }
    }
}

/// Replaces the error for an ended run with the error of a control request, which is more specific.
pub(crate) async fn explained(error: Error, store: &Arc<dyn Store>, run: &RunId) -> Error {
    match &error {
        Error::Store(ended) if ended.kind() == StoreErrorKind::Ended => {
            match store.record(run).await {
                Ok(Some(record)) if record.status == RunStatus::Failed => {
                    ControlError::state("resumed", "failed; retry the node that failed first")
                        .into()
                }
                Ok(Some(record)) => ControlError::over("resumed", record.status).into(),
                _ => error,
            }
        }
        _ => error,
    }
}
