//! Keeps what a workflow has recorded while it continues: commits of its journal, and snapshots beside it.
//!
//! It decides nothing about a step; the run continues before a write has ended.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::WorkflowRun;
use crate::event::{Event, RunId};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::run::Ledger;
use crate::store::{Snapshot, StoreError};
use crate::workflow::compact::compact;

/// A write to the store that the run does not wait for.
pub(super) enum Commit {
    Journal(BoxFuture<'static, Result<(), StoreError>>),
    Snapshot(BoxFuture<'static, Result<(), StoreError>>),
}

impl Commit {
    pub(super) fn poll(&mut self, run: &RunId, cx: &mut TaskContext<'_>) -> Poll<Result<(), StoreError>> {
        match self {
            Self::Journal(write) => write.as_mut().poll(cx),
            // The journal has everything that a snapshot has: a run does without.
            Self::Snapshot(write) => write.as_mut().poll(cx).map(|written| {
                if let Err(error) = written {
                    tracing::warn!(%run, %error, "a snapshot could not be kept; resuming the run will read more of its journal");
                }
                Ok(())
            }),
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
        if !self.segment.is_run() {
            return;
        }
        let Some((seq, events)) = self.segment.shared.log.due_for_snapshot() else { return };
        let last = events.last().cloned();
        let spent = Ledger::spent_in(&events);
        let mut events = compact(self.machine.spec(), events);
        // The calls that are left out are still counted.
        if let (Some(kind), Some(last)) = (spent, last) {
            events.push(Event { path: StepPath::root(), kind, ..last });
        }
        self.segment.shared.log.took_snapshot(events.len());
        if let Some((store, Some(epoch))) = self.segment.shared.log.store() {
            let (store, run) = (Arc::clone(store), self.segment.shared.id.clone());
            let written = async move { store.put_snapshot(&run, epoch, Snapshot::new(seq, events)).await };
            self.commit = Some(Commit::Snapshot(Box::pin(written)));
        }
    }
}
