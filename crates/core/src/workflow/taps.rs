//! Checks nodes that only observe (`tap`): they must be steps, and must not save to the state.

use super::callee;
use super::spec::{NodeKind, PlanNode};

/// Reports the problems of nodes that only observe.
pub(super) fn problems_of_taps(nodes: &[PlanNode]) -> Vec<String> {
    nodes.iter().filter(|node| node.policy.tap).filter_map(problem_of).collect()
}

fn problem_of(node: &PlanNode) -> Option<String> {
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
        return Some(format!(
            "`{path}` is a tap, and it is not a step: a value, a choice or a question saves nothing in any case; remove `tap`"
        ));
    }
    if !node.saves.is_empty() || is_transform(node) {
        return Some(format!(
            "`{path}` is a tap, and it changes the state itself; remove `tap`, or what it saves"
        ));
    }
    let key = callee::saved_keys(node).into_iter().next()?;
    Some(format!(
        "`{path}` is a tap, and a step in it saves `{key}` to the state; remove `tap`, or what the step saves, such as the \
         `output_key` of an agent"
    ))
}

fn is_transform(node: &PlanNode) -> bool {
    node.does.as_ref().is_some_and(|does| !does.transforms().is_empty())
}
