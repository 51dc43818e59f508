//! Snapshots of a run: decides when one is due, and writes it.
//!
//! The agent or workflow selects the events of the snapshot, which must lead to the same state as
//! all events.

use std::sync::Arc;

use super::log::EventLog;
use super::records::reading_size;
use super::spending::Ledger;
use crate::event::Event;
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::store::Snapshot;

/// Minimum number of events between two snapshots.
const EVERY: usize = 1000;

impl EventLog {
    /// Returns `true` if enough events were recorded since the last snapshot. The distance grows
    /// with the size of the snapshot, so that all snapshots together cost no more than the journal.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        self.store().is_some() && {
            let state = self.state();
            state.visible >= EVERY
                && state.rare.as_ref().is_none_or(|rare| {
                    state.visible.saturating_sub(rare.snapshot_at) >= EVERY.max(rare.snapshot_size)
                })
        }
    }

    /// Returns the write of a snapshot, which starts when the future is polled. `compact` receives
    /// all stored events, preceded by the events of the previous snapshot, and reduces them. It
    /// returns `None` if a snapshot is not possible now.
    pub(crate) fn snapshot(
        &self,
        compact: impl FnOnce(Vec<Event>) -> Option<Vec<Event>>,
    ) -> Option<BoxFuture<'static, ()>> {
        let (seq, events) = {
            let mut state = self.state();
            let visible = state.visible;
            // Set even if `compact` declines, so that the next attempt waits for more events.
            state.rare().snapshot_at = visible;
            let kept = state.kept().iter().map(|record| state.event_of(&self.run_id, 0, record));
            let events: Vec<Event> =
                kept.chain((0..visible).map(|at| state.event(&self.run_id, at))).collect();
            (state.offset + visible as u64, events)
        };
        let last = events.last()?.clone();
        let spent = Ledger::of(&events).spent();
        let mut events = compact(events)?;
        // The calls that the snapshot omits must still be counted.
        if let Some(kind) = spent {
            events.push(Event { path: StepPath::root(), kind, ..last });
        }
        self.state().rare().snapshot_size = reading_size(events.iter().map(|event| &event.kind));
        let (store, Some(epoch)) = self.store()? else { return None };
        let (store, run) = (Arc::clone(store), self.run_id.clone());
        Some(Box::pin(async move {
            // The journal contains the same facts, so the run continues without a snapshot.
            if let Err(error) = store.put_snapshot(&run, epoch, Snapshot::new(seq, events)).await {
                tracing::warn!(%run, %error, "a snapshot could not be kept; resuming the run will read more of its journal");
            }
        }))
    }
}
