//! Writes to the store while the workflow continues: journal commits and snapshots.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::WorkflowRun;
use crate::future::BoxFuture;
use crate::store::StoreError;
use crate::workflow::compact::compact;

/// A write to the store in the background.
pub(super) enum Commit {
    Journal(BoxFuture<'static, Result<(), StoreError>>),
    Snapshot(BoxFuture<'static, ()>),
}

impl Commit {
    pub(super) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), StoreError>> {
        match self {
            Self::Journal(write) => write.as_mut().poll(cx),
            Self::Snapshot(write) => write.as_mut().poll(cx).map(Ok),
        }
    }
}

impl WorkflowRun {
    /// Starts a commit of uncommitted records, unless a write is in progress.
    pub(super) fn begin_commit(&mut self) {
        if self.commit.is_none() && self.segment.shared.log.has_uncommitted() {
            let shared = Arc::clone(&self.segment.shared);
            self.commit = Some(Commit::Journal(Box::pin(async move { shared.log.commit().await })));
        }
    }

    /// Stores a compacted copy of the journal when enough records have been added.
    pub(super) fn take_snapshot(&mut self) {
        let log = &self.segment.shared.log;
        if self.segment.is_run() && log.is_snapshot_due() {
            self.commit = log
                .snapshot(|events| Some(compact(self.machine.spec(), events)))
                .map(Commit::Snapshot);
        }
    }
}
