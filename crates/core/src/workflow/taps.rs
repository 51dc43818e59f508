//! Checks nodes that only observe (`tap`): they must be steps, and must not save to the state.

use super::callee;
use super::graph_codes;
use super::spec::{NodeKind, PlanNode};
use agentflow_schema::diagnostic::Diagnostic;

/// Reports the problems of nodes that only observe.
pub(super) fn problems_of_taps(nodes: &[PlanNode]) -> Vec<Diagnostic> {
    nodes.iter().filter(|node| node.policy.tap).filter_map(problem_of).collect()
}

fn problem_of(node: &PlanNode) -> Option<Diagnostic> {
    let path = &node.path;
    if matches!(
        node.kind,
        NodeKind::Input
            | NodeKind::Value
            | NodeKind::Join
            | NodeKind::Router
            | NodeKind::Gate
            | NodeKind::Check
    ) {
        return Some(Diagnostic::new(graph_codes::TAP_IS_NO_STEP).name("node", path));
    }
    if !node.saves.is_empty() || is_transform(node) {
        return Some(Diagnostic::new(graph_codes::TAP_CHANGES_STATE).name("node", path));
    }
    let key = callee::saved_keys(node).into_iter().next()?;
    Some(Diagnostic::new(graph_codes::TAP_SAVES).name("node", path).name("key", key))
}

fn is_transform(node: &PlanNode) -> bool {
    node.does.as_ref().is_some_and(|does| !does.transforms().is_empty())
}
