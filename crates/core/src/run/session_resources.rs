//! Resources that the runs of a session share. They are created for the first run, and closed when
//! no run has used them for a while.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use super::made_resources::MadeResources;
use crate::error::Result;
use crate::resource::Resources;

/// Maximum number of idle sessions that keep their resources. Beyond it, the session that is idle
/// longest loses them.
const MOST_IDLE: usize = 1_000;

/// A session and its caller. The caller is part of the key, so that a caller never receives
/// resources of another caller, not even before its run is refused.
type SessionKey = (Arc<str>, Option<Arc<str>>);

/// The resources of all sessions of a host.
#[derive(Default)]
pub(crate) struct SessionResources(Mutex<HeldSessions>);

#[derive(Default)]
struct HeldSessions {
    held: HashMap<SessionKey, HeldSession>,
    /// Number of the last use. Orders idle sessions.
    uses: u64,
}

struct HeldSession {
    made: MadeResources,
    /// Number of runs that use them now.
    runs: usize,
    last_use: u64,
}

impl SessionResources {
    fn state(&self) -> MutexGuard<'_, HeldSessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the resources of a session. Calls `make` for its first run.
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub(super) fn lease(
        this: &Arc<Self>,
        (session, caller): (&str, Option<&str>),
        keep: Duration,
        make: impl FnOnce() -> Result<MadeResources>,
    ) -> Result<SessionLease> {
        let key: SessionKey = (session.into(), caller.map(Into::into));
        let lease = |resources| SessionLease {
            sessions: Arc::clone(this),
            key: key.clone(),
            keep,
            resources,
        };
        if let Some(resources) = this.state().begin_use(&key, None) {
            return Ok(lease(resources));
        }
        // Called without the lock: the closure belongs to the program and may start a run.
        let made = make()?;
        // If another run created the values meanwhile, those are used, and dropping `made` closes
        // it.
        let resources = this.state().begin_use(&key, Some(made)).unwrap_or_default();
        Ok(lease(resources))
    }

    /// Closes the resources of one idle session, or of all.
    pub(crate) fn close_idle(&self, session: Option<&str>) {
        let mut idle = Vec::new();
        let mut state = self.state();
        let is_idle = |(key, held): &(&SessionKey, &HeldSession)| {
            held.runs == 0 && session.is_none_or(|session| *key.0 == *session)
        };
        let keys: Vec<SessionKey> =
            state.held.iter().filter(is_idle).map(|(key, _)| key.clone()).collect();
        for key in keys {
            idle.extend(state.held.remove(&key));
        }
        drop(state);
        drop(idle);
    }

    fn end_use(this: &Arc<Self>, key: &SessionKey, keep: Duration) {
        let mut closed = Vec::new();
        let mut state = this.state();
        let last_use = state.next_use();
        let Some(held) = state.held.get_mut(key) else { return };
        held.runs -= 1;
        held.last_use = last_use;
        let is_idle = held.runs == 0;
        match Handle::try_current() {
            _ if !is_idle => {}
            Ok(handle) if !keep.is_zero() => {
                let (sessions, key) = (Arc::downgrade(this), key.clone());
                handle.spawn(async move {
                    tokio::time::sleep(keep).await;
                    if let Some(sessions) = sessions.upgrade() {
                        // An unchanged `last_use` means that no run has used the values since.
                        let unused = sessions.state().remove_unused_since(&key, last_use);
                        drop(unused);
                    }
                });
                closed.extend(state.remove_beyond(MOST_IDLE));
            }
            _ => closed.extend(state.held.remove(key)),
        }
        drop(state);
        // Dropped without the lock, since dropping a value runs code of the program.
        drop(closed);
    }
}

impl HeldSessions {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    /// Counts another run that uses the resources of a session. Stores `made` if the session has no
    /// resources.
    fn begin_use(&mut self, key: &SessionKey, made: Option<MadeResources>) -> Option<Resources> {
        let last_use = self.next_use();
        if let (Some(made), None) = (made, self.held.get(key)) {
            self.held.insert(key.clone(), HeldSession { made, runs: 0, last_use });
        }
        let held = self.held.get_mut(key)?;
        (held.runs, held.last_use) = (held.runs + 1, last_use);
        Some(held.made.resources.clone())
    }

    fn remove_unused_since(&mut self, key: &SessionKey, last_use: u64) -> Option<HeldSession> {
        let is_unused =
            self.held.get(key).is_some_and(|held| held.runs == 0 && held.last_use == last_use);
        if is_unused { self.held.remove(key) } else { None }
    }

    fn remove_beyond(&mut self, most: usize) -> Option<HeldSession> {
        let idle = || self.held.iter().filter(|(_, held)| held.runs == 0);
        if idle().count() <= most {
            return None;
        }
        let oldest = idle().min_by_key(|(_, held)| held.last_use).map(|(key, _)| key.clone())?;
        self.held.remove(&oldest)
    }
}

/// The use of a session's resources by a run. Dropping it ends the use.
pub(super) struct SessionLease {
    sessions: Arc<SessionResources>,
    key: SessionKey,
    keep: Duration,
    resources: Resources,
}

impl SessionLease {
    pub(super) fn resources(&self) -> &Resources {
        &self.resources
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        // Released first, so that the session closes the last copies.
        self.resources = Resources::default();
        SessionResources::end_use(&self.sessions, &self.key, self.keep);
    }
}

impl fmt::Debug for SessionLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionLease").field(&self.key.0).finish()
    }
}

impl fmt::Debug for SessionResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionResources").field("held", &self.state().held.len()).finish()
    }
}
