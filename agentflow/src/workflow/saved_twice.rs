//! Whether two nodes that may run at the same time save one key of the state: the later one in the definition would count,
//! whichever ended last, and nobody wrote that this is meant.
//!
//! It knows the keys that agents declare with `output_key`, and those that nodes of data save or change. What a tool sets
//! through its context is not known before it runs, nor what is saved field by field.

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
            if node.kind == NodeKind::Map && !node.saves.contains_key(&*key) {
                problems.push(format!(
                    "the items of `{}` run at the same time, and each of them saves `{key}` in the state; return the answers and \
                     save their list, or let one item follow the other, in a `for` loop",
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
            let wait = match nodes[second as usize].does {
                Some(_) => "let an edge lead from the first to the second",
                None => "let the second wait for the first, by `#[after(..)]`",
            };
            let [first, second] = [first, second].map(|node| &nodes[node as usize].path);
            problems.push(format!(
                "`{first}` and `{second}` may run at the same time, and each of them saves `{key}` in the state; {wait}, or \
                 give one of them a key of its own"
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
