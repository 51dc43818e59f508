//! All checks of a workflow's nodes. The builder and graphs that are data share this list, so that
//! both make the same checks.

use super::gate::problems_of_questions;
use super::names::problems_of_places;
use super::saved_twice::problems_of_keys;
use super::spec::{NodeIndex, NodeSpec};
use super::taken_arms::{arm_sets, problems_of_arms};
use super::taps::problems_of_taps;

/// Checks each node on its own.
pub(super) fn problems_of_nodes(nodes: &[NodeSpec]) -> Vec<String> {
    [problems_of_places(nodes), problems_of_questions(nodes), problems_of_taps(nodes)].concat()
}

/// Checks the nodes together. Reads and edges must lead to existing nodes. `output` is the node
/// that provides the workflow's output.
pub(super) fn problems_of_plan(nodes: &[NodeSpec], output: NodeIndex) -> Vec<String> {
    let sets = arm_sets(nodes);
    [problems_of_arms(nodes, output, &sets), problems_of_keys(nodes, &sets)].concat()
}
