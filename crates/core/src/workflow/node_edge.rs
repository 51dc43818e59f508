//! `NodeEdge`: an edge that leads to a node of a typed workflow. It is the edge of a graph; the builder binds it.

use super::builder::Router;
use super::condition::Condition;
use super::node_handle::{Handle, RawHandle};

/// An edge that leads to a node, for [`Node::edge`](super::Node::edge): what must become of another node before this one
/// begins. How many of its edges must be taken says [`Node::begins`](super::Node::begins).
#[derive(Clone, Debug)]
#[must_use]
pub struct NodeEdge {
    pub(super) from: RawHandle,
    pub(super) when: EdgeWhen,
}

/// When it is taken.
#[derive(Clone, Debug)]
pub(super) enum EdgeWhen {
    Done,
    Failed,
    Arm(usize),
    Holds(Condition),
}

impl NodeEdge {
    /// Taken when the node has its output.
    pub fn from<T>(node: Handle<T>) -> Self {
        Self { from: node.raw(), when: EdgeWhen::Done }
    }

    /// Taken when the node has failed. The run does not fail of that node then.
    pub fn failed<T>(node: Handle<T>) -> Self {
        Self { from: node.raw(), when: EdgeWhen::Failed }
    }

    /// Taken when the node has its output and a condition holds, which looks at outputs of nodes by their names.
    pub fn when<T>(node: Handle<T>, condition: Condition) -> Self {
        Self { from: node.raw(), when: EdgeWhen::Holds(condition) }
    }

    /// Taken when a router takes the arm at this place.
    pub fn arm(router: Router, arm: usize) -> Self {
        Self { from: router.raw(), when: EdgeWhen::Arm(arm) }
    }
}
