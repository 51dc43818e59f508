//! The effects of a test's tools, in order. This module contains no tests.

use std::sync::{Arc, Mutex};

/// A list of effects that all tools of a runtime share.
#[derive(Clone, Default)]
pub(crate) struct Deeds(Arc<Mutex<Vec<String>>>);

impl Deeds {
    pub(crate) fn note(&self, deed: String) {
        self.0.lock().unwrap().push(deed);
    }

    /// Removes and returns the recorded effects.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The result type of workflows in tests.
pub(crate) type Boxed<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
