//! Whether two nodes that may run at the same time save one key of the state: the later one in the definition would count,
//! whichever ended last, and nobody wrote that this is meant. Nodes of which at most one begins, since one router never takes
//! the arms of both, may save one key: a reader sees that of the one that ran.
//!
//! It knows the keys that agents declare with `output_key`, and those that nodes of data save or change. What a tool sets
//! through its context is not known before it runs, nor what is saved field by field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::callee;
use super::outputs::NodeIndex;
use super::spec::{NodeKind, NodeSpec};
use super::taken_arms::ExclusiveArms;

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
    // Most savers of one key follow each other: then nothing else is asked.
    of_key.retain(|_, savers| savers.windows(2).any(|pair| !waits_for(nodes, pair[1], pair[0])));
    let waits = Waits::of(nodes, of_key.values().flatten());
    let mut arms = ExclusiveArms::new(nodes);
    for (key, savers) in of_key {
        let pairs = savers
            .iter()
            .enumerate()
            .flat_map(|(at, first)| savers[at + 1..].iter().map(move |second| (*first, *second)));
        let beside = |(first, second): &(NodeIndex, NodeIndex)| {
            !waits.waits_for(*second, *first) && !arms.exclude(*first, *second)
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
    // All that a node waits for stands above it.
    let between = node.saturating_sub(other) as usize;
    let (mut open, mut seen) = (vec![node], vec![false; between + 1]);
    while let Some(at) = open.pop() {
        if at == other {
            return true;
        }
        if at < other || std::mem::replace(&mut seen[(at - other) as usize], true) {
            continue;
        }
        open.extend(before(&nodes[at as usize]));
    }
    false
}

/// What a node waits for. Of edges of which some are enough, it is known of none by itself.
fn before(node: &NodeSpec) -> impl Iterator<Item = NodeIndex> + '_ {
    let after = node.after.iter().map(|after| after.node);
    let entries = node.entries.iter().filter(|_| needs_all(node)).map(|entry| entry.from);
    node.reads.iter().copied().chain(after).chain(entries)
}

/// Whether a node begins only when all its edges are taken.
fn needs_all(node: &NodeSpec) -> bool {
    node.begins.waits_for_all() || node.begins.needed(node.entries.len()) >= node.entries.len()
}

/// Which nodes begin only when others are over, of those that save a key which another one saves.
struct Waits {
    /// The numbers of the savers.
    number: BTreeMap<NodeIndex, usize>,
    /// Of each node, the savers before it: a bit each.
    before: Vec<Vec<u64>>,
}

impl Waits {
    fn of<'s>(nodes: &[NodeSpec], savers: impl Iterator<Item = &'s NodeIndex>) -> Self {
        let savers: BTreeSet<NodeIndex> = savers.copied().collect();
        let number: BTreeMap<NodeIndex, usize> = savers.into_iter().enumerate().map(|(at, node)| (node, at)).collect();
        let words = number.len().div_ceil(64);
        let mut all: Vec<Vec<u64>> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut own = vec![0; words];
            let add = |own: &mut Vec<u64>, above: NodeIndex| {
                let Some(of) = all.get(above as usize) else { return };
                own.iter_mut().zip(of).for_each(|(own, of)| *own |= of);
                if let Some(number) = number.get(&above) {
                    own[number / 64] |= 1 << (number % 64);
                }
            };
            before(node).for_each(|above| add(&mut own, above));
            if !needs_all(node) {
                // Whichever of its edges is taken, what stands before each of them is over.
                let by_edge = node.entries.iter().map(|entry| {
                    let mut behind = vec![0; words];
                    add(&mut behind, entry.from);
                    behind
                });
                let both = |one: Vec<u64>, other: Vec<u64>| one.iter().zip(&other).map(|(a, b)| a & b).collect();
                let in_all: Vec<u64> = by_edge.reduce(both).unwrap_or_default();
                own.iter_mut().zip(&in_all).for_each(|(own, of)| *own |= of);
            }
            all.push(own);
        }
        Self { number, before: all }
    }

    /// Whether a node begins only when another, which stands before it, is over.
    fn waits_for(&self, node: NodeIndex, other: NodeIndex) -> bool {
        self.number.get(&other).is_some_and(|at| self.before[node as usize][at / 64] & (1 << (at % 64)) != 0)
    }
}
