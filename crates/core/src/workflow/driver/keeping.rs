//! Keeps what a workflow has recorded while it continues: commits of its journal, and snapshots beside it.
//!
//! It decides nothing about a step; the run continues before a write has ended.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::WorkflowRun;
use crate::future::BoxFuture;
use crate::store::StoreError;
use crate::workflow::compact::compact;

/// A write to the store that the run does not wait for.
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
    /// Begins to keep what is recorded, unless something is being kept.
    pub(super) fn begin_commit(&mut self) {
        if self.commit.is_none() && self.segment.shared.log.has_uncommitted() {
            let shared = Arc::clone(&self.segment.shared);
            self.commit = Some(Commit::Journal(Box::pin(async move { shared.log.commit().await })));
        }
    }

    /// Keeps a shorter journal beside the journal, when enough has happened.
    pub(super) fn take_snapshot(&mut self) {
        let log = &self.segment.shared.log;
        if self.segment.is_run() && log.is_snapshot_due() {
            self.commit = log.snapshot(|events| Some(compact(self.machine.spec(), events))).map(Commit::Snapshot);
        }
    }
}
