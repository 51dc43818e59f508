//! When a node begins: the edges that lead to it, under which condition each is taken, and how many of them must be.
//!
//! It is data. What becomes of an edge in a run is the machine's to say.

use serde::{Deserialize, Serialize};

use super::condition::BoundCondition;
use super::outputs::NodeIndex;

/// An edge that leads to a node.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Where it comes from.
    pub(crate) from: NodeIndex,
    /// Under which condition it is taken.
    pub(crate) when: When,
}

impl Entry {
    pub(crate) const fn of_arm(router: NodeIndex, arm: u32) -> Self {
        Self { from: router, when: When::Arm(arm) }
    }
}

/// Under which condition an edge is taken, once the node that it comes from has ended.
#[derive(Clone, Debug)]
pub(crate) enum When {
    /// The node has its output.
    Done,
    /// The node has failed. A node that such an edge leaves does not fail the run.
    Failed,
    /// The node is a router that has taken this arm.
    Arm(u32),
    /// The node has its output, and this holds.
    Holds(BoundCondition),
}

/// How many of the edges that lead to a node must be taken before it begins. A node whose edges can no longer bring it
/// there is skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Begins {
    /// All of them. The default.
    #[default]
    All,
    /// One of them: it begins at the first, whatever becomes of the others.
    Any,
    /// So many of them: it begins at that one, whatever becomes of the others.
    Join(u32),
    /// It waits until it is known of each, and begins when at least so many were taken.
    Barrier(u32),
}

impl Begins {
    /// How many of so many edges are needed.
    pub(crate) fn needed(self, edges: usize) -> usize {
        match self {
            Self::All => edges,
            Self::Any => 1,
            Self::Join(count) | Self::Barrier(count) => count as usize,
        }
    }

    /// Whether it is known of each edge before the node begins.
    pub(crate) fn waits_for_all(self) -> bool {
        matches!(self, Self::All | Self::Barrier(_))
    }

    /// Whether it is the default, which is not written.
    pub(crate) fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// What has become of an edge.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edge {
    /// The node that it comes from has not ended.
    Open,
    Taken,
    /// The node has ended, and the condition does not hold.
    NotTaken,
    /// The node has no output and will have none.
    Dead,
    /// Whether the condition holds cannot be said, and why.
    Broken(String),
}
