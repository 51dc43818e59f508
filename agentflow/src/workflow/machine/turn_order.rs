//! The turns of calls that the plan does not show: which steps above have ended. It counts, and starts nothing.

use super::{Machine, Unit};
use crate::tool::HiddenEffect;
use crate::workflow::spec::{NodeIndex, NodeSpec};

/// The first nodes that have not ended, or earlier ones: of those that may write, and of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenFrom {
    opaque: NodeIndex,
    all: NodeIndex,
}

impl OpenFrom {
    /// A node runs again.
    pub(super) fn again(&mut self, node: NodeIndex) {
        (self.opaque, self.all) = (self.opaque.min(node), self.all.min(node));
    }
}

impl NodeSpec {
    /// Whether a call of its step waits for the steps above, when it does what the plan does not show.
    pub(crate) fn has_turn(&self) -> bool {
        !self.writes && !self.unordered && (self.is_opaque || self.callees.len() > 1)
    }
}

impl Machine {
    /// Whether a step may do what the plan does not show: all above it has ended that could have been seen by it.
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

    /// So many running steps wait for steps above: others may run in their place.
    pub(crate) fn set_held(&mut self, held: usize) {
        self.held = held;
    }

    /// Whether another step may run.
    pub(crate) fn has_room(&self) -> bool {
        self.active() < self.spec.concurrency
    }

    /// How many steps are running and do not wait for others.
    pub(super) fn active(&self) -> usize {
        self.running.saturating_sub(self.held)
    }
}
