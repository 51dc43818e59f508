//! Version numbers of a server's lists. A number grows when its list may have changed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Version numbers, one for each list.
#[derive(Debug, Default)]
pub(super) struct ListVersions {
    pub(super) tools: AtomicU64,
    /// Version of the resources and their templates.
    pub(super) resources: AtomicU64,
    pub(super) prompts: AtomicU64,
}

impl ListVersions {
    /// Marks the resources and the prompts as changed.
    pub(super) fn invalidate_reads(&self) {
        self.resources.fetch_add(1, Ordering::SeqCst);
        self.prompts.fetch_add(1, Ordering::SeqCst);
    }

    /// Marks all lists as changed, for example after a reconnect.
    pub(super) fn invalidate_all(&self) {
        self.tools.fetch_add(1, Ordering::SeqCst);
        self.invalidate_reads();
    }
}
