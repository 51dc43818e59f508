//! All checks of a workflow's nodes. The builder and graphs that are data share this list, so that
//! both make the same checks.

use super::gate::check_questions;
use super::names::check_path_overlaps;
use super::saved_twice::check_save_conflicts;
use super::spec::{NodeIndex, PlanNode};
use super::taken_arms::{arm_sets, check_reachability};
use super::taps::problems_of_taps;
use agentflow_schema::diagnostic::Diagnostic;

/// Checks each node on its own.
pub(super) fn problems_of_nodes(nodes: &[PlanNode]) -> Vec<Diagnostic> {
    [check_path_overlaps(nodes), check_questions(nodes), problems_of_taps(nodes)].concat()
}

/// Checks the nodes together. Reads and edges must lead to existing nodes. `output` is the node
/// that provides the workflow's output.
pub(super) fn problems_of_plan(nodes: &[PlanNode], output: NodeIndex) -> Vec<Diagnostic> {
    let sets = arm_sets(nodes);
    [check_reachability(nodes, output, &sets), check_save_conflicts(nodes, &sets)].concat()
}
