//! `Running`: the runs that a host executes now, with or without a store, and whether it accepts
//! new ones. Draining stops the runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::shared::RunShared;
use crate::error::{Error, Result};

/// The runs that a host executes.
#[derive(Default)]
pub(crate) struct Running {
    state: Mutex<RunningState>,
    /// A run ended while the host is draining.
    changed: Notify,
}

#[derive(Default)]
struct RunningState {
    draining: bool,
    /// By the address of the shared state.
    runs: HashMap<usize, Weak<RunShared>>,
}

impl Running {
    fn state(&self) -> MutexGuard<'_, RunningState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the host accepts new runs.
    ///
    /// # Errors
    /// [`Error::Draining`] if it is draining.
    pub(crate) fn check(&self) -> Result<()> {
        if self.state().draining { Err(Error::Draining) } else { Ok(()) }
    }

    /// Registers a run until it is closed.
    ///
    /// # Errors
    /// [`Error::Draining`] if the host is draining.
    pub(crate) fn begin(&self, shared: &Arc<RunShared>) -> Result<()> {
        let mut state = self.state();
        if state.draining {
            return Err(Error::Draining);
        }
        state.runs.insert(Arc::as_ptr(shared).addr(), Arc::downgrade(shared));
        Ok(())
    }

    pub(super) fn end(&self, shared: &RunShared) {
        let mut state = self.state();
        state.runs.remove(&std::ptr::from_ref(shared).addr());
        if state.draining {
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Stops accepting new runs.
    pub(crate) fn close(&self) {
        self.state().draining = true;
    }

    /// Returns the registered runs.
    pub(crate) fn all(&self) -> Vec<Arc<RunShared>> {
        self.state().runs.values().filter_map(Weak::upgrade).collect()
    }

    /// Waits until no run is registered.
    pub(crate) async fn until_idle(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Enabled before the runs are counted, so that an end in between is not missed.
            changed.as_mut().enable();
            if self.state().runs.values().all(|run| run.strong_count() == 0) {
                return;
            }
            changed.await;
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Running")
            .field("runs", &state.runs.len())
            .field("draining", &state.draining)
            .finish()
    }
}
