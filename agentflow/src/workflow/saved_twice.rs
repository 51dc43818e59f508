//! Whether two nodes that may run at the same time save their answers under one key of the state: the later one in the
//! definition would count, whichever ended last, and nobody wrote that this is meant.
//!
//! It knows the keys that agents declare with `output_key`. What a tool sets through its context is not known before it
//! runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::callee;
use super::outputs::NodeIndex;
use super::spec::{NodeKind, NodeSpec};
use super::taken_arms::may_both_begin;

/// The keys that are saved twice at the same time. The nodes have no other problem.
pub(super) fn problems_of_keys(nodes: &[NodeSpec]) -> Vec<String> {
    let mut of_key: BTreeMap<Arc<str>, Vec<NodeIndex>> = BTreeMap::new();
    let mut problems = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        for key in callee::saved_keys(node) {
            if node.kind == NodeKind::Map {
                problems.push(format!(
                    "the items of `{}` run at the same time, and an agent in each of them saves its answer under `{key}`; \
                     return the answers and save their list, or call the agent in a `for` loop",
                    node.path
                ));
            }
            of_key.entry(key).or_default().push(NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX));
        }
    }
    for (key, savers) in of_key {
        let pairs =
            savers.iter().enumerate().flat_map(|(at, second)| savers[..at].iter().map(move |first| (*first, *second)));
        let beside = |(first, second): &(NodeIndex, NodeIndex)| {
            !waits_for(nodes, *second, *first) && may_both_begin(nodes, *first, *second)
        };
        if let Some((first, second)) = pairs.into_iter().find(beside) {
            let [first, second] = [first, second].map(|node| &nodes[node as usize].path);
            problems.push(format!(
                "`{first}` and `{second}` may run at the same time, and an agent in each of them saves its answer under \
                 `{key}`; write `#[after({first})]` before `{second}`, or give one of the agents a key of its own"
            ));
        }
    }
    problems
}

/// Whether a node begins only when another, which stands before it, is over.
fn waits_for(nodes: &[NodeSpec], node: NodeIndex, other: NodeIndex) -> bool {
    let (mut open, mut seen) = (vec![node], vec![false; nodes.len()]);
    while let Some(at) = open.pop() {
        if at == other {
            return true;
        }
        if at < other || std::mem::replace(&mut seen[at as usize], true) {
            continue;
        }
        let node = &nodes[at as usize];
        open.extend(&node.reads);
        open.extend(node.after.iter().map(|after| after.node));
        open.extend(node.entries.iter().map(|entry| entry.from));
    }
    false
}
