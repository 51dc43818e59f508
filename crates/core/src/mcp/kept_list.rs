//! A list of a server, kept as long as the server lets it count. It asks nobody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The longest that a list is kept, whatever the server says.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The list that was fetched last, if it may be used again.
pub(super) struct KeptList<T>(Mutex<Option<Kept<T>>>);

struct Kept<T> {
    version: u64,
    until: Instant,
    entries: Arc<[T]>,
}

impl<T> Default for KeptList<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> KeptList<T> {
    /// The list, unless it has changed since or its time is over.
    pub(super) fn kept(&self, version: &AtomicU64) -> Option<Arc<[T]>> {
        let version = version.load(Ordering::SeqCst);
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_ref().filter(|kept| kept.version == version && Instant::now() < kept.until);
        kept.map(|kept| Arc::clone(&kept.entries))
    }

    /// Keeps a list as long as the server says; without a time of the server, until it changes where the server says
    /// changes, and else not at all.
    pub(super) fn keep(
        &self,
        version: u64,
        fresh_for: Option<Duration>,
        says_changes: bool,
        entries: Vec<T>,
    ) -> Arc<[T]> {
        let entries: Arc<[T]> = entries.into();
        let fresh_for = fresh_for.unwrap_or(if says_changes { LONGEST } else { Duration::ZERO });
        let until = Instant::now() + fresh_for.min(LONGEST);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was asked for before the last change is older.
        if kept.as_ref().is_none_or(|kept| kept.version <= version) {
            *kept = Some(Kept { version, until, entries: Arc::clone(&entries) });
        }
        entries
    }
}
