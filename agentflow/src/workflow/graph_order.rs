//! The order in which the nodes of a graph can begin, and its cycles. It looks at names alone.

use std::collections::{HashMap, HashSet};

use super::graph::{Graph, GraphNode};
use super::mapping::IsNode;

/// The nodes, each after all that it depends on and else as they are written.
pub(super) fn ordered<'g>(graph: &'g Graph, problems: &mut Vec<String>) -> Vec<&'g GraphNode> {
    let mut by_name: HashMap<&str, &GraphNode> = HashMap::new();
    for node in &graph.nodes {
        if by_name.insert(&node.name, node).is_some() {
            problems.push(format!("two nodes are named `{}`; rename one", node.name));
        }
    }
    let mut done: HashSet<&str> = HashSet::new();
    let mut order = Vec::new();
    let mut left: Vec<&GraphNode> = graph.nodes.iter().collect();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|node| {
            let waits = |name: &&str| by_name.contains_key(name) && !done.contains(name) && **name != *node.name;
            if node.all_before(&|name| by_name.contains_key(name)).iter().any(waits) {
                return true;
            }
            done.insert(&node.name);
            order.push(*node);
            false
        });
        if left.len() == before {
            // What only follows a cycle is left out.
            let mut cycle = left.clone();
            while let Some(at) = cycle.iter().position(|node| {
                !cycle.iter().any(|other| {
                    other.name != node.name
                        && other.all_before(&|name| by_name.contains_key(name)).contains(&node.name.as_str())
                })
            }) {
                cycle.remove(at);
            }
            let names: Vec<String> = cycle.iter().map(|node| format!("`{}`", node.name)).collect();
            problems.push(format!(
                "these nodes wait for each other: {}; a workflow has no cycle, and what is repeated is a node with \
                 `repeat`",
                names.join(", ")
            ));
            order.append(&mut left);
        }
    }
    order
}

impl GraphNode {
    /// The names of all nodes that matter for when it begins, and what it reads.
    pub(super) fn all_before<'n>(&'n self, is_node: IsNode<'_>) -> Vec<&'n str> {
        let own = self.does.iter().flat_map(|does| does.reads(is_node)).map(|(read, _)| read);
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
