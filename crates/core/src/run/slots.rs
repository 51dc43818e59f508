//! `Slots`: limits the number of concurrent calls with the same name in a host.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits of a host, by name and number. A limit is created when it is first used.
#[derive(Default)]
pub(crate) struct Slots(Mutex<Limits>);

type Limits = HashMap<(Arc<str>, u32), Arc<Semaphore>>;

/// The permission to run a call. Dropping it admits the next call.
pub(crate) struct Slot(#[allow(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Slots {
    /// Waits until fewer than `most` calls of this name run. Calls are admitted in order of
    /// arrival.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the position in the queue.
    pub(crate) async fn take(&self, name: &Arc<str>, most: u32) -> Option<Slot> {
        let semaphore = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let made = || {
                Arc::new(Semaphore::new(
                    usize::try_from(most.max(1)).unwrap_or(Semaphore::MAX_PERMITS),
                ))
            };
            Arc::clone(all.entry((Arc::clone(name), most)).or_insert_with(made))
        };
        // The semaphore is never closed, so `acquire_owned` cannot fail.
        semaphore.acquire_owned().await.ok().map(Slot)
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slots")
    }
}
