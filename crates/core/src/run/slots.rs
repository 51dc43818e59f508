//! `Slots`: how many calls of one name run at once in a host. It knows no tools: a name is a text, and who waits decides
//! what for.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits of a host, each by its name and number, made when they are first needed.
#[derive(Default)]
pub(crate) struct Slots(Mutex<Limits>);

type Limits = HashMap<(Arc<str>, u32), Arc<Semaphore>>;

/// The right to be one of so many. Dropped, the next one has it.
pub(crate) struct Slot(#[allow(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Slots {
    /// Waits until fewer than `most` of this name run. Who came first is first; dropping the future gives up the place.
    pub(crate) async fn take(&self, name: &Arc<str>, most: u32) -> Option<Slot> {
        let semaphore = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let made = || Arc::new(Semaphore::new(usize::try_from(most.max(1)).unwrap_or(Semaphore::MAX_PERMITS)));
            Arc::clone(all.entry((Arc::clone(name), most)).or_insert_with(made))
        };
        // It is never closed.
        semaphore.acquire_owned().await.ok().map(Slot)
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slots")
    }
}
