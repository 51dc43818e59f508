//! [`LeaseStore`]: the optional part of a store that knows which process executes a run.

use async_trait::async_trait;

use super::StoreError;
use crate::event::RunId;

/// Leases of a [`Store`](super::Store): the store knows which process has a run open, by a lock
/// that ends with the process or by a lease that the process renews.
///
/// While that process lives, `open` and `amend` in another process fail as `busy`, and
/// [`holder`](Self::holder) describes the process. Within one process, opening again fences off the
/// previous writer. [`Store::close`](super::Store::close) releases the run.
///
/// Without this part, the process that opens a run last owns it: `recover` in a second process
/// takes over the runs of the first, which stop as `fenced` at their next write. For a run that
/// waits for a person, that can be much later.
#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// Describes the other living process that has a run open, for a person. `None` means that no
    /// process has the run open, except possibly this one.
    ///
    /// The answer comes after all writes that this process has requested before.
    ///
    /// # Errors
    /// Any error of the store.
    async fn holder(&self, run: &RunId) -> Result<Option<String>, StoreError>;
}
