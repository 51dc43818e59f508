//! `Outputs`: what the nodes of a run have given so far, by their places. It is read by all that makes values of it.

use crate::error::Failure;
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
}
