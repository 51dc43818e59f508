//! Sorts the nodes of a graph by dependency, and finds cycles. Uses names only, and visits each
//! edge a fixed number of times.

use agentflow_schema::diagnostic::Diagnostic;
use std::collections::HashMap;

use super::graph::{Graph, GraphNode};
use super::graph_codes;
use super::mapping::IsNode;

#[cfg(feature = "documents")]
impl Graph {
    /// Reports nodes with the same name.
    pub(crate) fn problems_of_names(&self) -> Vec<Diagnostic> {
        let mut problems = Vec::new();
        places(self, &mut problems);
        problems
    }

    /// Reports nodes with the same name, and cycles. Other mistakes in the nodes do not matter
    /// here.
    pub(crate) fn problems_of_order(&self) -> Vec<Diagnostic> {
        let mut problems = Vec::new();
        ordered(self, &mut problems);
        problems
    }
}

/// Returns the nodes so that each comes after its dependencies, and otherwise as written. Nodes
/// that wait for a cycle come last, and the cycle is reported.
pub(super) fn ordered<'g>(graph: &'g Graph, problems: &mut Vec<Diagnostic>) -> Vec<&'g GraphNode> {
    let by_name = places(graph, problems);
    let mut ways: Vec<(usize, usize)> = Vec::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        let before = node.all_before(&|name| by_name.contains_key(name));
        let mut before: Vec<usize> = before
            .into_iter()
            .filter(|name| *name != node.name)
            .filter_map(|name| by_name.get(name).copied())
            .collect();
        before.sort_unstable();
        before.dedup();
        ways.extend(before.into_iter().map(|before| (before, at)));
    }
    let (mut rounds, waiting) = rounds(graph.nodes.len(), &ways);
    rounds.sort_unstable();
    let mut order: Vec<&GraphNode> = rounds.into_iter().map(|(_, at)| &graph.nodes[at]).collect();
    if !waiting.is_empty() {
        let mut is_waiting = vec![false; graph.nodes.len()];
        waiting.iter().for_each(|at| is_waiting[*at] = true);
        ways.retain(|(from, to)| is_waiting[*from] && is_waiting[*to]);
        // Nodes that only follow a cycle are not part of it.
        let is_in_cycle = in_cycles(graph.nodes.len(), &ways);
        let cycle = waiting.iter().filter(|at| is_in_cycle[**at]);
        let names: Vec<&str> = cycle.map(|at| graph.nodes[*at].name.as_str()).collect();
        let first = names.first().copied().unwrap_or_default();
        let last = names.last().copied().unwrap_or_default();
        problems.push(
            Diagnostic::new(graph_codes::CYCLE)
                .names("nodes", &names)
                .in_node(first)
                .name("last", last),
        );
        order.extend(waiting.into_iter().map(|at| &graph.nodes[at]));
    }
    order
}

/// Maps names to positions. If several nodes have the same name, the first one counts and the
/// others are reported.
fn places<'g>(graph: &'g Graph, problems: &mut Vec<Diagnostic>) -> HashMap<&'g str, usize> {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        if by_name.contains_key(node.name.as_str()) {
            problems.push(Diagnostic::new(graph_codes::DUPLICATE_NODE).name("node", &node.name));
        }
        by_name.entry(&node.name).or_insert(at);
    }
    by_name
}

/// Returns the round of each node that can be placed, and the nodes that wait forever. Each round
/// goes through the nodes as written and places those whose dependencies are placed.
fn rounds(count: usize, ways: &[(usize, usize)]) -> (Vec<(usize, usize)>, Vec<usize>) {
    let (mut round, mut left) = (vec![0; count], vec![0_usize; count]);
    ways.iter().for_each(|(_, to)| left[*to] += 1);
    let behind = neighbours(count, ways.iter().copied());
    let mut open: Vec<usize> = (0..count).filter(|node| left[*node] == 0).collect();
    let mut placed = Vec::with_capacity(count);
    while let Some(node) = open.pop() {
        placed.push((round[node], node));
        for to in &behind[node] {
            // A follower that is written later can still be placed in the same round.
            round[*to] = round[*to].max(round[node] + usize::from(*to < node));
            left[*to] -= 1;
            if left[*to] == 0 {
                open.push(*to);
            }
        }
    }
    (placed, (0..count).filter(|node| left[*node] > 0).collect())
}

/// Returns for each node whether it is part of a cycle, or of a path between two cycles.
pub(crate) fn in_cycles(count: usize, ways: &[(usize, usize)]) -> Vec<bool> {
    let mut is_left = vec![true; count];
    // A node without incoming edges is in no cycle, and neither is a node without outgoing edges.
    // Remove the former in the first pass and the latter in the second.
    for is_turned in [false, true] {
        let ways = ways.iter().filter(|(from, to)| is_left[*from] && is_left[*to]);
        let ways = ways.map(|(from, to)| if is_turned { (*to, *from) } else { (*from, *to) });
        let behind = neighbours(count, ways);
        let mut entering = vec![0_usize; count];
        behind.iter().flatten().for_each(|to| entering[*to] += 1);
        let mut open: Vec<usize> =
            (0..count).filter(|node| is_left[*node] && entering[*node] == 0).collect();
        while let Some(node) = open.pop() {
            is_left[node] = false;
            for to in &behind[node] {
                entering[*to] -= 1;
                if entering[*to] == 0 {
                    open.push(*to);
                }
            }
        }
    }
    is_left
}

/// Returns the followers of each node.
fn neighbours(count: usize, ways: impl Iterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut behind = vec![Vec::new(); count];
    ways.for_each(|(from, to)| behind[from].push(to));
    behind
}

impl GraphNode {
    /// Returns the names of all nodes that it reads or that determine when it begins.
    pub(super) fn all_before<'n>(&'n self, is_node: IsNode<'_>) -> Vec<&'n str> {
        let own = self.reads_by_name(is_node).into_iter().map(|(read, _)| read);
        let edges = self.edges.iter().flat_map(|edge| {
            let reads = edge.when.iter().flat_map(|when| when.reads(is_node)).map(|(read, _)| read);
            std::iter::once(edge.from.as_str()).chain(reads)
        });
        let guard = self.guard.iter().map(|guard| guard.router.as_str());
        let order = self.order.iter().map(|edge| edge.node.as_str());
        let written = self.reads.iter().chain(&self.after).map(String::as_str);
        written.chain(order).chain(guard).chain(edges).chain(own).collect()
    }
}
