//! `RegisteredItems`: the currently registered items of a runtime. Documents may be reloaded while runs
//! are executed, so readers take a snapshot.

use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::catalogue::Given;
use crate::error::Result;
use crate::run::Host;

/// Registered items of a host, shared by all clones of the host.
pub(super) struct RegisteredItems {
    given: RwLock<Arc<Given>>,
    /// `true` if the items can change.
    #[cfg(feature = "documents")]
    changes: bool,
}

impl RegisteredItems {
    pub(super) fn new(given: Given) -> Self {
        Self {
            given: RwLock::new(Arc::new(given)),
            #[cfg(feature = "documents")]
            changes: false,
        }
    }

    /// Sets if the items can change.
    #[cfg(feature = "documents")]
    pub(super) fn changing(self, changes: bool) -> Self {
        Self { changes, ..self }
    }

    fn now(&self) -> Arc<Given> {
        Arc::clone(&self.given.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Applies a change. After an error the items remain unchanged.
    pub(super) fn change(&self, change: impl FnOnce(&mut Given) -> Result<()>) -> Result<()> {
        let mut now = self.given.write().unwrap_or_else(PoisonError::into_inner);
        let mut given = Given::clone(&now);
        change(&mut given)?;
        *now = Arc::new(given);
        Ok(())
    }

    /// Replaces all items.
    #[cfg(feature = "documents")]
    pub(super) fn replace(&self, given: Arc<Given>) {
        *self.given.write().unwrap_or_else(PoisonError::into_inner) = given;
    }
}

/// Returns a snapshot of the registered items.
pub(super) fn given_now(host: &Host) -> Arc<Given> {
    static OF_PROCESS: OnceLock<Arc<Given>> = OnceLock::new();
    match host.part::<RegisteredItems>() {
        Some(given) => given.now(),
        // The default runtime of the process has no registered items, but documents may be linked
        // into the program.
        #[cfg(feature = "documents")]
        None => {
            Arc::clone(OF_PROCESS.get_or_init(|| Arc::new(super::given_documents::of_process())))
        }
        #[cfg(not(feature = "documents"))]
        None => Arc::clone(OF_PROCESS.get_or_init(Arc::default)),
    }
}

/// The registered items of a kind, in a snapshot.
pub(super) struct RegisteredList<T: 'static> {
    given: Arc<Given>,
    of: fn(&Given) -> &Vec<T>,
}

impl<T> RegisteredList<T> {
    /// Returns the snapshot from which the list was taken.
    #[cfg(feature = "dynamic")]
    pub(super) fn moment(&self) -> &Arc<Given> {
        &self.given
    }
}

/// Returns a copy of the host that is fixed to a snapshot. It ensures that documents that refer to
/// each other are resolved in the same version. Returns `None` if the host cannot change.
#[cfg(feature = "documents")]
pub(super) fn fixed_to_snapshot(host: &Host, given: &Arc<Given>) -> Option<Host> {
    host.part::<RegisteredItems>().filter(|now| now.changes)?;
    let mut host = Host::clone(host);
    host.set_part(RegisteredItems { given: RwLock::new(Arc::clone(given)), changes: false });
    Some(host)
}

impl<T> Deref for RegisteredList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        (self.of)(&self.given)
    }
}

/// Returns the registered items of a kind. Empty for the default runtime of the process, except for
/// linked documents.
pub(super) fn given<T: 'static>(host: &Host, of: fn(&Given) -> &Vec<T>) -> RegisteredList<T> {
    RegisteredList { given: given_now(host), of }
}
