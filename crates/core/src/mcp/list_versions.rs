//! Numbers that grow when a list of a server may have changed. They hold no list.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number for each list.
#[derive(Debug, Default)]
pub(super) struct ListVersions {
    pub(super) tools: AtomicU64,
    /// Of the templates, too.
    pub(super) resources: AtomicU64,
    pub(super) prompts: AtomicU64,
}

impl ListVersions {
    /// What a program reads, and no model: it may have changed.
    pub(super) fn read_anew(&self) {
        self.resources.fetch_add(1, Ordering::SeqCst);
        self.prompts.fetch_add(1, Ordering::SeqCst);
    }

    /// All of them may have changed, such as with another connection.
    pub(super) fn all_changed(&self) {
        self.tools.fetch_add(1, Ordering::SeqCst);
        self.read_anew();
    }
}
