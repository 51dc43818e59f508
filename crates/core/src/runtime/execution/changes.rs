//! Effects of a changed workflow definition on a run: nodes whose records are invalidated, those
//! among them that may have had side effects, and the changes that a runtime accepts.

use std::collections::HashSet;
use std::sync::Arc;

use crate::definition::{Changes, Difference, Known};
use crate::error::{Error, Result};
use crate::event::{Event, EventKind};
use crate::path::StepPath;
use crate::run::{InvalidatedRecords, outermost};
use crate::runtime::Runtime;
use crate::tool::Effects;
use crate::workflow::{Graph, GraphNode};

/// Returns the differences to the definition with which a run started. Empty if that definition
/// was not recorded.
pub(crate) async fn differences(
    runtime: &Runtime,
    began: Option<Arc<str>>,
    now: &Known,
) -> Result<Vec<Difference>> {
    match began {
        Some(began) => Ok(runtime.host().differences(&began, now).await?),
        None => Ok(Vec::new()),
    }
}

/// Checks that a run may be resumed despite these differences.
///
/// # Errors
/// [`Error::PartsChanged`] with the differences that are not accepted.
pub(crate) fn accept(
    changes: Changes,
    what: &'static str,
    name: &Arc<str>,
    differences: Vec<Difference>,
) -> Result<()> {
    let refused = changes.refused(name, differences);
    match refused.is_empty() {
        true => Ok(()),
        false => Err(Error::PartsChanged { what, name: Arc::clone(name), differences: refused }),
    }
}

pub(crate) fn all_names(graph: &Graph) -> Vec<String> {
    graph.nodes.iter().map(|node| node.name.clone()).collect()
}

/// Returns the nodes of `new` that differ in `old`, or that depend on such a node. An edge that
/// only preserves the order of writes is not a dependency.
pub(crate) fn changed_nodes(old: &Graph, new: &Graph) -> Vec<String> {
    let mut changed = HashSet::new();
    let mut names = Vec::new();
    for node in &new.nodes {
        let is_same = |name: &str| old.has_same_shape(new, name);
        // A decision is valid only for the node that it was made for.
        let same = is_same(&node.name) && node.decides.as_deref().is_none_or(is_same);
        let guards = node.guard.iter().map(|guard| &guard.router).chain(&node.unless);
        let order =
            node.order.iter().filter(|edge| edge.reason.holds_back()).map(|edge| &edge.node);
        // A decider also receives the outputs of the preceding nodes.
        let shown = node.edges.iter().filter(|_| node.decides.is_some()).map(|edge| &edge.from);
        let mut before =
            node.reads.iter().chain(&node.after).chain(guards).chain(order).chain(shown);
        if !same || before.any(|before| changed.contains(before)) {
            changed.insert(node.name.clone());
            names.push(node.name.clone());
        }
    }
    names
}

/// Returns the steps within these nodes that were started and may have had side effects.
pub(crate) fn written(graph: Option<&Graph>, events: &[Event], nodes: &[String]) -> Vec<String> {
    let nodes: Vec<StepPath> = nodes.iter().map(|node| StepPath::root().child(node)).collect();
    let void = InvalidatedRecords::from_kinds(events.iter().map(|event| &event.kind));
    let writes = |event: &Event| match &event.kind {
        EventKind::NodeStarted { repeatable, .. } => {
            !repeatable || graph.is_some_and(|graph| writes_at(graph, &event.path.to_string()))
        }
        EventKind::ToolStarted { effects, .. } => *effects == Effects::Write,
        _ => false,
    };
    let counts = |(at, event): &(usize, &Event)| {
        nodes.iter().any(|node| event.path.belongs_to(node))
            && writes(event)
            && !void.covers(*at, &event.path)
    };
    outermost(
        &events.iter().enumerate().filter(counts).map(|(_, event)| event.path.clone()).collect(),
    )
}

/// `true` if the step at a path is declared to have side effects. For a node with several steps the
/// steps count, not the node. For an agent, its recorded tool calls count.
fn writes_at(graph: &Graph, path: &str) -> bool {
    let below = |node: &GraphNode| {
        path.strip_prefix(node.name.as_str())
            .filter(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
    };
    let found = graph.nodes.iter().filter_map(|node| Some((node, below(node)?)));
    let Some((node, rest)) = found.max_by_key(|(node, _)| node.name.len()) else { return false };
    // Items and further attempts have the properties of their node.
    let rest = match rest.strip_prefix('[') {
        Some(item) => item.split_once(']').map_or("", |(_, rest)| rest),
        None => rest,
    };
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let rest = match rest.strip_prefix("attempt#") {
        Some(attempt) => attempt.split_once('/').map_or("", |(_, rest)| rest),
        None => rest,
    };
    let (branch, in_branch) = rest.split_once('/').unwrap_or((rest, ""));
    match (&node.body, node.branch_bodies.get(branch)) {
        (Some(_), _) if rest.is_empty() => false,
        (Some(body), _) => writes_at(body, rest),
        (None, Some(_)) if in_branch.is_empty() => false,
        (None, Some(body)) => writes_at(body, in_branch),
        (None, None) => {
            node.writes && node.callee.as_deref() != Some("agent") && node.branch_bodies.is_empty()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_decision_holds_for_what_was_shown() {
        let graph = |code: &str, decides: Option<&str>| {
            let nodes = json!([
                {"name": "a", "kind": "step", "code": code},
                {"name": "c.decision", "kind": "step", "edges": [{"from": "a"}], "decides": decides},
                {"name": "c", "kind": "step", "edges": [{"from": "a"}], "after": ["c.decision"]},
            ]);
            let graph = json!({"version": 1, "name": "it", "output": "c", "concurrency": 1, "nodes": nodes});
            serde_json::from_value::<Graph>(graph).unwrap()
        };
        let changed = |decides| changed_nodes(&graph("1", decides), &graph("2", decides));
        assert_eq!(changed(Some("c")), ["a", "c.decision", "c"]);
        // A node that does not receive the changed output starts after it and is unchanged.
        assert_eq!(changed(None), ["a"]);
    }
}
