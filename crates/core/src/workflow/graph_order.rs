//! The order in which the nodes of a graph can begin, and its cycles. It looks at names alone, and at each edge a fixed number
//! of times.

use std::collections::HashMap;

use super::graph::{Graph, GraphNode};
use super::mapping::IsNode;

#[cfg(feature = "documents")]
impl Graph {
    /// Nodes of one name.
    pub(crate) fn problems_of_names(&self) -> Vec<String> {
        let mut problems = Vec::new();
        places(self, &mut problems);
        problems
    }

    /// Nodes of one name, and cycles: what is wrong whatever else its nodes say.
    pub(crate) fn problems_of_order(&self) -> Vec<String> {
        let mut problems = Vec::new();
        ordered(self, &mut problems);
        problems
    }
}

/// The nodes, each after all that it depends on and else as they are written.
pub(super) fn ordered<'g>(graph: &'g Graph, problems: &mut Vec<String>) -> Vec<&'g GraphNode> {
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
        // What only follows a cycle is left out.
        let is_in_cycle = in_cycles(graph.nodes.len(), &ways);
        let cycle = waiting.iter().filter(|at| is_in_cycle[**at]);
        let names: Vec<String> = cycle.map(|at| format!("`{}`", graph.nodes[*at].name)).collect();
        problems.push(format!(
            "these nodes wait for each other: {}; a workflow has no cycle, and what is repeated is a node with `repeat`",
            names.join(", ")
        ));
        order.extend(waiting.into_iter().map(|at| &graph.nodes[at]));
    }
    order
}

/// The nodes by their names; of several of one name, the first.
fn places<'g>(graph: &'g Graph, problems: &mut Vec<String>) -> HashMap<&'g str, usize> {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        if by_name.contains_key(node.name.as_str()) {
            problems.push(format!("two nodes are named `{}`; rename one", node.name));
        }
        by_name.entry(&node.name).or_insert(at);
    }
    by_name
}

/// Of each node, the first round in which it can be placed, where each round places what waits for nothing that is not
/// placed, as the nodes are written; and the nodes that wait for ever.
fn rounds(count: usize, ways: &[(usize, usize)]) -> (Vec<(usize, usize)>, Vec<usize>) {
    let (mut round, mut left) = (vec![0; count], vec![0_usize; count]);
    ways.iter().for_each(|(_, to)| left[*to] += 1);
    let behind = neighbours(count, ways.iter().copied());
    let mut open: Vec<usize> = (0..count).filter(|node| left[*node] == 0).collect();
    let mut placed = Vec::with_capacity(count);
    while let Some(node) = open.pop() {
        placed.push((round[node], node));
        for to in &behind[node] {
            round[*to] = round[*to].max(round[node] + usize::from(*to < node));
            left[*to] -= 1;
            if left[*to] == 0 {
                open.push(*to);
            }
        }
    }
    (placed, (0..count).filter(|node| left[*node] > 0).collect())
}

/// Of each node, whether it is in a cycle of ways from node to node, or between two.
pub(crate) fn in_cycles(count: usize, ways: &[(usize, usize)]) -> Vec<bool> {
    let mut is_left = vec![true; count];
    // What nothing leads to is in no cycle, and neither is what leads to nothing.
    for is_turned in [false, true] {
        let ways = ways.iter().filter(|(from, to)| is_left[*from] && is_left[*to]);
        let ways = ways.map(|(from, to)| if is_turned { (*to, *from) } else { (*from, *to) });
        let behind = neighbours(count, ways);
        let mut entering = vec![0_usize; count];
        behind.iter().flatten().for_each(|to| entering[*to] += 1);
        let mut open: Vec<usize> = (0..count).filter(|node| is_left[*node] && entering[*node] == 0).collect();
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

/// Of each node, those that ways lead to.
fn neighbours(count: usize, ways: impl Iterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut behind = vec![Vec::new(); count];
    ways.for_each(|(from, to)| behind[from].push(to));
    behind
}

impl GraphNode {
    /// The names of all nodes that matter for when it begins, and what it reads.
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
