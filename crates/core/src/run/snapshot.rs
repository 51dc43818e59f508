//! Snapshots of a run: when one is due, and the write of one.
//!
//! It does not know which events lead to the same state as all of them: an agent or a workflow says that.

use std::sync::Arc;

use super::log::EventLog;
use super::records::reading_size;
use super::spending::Ledger;
use crate::event::Event;
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::store::Snapshot;

/// The least number of events from one snapshot to the next.
const EVERY: usize = 1000;

impl EventLog {
    /// Whether enough has happened since the last snapshot. They are taken at growing distances, so that all of them
    /// together cost no more than the journal.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        self.store().is_some() && {
            let state = self.state();
            state.visible >= EVERY
                && state
                    .rare
                    .as_ref()
                    .is_none_or(|rare| state.visible.saturating_sub(rare.snapshot_at) >= EVERY.max(rare.snapshot_size))
        }
    }

    /// The write of a snapshot, which begins when it is polled. It is made of all events that the store has, what still
    /// mattered of earlier ones first; `compact` makes them fewer, unless it cannot at the moment.
    pub(crate) fn snapshot(
        &self,
        compact: impl FnOnce(Vec<Event>) -> Option<Vec<Event>>,
    ) -> Option<BoxFuture<'static, ()>> {
        let (seq, events) = {
            let mut state = self.state();
            let visible = state.visible;
            state.rare().snapshot_at = visible;
            let kept = state.kept().iter().map(|record| state.event_of(&self.run_id, 0, record));
            let events: Vec<Event> = kept.chain((0..visible).map(|at| state.event(&self.run_id, at))).collect();
            (state.offset + visible as u64, events)
        };
        let last = events.last()?.clone();
        let spent = Ledger::of(&events).spent();
        let mut events = compact(events)?;
        // The calls that are left out are still counted.
        if let Some(kind) = spent {
            events.push(Event { path: StepPath::root(), kind, ..last });
        }
        self.state().rare().snapshot_size = reading_size(events.iter().map(|event| &event.kind));
        let (store, Some(epoch)) = self.store()? else { return None };
        let (store, run) = (Arc::clone(store), self.run_id.clone());
        Some(Box::pin(async move {
            // The journal has everything that a snapshot has: a run does without.
            if let Err(error) = store.put_snapshot(&run, epoch, Snapshot::new(seq, events)).await {
                tracing::warn!(%run, %error, "a snapshot could not be kept; resuming the run will read more of its journal");
            }
        }))
    }
}
