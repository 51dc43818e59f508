//! The written order of calls that the plan does not show: such a call starts when all earlier
//! steps have ended whose effects it could see.

use super::{Machine, Unit};
use crate::tool::HiddenEffect;
use crate::workflow::spec::{NodeIndex, PlanNode};

/// Lower bounds of the first node that has not ended: among the opaque nodes, and among all nodes.
/// They make the check in [`Machine::has_turn`] amortized constant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenNodeBounds {
    opaque: NodeIndex,
    all: NodeIndex,
}

impl OpenNodeBounds {
    /// Lowers the bounds for a node that runs again.
    pub(super) fn again(&mut self, node: NodeIndex) {
        (self.opaque, self.all) = (self.opaque.min(node), self.all.min(node));
    }
}

impl PlanNode {
    /// Returns `true` if calls in the step that the plan does not show wait for earlier steps.
    pub(crate) fn has_turn(&self) -> bool {
        !self.writes && !self.unordered && (self.is_opaque || self.callees.len() > 1)
    }
}

impl Machine {
    /// Returns `true` if a call with this effect may start in the unit: all earlier steps whose
    /// effects it could see have ended.
    pub(crate) fn has_turn(&mut self, unit: Unit, effect: HiddenEffect) -> bool {
        let is_passed = |machine: &Self, at: NodeIndex| {
            let node = machine.spec.node(at);
            // A read is only ordered after opaque steps, which may have written. A write is ordered
            // after every step.
            let counts = !node.unordered && (effect == HiddenEffect::Writes || node.is_opaque);
            !counts || machine.phase(Unit::node(at)).has_ended()
        };
        let mut first = match effect {
            HiddenEffect::Reads => self.open_from.opaque,
            HiddenEffect::Writes => self.open_from.all,
        };
        while first < unit.node && is_passed(self, first) {
            first += 1;
        }
        match effect {
            HiddenEffect::Reads => self.open_from.opaque = first,
            HiddenEffect::Writes => self.open_from.all = first,
        }
        first >= unit.node
    }

    /// Sets the number of running steps that wait for earlier steps. They do not count against the
    /// concurrency limit.
    pub(crate) fn set_waiting_steps(&mut self, held: usize) {
        self.held = held;
    }

    /// Returns `true` if the concurrency limit allows another step.
    pub(crate) fn has_room(&self) -> bool {
        self.active() < self.spec.concurrency
    }

    /// Returns the number of running steps that do not wait for earlier steps.
    pub(super) fn active(&self) -> usize {
        self.running.saturating_sub(self.held)
    }
}
