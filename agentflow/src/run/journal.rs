//! Writes the records of a run to its store: holds the epoch and the commit in progress.
//!
//! It decides neither what is recorded nor when.

use std::sync::{Arc, OnceLock};

use crate::event::RunId;
use crate::future::BoxFuture;
use crate::store::{Answered, Append, Epoch, Store, StoreError};

/// Where the records of a run are kept beyond its process.
pub(crate) struct Journal {
    pub(super) store: Arc<dyn Store>,
    /// The right to write, once the run exists in the store.
    pub(super) epoch: Arc<OnceLock<Epoch>>,
    /// The write in progress, with the end of the records it covers: one at a time, so that they stay in order.
    pub(super) pending: tokio::sync::Mutex<Option<Pending>>,
    /// Whether a process that comes later reads it.
    pub(super) durable: bool,
}

/// A write in progress.
pub(super) struct Pending {
    /// The end of the records it covers.
    pub(super) end: usize,
    pub(super) answered: Vec<Answered>,
    pub(super) write: BoxFuture<'static, Result<(), StoreError>>,
}

impl Journal {
    /// The journal of a run that the store does not have yet, or that is open there.
    pub(crate) fn new(store: Arc<dyn Store>, epoch: Option<Epoch>) -> Self {
        let cell = OnceLock::new();
        if let Some(epoch) = epoch {
            // The cell was made here and is empty.
            let _ = cell.set(epoch);
        }
        Self { store, epoch: Arc::new(cell), pending: tokio::sync::Mutex::default(), durable: true }
    }

    /// The journal of a run that another process has, and keeps when it has a store.
    pub(crate) fn forwarding(store: Arc<dyn Store>, durable: bool) -> Self {
        // Which writer has the run is that process's to know.
        Self { durable, ..Self::new(store, Some(Epoch(0))) }
    }

    /// The write of an append, which owns what it needs: it may outlive whoever commits. It begins when it is polled.
    pub(super) fn write(&self, run: &RunId, append: Append) -> BoxFuture<'static, Result<(), StoreError>> {
        let (store, run, cell) = (Arc::clone(&self.store), run.clone(), Arc::clone(&self.epoch));
        Box::pin(async move {
            match cell.get() {
                Some(epoch) => store.append(&run, *epoch, append).await,
                None => {
                    let (after, state) = (append.events.len() as u64, append.state);
                    let epoch = store.create(&run, append.events).await?;
                    cell.get_or_init(|| epoch);
                    // No step has an outcome before the run's first commit, so nearly always there is nothing.
                    match state.is_empty() {
                        true => Ok(()),
                        false => store.append(&run, epoch, Append::new(after, Vec::new()).with_state(state)).await,
                    }
                }
            }
        })
    }
}
