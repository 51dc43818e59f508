//! `Outputs`: what the nodes of a run have given so far, by their places. It is read by all that makes values of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Failure;
use crate::state::SavedByStep;
use crate::value::Encoded;

/// The place of a node in its workflow.
pub(crate) type NodeIndex = u32;

/// The outputs of nodes, by their place.
pub(crate) trait Outputs {
    fn output(&self, node: NodeIndex) -> Option<&Encoded>;

    /// The failure of a node that an edge leaves which is taken when it fails.
    fn failure(&self, _: NodeIndex) -> Option<&Failure> {
        None
    }

    /// What a call is given in place of what is made for it; `None` unless that was decided.
    fn given(&self) -> Option<&Encoded> {
        None
    }

    /// What a step that decides on another one gives that one to see, where it was read before; `None` where it was not.
    fn revised(&self, _by: NodeIndex) -> Option<Arc<Revised>> {
        None
    }

    /// The state that what is made of the outputs sees; `None` where it sees none.
    fn state(&self) -> Option<&SavedByStep> {
        None
    }
}

/// What a node is given by a decision, in place of what it would see.
#[derive(Debug, Default)]
pub(crate) struct Revised {
    /// The outputs that it sees in place of those of nodes.
    pub(crate) values: BTreeMap<NodeIndex, Encoded>,
    /// What its call is given.
    pub(crate) given: Option<Encoded>,
}

/// The outputs of nodes, with the state that is seen at a place.
pub(crate) struct WithState<'o> {
    pub(crate) outputs: &'o dyn Outputs,
    pub(crate) state: SavedByStep,
}

impl Outputs for WithState<'_> {
    fn output(&self, node: NodeIndex) -> Option<&Encoded> {
        self.outputs.output(node)
    }

    fn failure(&self, node: NodeIndex) -> Option<&Failure> {
        self.outputs.failure(node)
    }

    fn revised(&self, by: NodeIndex) -> Option<Arc<Revised>> {
        self.outputs.revised(by)
    }

    fn state(&self) -> Option<&SavedByStep> {
        Some(&self.state)
    }
}

/// Outputs and failures apart from their run, by the places of their nodes.
#[derive(Default)]
pub(crate) struct GivenOutputs {
    pub(crate) outputs: BTreeMap<NodeIndex, Encoded>,
    pub(crate) failures: BTreeMap<NodeIndex, Failure>,
}

impl Outputs for GivenOutputs {
    fn output(&self, node: NodeIndex) -> Option<&Encoded> {
        self.outputs.get(&node)
    }

    fn failure(&self, node: NodeIndex) -> Option<&Failure> {
        self.failures.get(&node)
    }
}
