//! Decides when a call may begin that the plan does not show: when the steps above have ended. It starts nothing.

use super::{Machine, Unit};
use crate::tool::HiddenEffect;
use crate::workflow::spec::{NodeIndex, NodeSpec};

/// Lower bounds of the first node that has not ended: among the opaque nodes, and among all nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenFrom {
    opaque: NodeIndex,
    all: NodeIndex,
}

impl OpenFrom {
    /// Lowers the bounds for a node that runs again.
    pub(super) fn again(&mut self, node: NodeIndex) {
        (self.opaque, self.all) = (self.opaque.min(node), self.all.min(node));
    }
}

impl NodeSpec {
    /// Returns true if calls of its step that the plan does not show wait for the steps above.
    pub(crate) fn has_turn(&self) -> bool {
        !self.writes && !self.unordered && (self.is_opaque || self.callees.len() > 1)
    }
}

impl Machine {
    /// Returns true if a call with this effect may begin in a step: all steps above have ended whose effects it could see.
    pub(crate) fn has_turn(&mut self, unit: Unit, effect: HiddenEffect) -> bool {
        let is_passed = |machine: &Self, at: NodeIndex| {
            let node = machine.spec.node(at);
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

    /// Sets the number of running steps that wait for steps above. Other steps may run in their place.
    pub(crate) fn set_held(&mut self, held: usize) {
        self.held = held;
    }

    /// Returns true if another step may run.
    pub(crate) fn has_room(&self) -> bool {
        self.active() < self.spec.concurrency
    }

    /// Returns the number of running steps that do not wait for others.
    pub(super) fn active(&self) -> usize {
        self.running.saturating_sub(self.held)
    }
}
