//! What the tools of a test did and undid, in its order. It asserts nothing.

use std::sync::{Arc, Mutex};

/// A list that all tools of a runtime share.
#[derive(Clone, Default)]
pub(crate) struct Deeds(Arc<Mutex<Vec<String>>>);

impl Deeds {
    pub(crate) fn note(&self, deed: String) {
        self.0.lock().unwrap().push(deed);
    }

    /// What was noted since this was asked last.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The result of workflows in tests.
pub(crate) type Boxed<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
