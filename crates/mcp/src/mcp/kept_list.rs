//! A cache for one list of a server, valid for as long as the server permits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum time that a list is cached, also if the server permits more.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Cache of the list that was fetched last.
pub(super) struct CachedServerList<T>(Mutex<Option<Kept<T>>>);

struct Kept<T> {
    version: u64,
    until: Instant,
    entries: Arc<[T]>,
}

impl<T> Default for CachedServerList<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> CachedServerList<T> {
    /// Returns the cached list, unless it is outdated: its version has changed or its time has
    /// passed.
    pub(super) fn kept(&self, version: &AtomicU64) -> Option<Arc<[T]>> {
        let version = version.load(Ordering::SeqCst);
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept =
            kept.as_ref().filter(|kept| kept.version == version && Instant::now() < kept.until);
        kept.map(|kept| Arc::clone(&kept.entries))
    }

    /// Stores a list for the time that the server permits. Without such a time, the list is valid
    /// until it changes, if the server announces changes. Otherwise it is not cached.
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
        // A response to a request from before the last change must not replace a newer list.
        if kept.as_ref().is_none_or(|kept| kept.version <= version) {
            *kept = Some(Kept { version, until, entries: Arc::clone(&entries) });
        }
        entries
    }
}
