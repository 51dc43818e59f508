//! Opens the turns of running steps: a call that the plan does not show begins when the steps above have ended. A step that
//! waits for its turn does not count against the limit of concurrent steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::WorkflowRun;
use crate::tool::{HiddenEffect, StepPlace, StepTurn, WrittenOrder};
use crate::workflow::machine::{Phase, Unit};
use crate::workflow::spec::NodeSpec;

/// The turns of the running steps of a workflow.
pub(super) struct Turns {
    of_steps: Vec<(Unit, Arc<StepTurn>)>,
    changed: Arc<AtomicBool>,
    /// The step in which the workflow was begun.
    outer: Option<Arc<StepPlace>>,
}

impl Turns {
    /// Creates the turns of a workflow. Unless it is the run itself, its steps also wait for the turn of the step that calls it.
    pub(super) fn of_caller(is_run: bool) -> Self {
        let outer = if is_run { None } else { StepPlace::current() };
        Self { of_steps: Vec::new(), changed: Arc::default(), outer }
    }

    /// Creates the turn of a step that begins now.
    pub(super) fn begin(&mut self, unit: Unit, node: &NodeSpec) -> WrittenOrder {
        let turn = node.has_turn().then(|| StepTurn::new(&self.changed));
        self.of_steps.retain(|(of, _)| *of != unit);
        self.of_steps.extend(turn.iter().map(|turn| (unit, Arc::clone(turn))));
        WrittenOrder { turn, outer: self.outer.clone() }
    }

    /// Returns true if a call has begun to wait since the last call of this function.
    pub(super) fn have_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }
}

impl WorkflowRun {
    /// Opens the turns of the steps whose steps above have ended, in their written order.
    pub(super) fn give_turns(&mut self) {
        if self.turns.of_steps.is_empty() {
            return;
        }
        let machine = &mut self.machine;
        self.turns.of_steps.retain(|(unit, _)| machine.phase(*unit) == Phase::Running);
        self.turns.of_steps.sort_by_key(|(unit, _)| *unit);
        let is_held = |(_, turn): &&(Unit, Arc<StepTurn>)| turn.is_waited_for();
        machine.set_held(self.turns.of_steps.iter().filter(is_held).count());
        for (unit, turn) in &self.turns.of_steps {
            for effect in [HiddenEffect::Reads, HiddenEffect::Writes] {
                if turn.is_open(effect)
                    || !machine.has_turn(*unit, effect)
                    || turn.is_waited_for() && !machine.has_room()
                {
                    continue;
                }
                turn.open(effect);
                machine.set_held(self.turns.of_steps.iter().filter(is_held).count());
            }
        }
    }
}
