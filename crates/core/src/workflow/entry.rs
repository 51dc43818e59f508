//! The edges that lead to a node: their conditions, and how many of them must be taken before the
//! node starts. The machine evaluates them in a run.

use agentflow_schema::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};

use super::condition::BoundCondition;
use super::outputs::NodeIndex;

/// An edge that leads to a node.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Source node.
    pub(crate) from: NodeIndex,
    /// Condition under which the edge is taken.
    pub(crate) when: When,
}

impl Entry {
    pub(crate) const fn of_arm(router: NodeIndex, arm: u32) -> Self {
        Self { from: router, when: When::Arm(arm) }
    }
}

/// The condition of an edge, evaluated when its source node has ended.
#[derive(Clone, Debug)]
pub(crate) enum When {
    /// The source node has an output.
    Done,
    /// The source node failed. A node with such an edge does not fail the run.
    Failed,
    /// The source node is a router that chose this arm.
    Arm(u32),
    /// The source node has an output, and the condition holds.
    Holds(BoundCondition),
}

/// Number of edges to a node that must be taken before it starts. A node is skipped when this
/// number can no longer be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Begins {
    /// All edges. The default.
    #[default]
    All,
    /// A single edge. The node starts as soon as the first is taken.
    Any,
    /// This number of edges. The node starts as soon as they are taken.
    Join(u32),
    /// At least this number of edges. The node starts when the state of all edges is known.
    Barrier(u32),
}

impl Begins {
    /// Returns the number of edges that must be taken, out of `edges`.
    pub(crate) fn needed(self, edges: usize) -> usize {
        match self {
            Self::All => edges,
            Self::Any => 1,
            Self::Join(count) | Self::Barrier(count) => count as usize,
        }
    }

    /// Returns `true` if the node waits until the state of each edge is known.
    pub(crate) fn waits_for_all(self) -> bool {
        matches!(self, Self::All | Self::Barrier(_))
    }

    /// Returns `true` for the default, which is not serialized.
    pub(crate) fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// The state of an edge in a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edge {
    /// The source node has not ended.
    Open,
    Taken,
    /// The source node has ended, and the condition does not hold.
    NotTaken,
    /// The source node has no output and will not get one.
    Dead,
    /// The condition cannot be evaluated.
    Broken(Diagnostic),
}
