//! `Outputs`: access to the outputs that the nodes of a run have so far, by node index.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Failure;
use crate::state::SavedByStep;
use crate::value::Encoded;

/// Index of a node in its plan.
pub(crate) type NodeIndex = u32;

/// Outputs of nodes, by index.
pub(crate) trait Outputs {
    fn output(&self, node: NodeIndex) -> Option<&Encoded>;

    /// Returns the failure of a node, if an edge is taken when the node fails.
    fn failure(&self, _: NodeIndex) -> Option<&Failure> {
        None
    }

    /// Returns the arguments that a decider has set for the call, if any. They replace the computed
    /// arguments.
    fn given(&self) -> Option<&Encoded> {
        None
    }

    /// Returns the changes made by the deciding node with this index, if they were decoded before.
    fn revised(&self, _by: NodeIndex) -> Option<Arc<RevisedInput>> {
        None
    }

    /// Returns the state that values computed from these outputs can read, if any.
    fn state(&self) -> Option<&SavedByStep> {
        None
    }
}

/// Changes that a decider makes to the input of a node.
#[derive(Debug, Default)]
pub(crate) struct RevisedInput {
    /// Outputs that replace the outputs of other nodes for this node.
    pub(crate) values: BTreeMap<NodeIndex, Encoded>,
    /// Arguments that replace the arguments of its call.
    pub(crate) given: Option<Encoded>,
}

/// Outputs of nodes, with the state at the position of a step.
pub(crate) struct OutputsWithState<'o> {
    pub(crate) outputs: &'o dyn Outputs,
    pub(crate) state: SavedByStep,
}

impl Outputs for OutputsWithState<'_> {
    fn output(&self, node: NodeIndex) -> Option<&Encoded> {
        self.outputs.output(node)
    }

    fn failure(&self, node: NodeIndex) -> Option<&Failure> {
        self.outputs.failure(node)
    }

    fn revised(&self, by: NodeIndex) -> Option<Arc<RevisedInput>> {
        self.outputs.revised(by)
    }

    fn state(&self) -> Option<&SavedByStep> {
        Some(&self.state)
    }
}

/// Copies of outputs and failures by node index, usable without their run.
#[derive(Default)]
pub(crate) struct CopiedOutputs {
    pub(crate) outputs: BTreeMap<NodeIndex, Encoded>,
    pub(crate) failures: BTreeMap<NodeIndex, Failure>,
}

impl Outputs for CopiedOutputs {
    fn output(&self, node: NodeIndex) -> Option<&Encoded> {
        self.outputs.get(&node)
    }

    fn failure(&self, node: NodeIndex) -> Option<&Failure> {
        self.failures.get(&node)
    }
}
