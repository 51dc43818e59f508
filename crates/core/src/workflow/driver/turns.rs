//! The written order of calls that the plan does not show. Such a call starts when the earlier
//! steps have ended. A step that waits does not count against the limit of concurrent steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::WorkflowRun;
use crate::tool::{CurrentStep, HiddenCalls, HiddenEffect, WrittenOrder};
use crate::workflow::machine::{Phase, Unit};
use crate::workflow::spec::PlanNode;

/// The running steps of a workflow whose calls follow the written order.
pub(super) struct CallOrders {
    of_steps: Vec<(Unit, Arc<HiddenCalls>)>,
    changed: Arc<AtomicBool>,
    /// Step in which the workflow was started.
    outer: Option<Arc<CurrentStep>>,
}

impl CallOrders {
    /// Creates the list. Steps of a nested workflow also follow the order of the step that calls
    /// it.
    pub(super) fn of_caller(is_run: bool) -> Self {
        let outer = if is_run { None } else { CurrentStep::current() };
        Self { of_steps: Vec::new(), changed: Arc::default(), outer }
    }

    /// Registers a step that starts now.
    pub(super) fn begin(&mut self, unit: Unit, node: &PlanNode) -> WrittenOrder {
        let turn = node.has_turn().then(|| HiddenCalls::new(&self.changed));
        self.of_steps.retain(|(of, _)| *of != unit);
        self.of_steps.extend(turn.iter().map(|turn| (unit, Arc::clone(turn))));
        WrittenOrder { turn, outer: self.outer.clone() }
    }

    /// Returns `true` if a call has started to wait since the last call to this function.
    pub(super) fn have_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }
}

impl WorkflowRun {
    /// Lets the waiting calls of steps continue whose earlier steps have ended, in written order.
    pub(super) fn release_waiting_calls(&mut self) {
        if self.turns.of_steps.is_empty() {
            return;
        }
        let machine = &mut self.machine;
        self.turns.of_steps.retain(|(unit, _)| machine.phase(*unit) == Phase::Running);
        self.turns.of_steps.sort_by_key(|(unit, _)| *unit);
        let is_held = |(_, turn): &&(Unit, Arc<HiddenCalls>)| turn.is_waited_for();
        machine.set_waiting_steps(self.turns.of_steps.iter().filter(is_held).count());
        for (unit, turn) in &self.turns.of_steps {
            for effect in [HiddenEffect::Reads, HiddenEffect::Writes] {
                if turn.is_open(effect)
                    || !machine.has_turn(*unit, effect)
                    // A waiting step needs a place again when it continues.
                    || turn.is_waited_for() && !machine.has_room()
                {
                    continue;
                }
                turn.open(effect);
                machine.set_waiting_steps(self.turns.of_steps.iter().filter(is_held).count());
            }
        }
    }
}
