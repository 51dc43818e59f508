//! `Opened`: the right to write a run that is about to be resumed. It is taken from the store, handed to the run, or
//! given up. It resumes nothing itself.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{ControlError, Error};
use crate::event::RunId;
use crate::store::{Epoch, RunStatus, Store, StoreError, StoreErrorKind, close_in_background};

/// A run that this process has opened and does not execute yet: dropped, it is given up again.
pub(super) struct Opened {
    store: Arc<dyn Store>,
    run: RunId,
    pub(super) epoch: Epoch,
    given_up: bool,
}

impl Opened {
    pub(super) async fn open(store: &Arc<dyn Store>, run: &RunId) -> Result<Self, StoreError> {
        let (store, run) = (Arc::clone(store), run.clone());
        let (opened, is_open) = oneshot::channel();
        // On a task of its own: a store may have opened it before it says so.
        tokio::spawn(async move {
            let epoch = store.open(&run).await;
            // When nobody waits any more, it is given up at once.
            drop(opened.send(epoch.map(|epoch| Self { store, run, epoch, given_up: false })));
        });
        is_open.await.unwrap_or_else(|_| {
            let message = "the run could not be opened, since the program is ending";
            Err(StoreError::new(StoreErrorKind::Io, message))
        })
    }

    /// It could not be resumed.
    pub(super) async fn give_up(mut self) -> Result<(), StoreError> {
        let closed = self.store.close(&self.run, self.epoch).await;
        self.given_up = true;
        closed
    }

    /// It is executed now, and gives itself up.
    pub(super) fn hand_over(mut self) {
        self.given_up = true;
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.given_up
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            close_in_background(&runtime, &self.store, &self.run, self.epoch);
        }
    }
}

/// Why a run that has ended is not resumed, in the words of a control request.
pub(super) async fn explained(error: Error, store: &Arc<dyn Store>, run: &RunId) -> Error {
    match &error {
        Error::Store(ended) if ended.kind() == StoreErrorKind::Ended => match store.record(run).await {
            Ok(Some(record)) if record.status == RunStatus::Failed => {
                ControlError::state("resumed", "failed; retry the node that failed first").into()
            }
            Ok(Some(record)) => ControlError::over("resumed", record.status).into(),
            _ => error,
        },
        _ => error,
    }
}
