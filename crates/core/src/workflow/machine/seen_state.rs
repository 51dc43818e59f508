//! What is seen of a machine: the outputs of nodes, and the state that the condition of an edge sees, which is what the nodes
//! before it have recorded. A value that is in memory alone is not part of it, so whether an edge is taken is the same after a
//! crash.

use std::sync::Arc;

use super::Machine;
use crate::error::Failure;
use crate::state::SavedByStep;
use crate::value::Encoded;
use crate::workflow::outputs::Revised;
use crate::workflow::spec::{NodeIndex, Outputs};

impl Machine {
    /// The state that is there when the workflow begins.
    pub(crate) fn begins_with(&mut self, state: Option<Arc<SavedByStep>>) {
        self.began_with = state;
    }

    /// The state where a node has ended: that of the beginning, what the nodes before it saved, and what it saved.
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

    fn revised(&self, by: NodeIndex) -> Option<Arc<Revised>> {
        self.nodes.get(by as usize)?.revised.clone()
    }
}
