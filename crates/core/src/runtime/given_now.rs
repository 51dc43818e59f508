//! `GivenNow`: what a runtime was given, as it is now. Documents may be replaced while runs are executed, so whoever looks
//! has a list of one moment. It makes nothing and finds nothing by its name.

use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::catalogue::Given;
use crate::error::Result;
use crate::run::Host;

/// What a host was given; shared by all that is made of the host.
pub(super) struct GivenNow {
    given: RwLock<Arc<Given>>,
    /// Whether it may become something else.
    #[cfg(feature = "documents")]
    changes: bool,
}

impl GivenNow {
    pub(super) fn new(given: Given) -> Self {
        Self {
            given: RwLock::new(Arc::new(given)),
            #[cfg(feature = "documents")]
            changes: false,
        }
    }

    /// The same, when it may become something else.
    #[cfg(feature = "documents")]
    pub(super) fn changing(self, changes: bool) -> Self {
        Self { changes, ..self }
    }

    fn now(&self) -> Arc<Given> {
        Arc::clone(&self.given.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the list from now on, or leaves it unchanged after an error.
    pub(super) fn change(&self, change: impl FnOnce(&mut Given) -> Result<()>) -> Result<()> {
        let mut now = self.given.write().unwrap_or_else(PoisonError::into_inner);
        let mut given = Given::clone(&now);
        change(&mut given)?;
        *now = Arc::new(given);
        Ok(())
    }

    /// What is known from now on.
    #[cfg(feature = "documents")]
    pub(super) fn replace(&self, given: Arc<Given>) {
        *self.given.write().unwrap_or_else(PoisonError::into_inner) = given;
    }
}

/// All that a host was given, as it is now.
pub(super) fn given_now(host: &Host) -> Arc<Given> {
    static OF_PROCESS: OnceLock<Arc<Given>> = OnceLock::new();
    match host.part::<GivenNow>() {
        Some(given) => given.now(),
        // The runtime of the process was given nothing; documents may be linked into the program.
        #[cfg(feature = "documents")]
        None => Arc::clone(OF_PROCESS.get_or_init(|| Arc::new(super::given_documents::of_process()))),
        #[cfg(not(feature = "documents"))]
        None => Arc::clone(OF_PROCESS.get_or_init(Arc::default)),
    }
}

/// What was given of a kind, at one moment.
pub(super) struct GivenList<T: 'static> {
    given: Arc<Given>,
    of: fn(&Given) -> &Vec<T>,
}

impl<T> GivenList<T> {
    /// All that was given at this moment.
    #[cfg(feature = "dynamic")]
    pub(super) fn moment(&self) -> &Arc<Given> {
        &self.given
    }
}

/// A host that stays at one moment: of two documents that are read at once, not one is in the old and the other in the new
/// version. `None` when nothing changes.
#[cfg(feature = "documents")]
pub(super) fn at_moment(host: &Host, given: &Arc<Given>) -> Option<Host> {
    host.part::<GivenNow>().filter(|now| now.changes)?;
    let mut host = Host::clone(host);
    host.set_part(GivenNow { given: RwLock::new(Arc::clone(given)), changes: false });
    Some(host)
}

impl<T> Deref for GivenList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        (self.of)(&self.given)
    }
}

/// What is given of a kind; nothing for the runtime of the process.
pub(super) fn given<T: 'static>(host: &Host, of: fn(&Given) -> &Vec<T>) -> GivenList<T> {
    GivenList { given: given_now(host), of }
}
