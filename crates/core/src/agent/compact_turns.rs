//! Shortens the journal of an agent's run without losing state: the content of a snapshot.
//!
//! Between two turns, a snapshot keeps the events of the run itself and replaces all turns, with
//! their steps, by a single event. In the middle of a turn there is no snapshot.

use std::sync::Arc;

use super::driver::Run;
use super::machine::AgentMachine;
use super::plan::Plan;
use crate::error::Result;
use crate::event::{AgentHandoff, Event, EventKind, PauseReason};
use crate::path::StepPath;
use crate::run::{Ledger, time_spent};
use crate::state::SavedByStep;

impl Run {
    /// `true` if a top-level run has recorded enough events since its last snapshot.
    pub(super) fn is_snapshot_due(&self) -> bool {
        self.segment.is_run() && self.segment.shared.log.is_snapshot_due()
    }

    /// Writes a snapshot. The journal stays complete, so a run also works without snapshots.
    pub(super) async fn write_snapshot(&self) -> Result<()> {
        self.commit().await?;
        let first = self.first_plan();
        let rule = |plan: &Plan| plan.output.as_ref().map(|output| output.rule.clone());
        let take_over = |machine: &mut AgentMachine, transfer: &AgentHandoff| {
            if let Ok(plan) = first.of_team(&transfer.to) {
                machine.set_output_rule(rule(&plan));
            }
        };
        let written = self.segment.shared.log.snapshot(|events| {
            let mut machine =
                AgentMachine::new(StepPath::root(), Arc::clone(&first.limits), rule(first));
            if self.team.is_some() {
                machine.in_team();
            }
            compact(machine, take_over, events)
        });
        if let Some(written) = written {
            written.await;
        }
        Ok(())
    }
}

/// Returns fewer events that lead to the same state, or `None` in the middle of a turn. `machine`
/// is a new machine; `take_over` changes its answer rule at a handoff.
pub(super) fn compact(
    mut machine: AgentMachine,
    take_over: impl Fn(&mut AgentMachine, &AgentHandoff),
    events: Vec<Event>,
) -> Option<Vec<Event>> {
    let root = StepPath::root();
    let (first, last) = (events.first()?, events.last()?.clone());
    let started = first.kind.agent_started()?;
    // The messages of the start event are kept there, so the snapshot contains only later ones.
    let known = started.request().len() - usize::from(started.instructions.is_some());
    for event in &events {
        machine.replay_one(&event.path, &event.kind);
        if let EventKind::AgentHandoff(transfer) = &event.kind
            && event.path.is_root()
        {
            take_over(&mut machine, transfer);
        }
    }
    let mut advanced = machine.advanced(known)?;
    let records = events.iter().map(|event| (event.time, &event.path, &event.kind));
    advanced.spent_ms =
        u64::try_from(time_spent(records, &root, last.time).as_millis()).unwrap_or(u64::MAX);
    let ledger = Ledger::of(&events);
    advanced.tokens = ledger.tokens_of(&root);
    advanced.last_tokens = ledger.last_tokens_of(&root);
    advanced.longest_answer = ledger.longest_answer();
    advanced.saved = saved_until(advanced.step, &events);
    let delivered = advanced.delivered;
    let mut waited = false;
    let mut of_turns = |kind: &EventKind| match kind {
        EventKind::RunStep { .. }
        | EventKind::RunAdvanced(_)
        | EventKind::RunSpent(_)
        | EventKind::MessageDelivered { .. } => true,
        EventKind::MessageReceived { number, .. } => *number <= delivered,
        // The pause while the run waited for a message that is delivered now, and the matching
        // resume, have no further effect.
        EventKind::RunPaused { reason, .. } => {
            waited = *reason == PauseReason::Message;
            waited
        }
        EventKind::RunResumed { recovered: false, .. } => std::mem::take(&mut waited),
        _ => false,
    };
    // Events of steps have other paths than the root, so they are all dropped.
    let mut kept: Vec<Event> =
        events.into_iter().filter(|event| event.path.is_root() && !of_turns(&event.kind)).collect();
    kept.push(Event { path: root, kind: EventKind::RunAdvanced(Arc::new(advanced)), ..last });
    Some(kept)
}

/// Merges the state that the tools saved in all turns up to this one, in the order of the calls.
fn saved_until(turn: u32, events: &[Event]) -> Option<Arc<SavedByStep>> {
    let mut saved: Vec<_> = events.iter().filter_map(|event| event.kind.saved()).collect();
    // State that was saved within a call is included in the call's own record, and has no position.
    saved.retain(|saved| saved.place().is_some());
    saved.sort_by_key(|saved| saved.place());
    let mut all = SavedByStep::default();
    saved.iter().for_each(|saved| all.apply(saved));
    // The position is after every call of this turn and before the calls of the next one.
    (!all.is_empty()).then(|| Arc::new(all.at(Some(u64::from(turn) << 32 | u64::from(u32::MAX)))))
}
