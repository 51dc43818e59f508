//! Read access to the machine: node outputs, and the state that conditions on edges see.
//!
//! Conditions see only recorded state. Values that exist in memory alone are excluded, so that a
//! condition has the same result after a crash.

use std::sync::Arc;

use super::Machine;
use crate::error::Failure;
use crate::state::SavedByStep;
use crate::value::Encoded;
use crate::workflow::outputs::RevisedInput;
use crate::workflow::spec::{NodeIndex, Outputs};

impl Machine {
    /// Sets the state at the start of the workflow.
    pub(crate) fn set_initial_state(&mut self, state: Option<Arc<SavedByStep>>) {
        self.began_with = state;
    }

    /// Returns the state after a node: the initial state, changed by the predecessors of the node
    /// and the node itself, in the order of the plan.
    pub(super) fn state_behind(&self, node: NodeIndex) -> SavedByStep {
        let mut state = self.began_with.as_deref().cloned().unwrap_or_default();
        for before in self.spec.all_before(node).chain([node]) {
            let before = &self.nodes[before as usize];
            if let (Some(_), Some(saved)) = (&before.output, &before.saved) {
                state.apply(saved);
            }
        }
        state
    }
}

impl Outputs for Machine {
    fn output(&self, node: NodeIndex) -> Option<&Encoded> {
        self.nodes.get(node as usize)?.output.as_ref()
    }

    fn failure(&self, node: NodeIndex) -> Option<&Failure> {
        self.nodes.get(node as usize)?.failure.as_deref()
    }

    fn revised(&self, by: NodeIndex) -> Option<Arc<RevisedInput>> {
        self.nodes.get(by as usize)?.revised.clone()
    }
}
