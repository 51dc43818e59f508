//! What is wrong with the nodes of a workflow, whoever made them: a builder, or a graph that is data. One list of all checks,
//! so that neither has one which the other lacks. It changes no node.

use super::gate::problems_of_questions;
use super::names::problems_of_places;
use super::saved_twice::problems_of_keys;
use super::spec::{NodeIndex, NodeSpec};
use super::taken_arms::{arm_sets, problems_of_arms};
use super::taps::problems_of_taps;

/// What is wrong with nodes by themselves.
pub(super) fn problems_of_nodes(nodes: &[NodeSpec]) -> Vec<String> {
    [problems_of_places(nodes), problems_of_questions(nodes), problems_of_taps(nodes)].concat()
}

/// What is wrong with nodes together, whose reads and edges all lead to nodes; `output` is the one whose output the workflow has.
pub(super) fn problems_of_plan(nodes: &[NodeSpec], output: NodeIndex) -> Vec<String> {
    let sets = arm_sets(nodes);
    [problems_of_arms(nodes, output, &sets), problems_of_keys(nodes, &sets)].concat()
}
