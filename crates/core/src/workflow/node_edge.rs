//! `NodeEdge`: an edge that leads to a node of a typed workflow. The builder converts it into an
//! edge of the plan.

use super::builder::Router;
use super::condition::Condition;
use super::node_handle::{Handle, RawHandle};

/// An edge that leads to a node, for [`Node::edge`](super::Node::edge). It is taken if another node
/// ends as required: with its output, with a failure, or with an arm of a router.
/// [`Node::begins`](super::Node::begins) sets the number of edges that must be taken.
#[derive(Clone, Debug)]
#[must_use]
pub struct NodeEdge {
    pub(super) from: RawHandle,
    pub(super) when: EdgeWhen,
}

/// Condition under which an edge is taken.
#[derive(Clone, Debug)]
pub(super) enum EdgeWhen {
    Done,
    Failed,
    Arm(usize),
    Holds(Condition),
}

impl NodeEdge {
    /// Creates an edge that is taken when the node has its output.
    pub fn from<T>(node: Handle<T>) -> Self {
        Self { from: node.raw(), when: EdgeWhen::Done }
    }

    /// Creates an edge that is taken when the node has failed. The failure then does not fail the
    /// run.
    pub fn failed<T>(node: Handle<T>) -> Self {
        Self { from: node.raw(), when: EdgeWhen::Failed }
    }

    /// Creates an edge that is taken when the node has its output and a condition holds. The
    /// condition uses outputs of nodes by name.
    pub fn when<T>(node: Handle<T>, condition: Condition) -> Self {
        Self { from: node.raw(), when: EdgeWhen::Holds(condition) }
    }

    /// Creates an edge that is taken when a router takes the arm with this index.
    pub fn arm(router: Router, arm: usize) -> Self {
        Self { from: router.raw(), when: EdgeWhen::Arm(arm) }
    }
}
