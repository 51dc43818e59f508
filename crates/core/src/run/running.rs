//! `Running`: the runs that a host executes now, whether they have a store or not, and whether it still begins new ones.
//! It stops none by itself; draining does.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::shared::RunShared;
use crate::error::{Error, Result};

/// The runs that a host executes.
#[derive(Default)]
pub(crate) struct Running {
    state: Mutex<State>,
    /// A run has begun or ended.
    changed: Notify,
}

#[derive(Default)]
struct State {
    draining: bool,
    /// By the address of what they share.
    runs: HashMap<usize, Weak<RunShared>>,
}

impl Running {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether new runs begin here.
    ///
    /// # Errors
    /// [`Error::Draining`].
    pub(crate) fn check(&self) -> Result<()> {
        if self.state().draining { Err(Error::Draining) } else { Ok(()) }
    }

    /// A run is executed here from now on, until it is closed.
    ///
    /// # Errors
    /// [`Error::Draining`].
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

    /// No new run begins here from now on.
    pub(crate) fn close(&self) {
        self.state().draining = true;
    }

    /// The runs that are executed here now.
    pub(crate) fn all(&self) -> Vec<Arc<RunShared>> {
        self.state().runs.values().filter_map(Weak::upgrade).collect()
    }

    /// Waits until nothing is executed here.
    pub(crate) async fn until_idle(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From now on no change is missed.
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
        f.debug_struct("Running").field("runs", &state.runs.len()).field("draining", &state.draining).finish()
    }
}
