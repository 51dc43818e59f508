//! Reports nodes that may run at the same time and save the same key of the state. The later node
//! in the definition would win even if it ended first, which is hardly intended. Nodes in arms that
//! a router never takes together may save the same key: readers see the value of the node that ran.
//!
//! Keys are known from the `output_key` of agents, and from nodes of data that save or change the
//! state. Keys that a tool sets through its context, and fields that are saved with `*`, are
//! unknown before the run.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::arm_sets::ArmSets;
use super::bit_set::{BitRows, BitSet};
use super::callee;
use super::graph_codes;
use super::outputs::NodeIndex;
use super::spec::{NodeKind, PlanNode};
use super::taken_arms::ExclusiveNodes;

/// Returns a problem for each key that may be saved twice at the same time. Only known callees
/// count. Nodes must read and follow only nodes above them.
pub(super) fn check_save_conflicts(
    nodes: &[PlanNode],
    sets: &BTreeMap<NodeIndex, ArmSets>,
) -> Vec<Diagnostic> {
    let mut of_key: BTreeMap<Arc<str>, Vec<NodeIndex>> = BTreeMap::new();
    let mut problems = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        for key in callee::saved_keys(node) {
            if node.kind == NodeKind::Map && !node.saves.contains_key(&*key) {
                let remedy = match node.does {
                    Some(_) => "map over what saves nothing, and save the list of its answers",
                    None => {
                        "return the answers and save their list, or let one item follow the other, in a `for` loop"
                    }
                };
                let found =
                    Diagnostic::new(graph_codes::ITEMS_SAVE_ONE_KEY).name("node", &node.path);
                problems.push(found.name("key", &key).suggest(Suggestion::advice(remedy)));
            }
            of_key.entry(key).or_default().push(NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX));
        }
    }
    // Most savers of a key follow each other. Drop such keys before the more expensive check.
    of_key.retain(|_, savers| savers.windows(2).any(|pair| !waits_for(nodes, pair[1], pair[0])));
    let mut savers: Vec<NodeIndex> = of_key.values().flatten().copied().collect();
    savers.sort_unstable();
    savers.dedup();
    if savers.is_empty() {
        return problems;
    }
    let waits = earlier_savers(nodes, &savers);
    let mut arms = ExclusiveNodes::new(nodes, &savers, sets);
    for (key, of_key) in of_key {
        let number = |node: &NodeIndex| savers.binary_search(node).ok();
        if let Some((first, second)) =
            first_concurrent_pair(of_key.iter().filter_map(number), &waits, &mut arms)
        {
            let [first, second] = [first, second].map(|saver| &nodes[savers[saver] as usize]);
            let wait = match second.does {
                Some(_) => "let an edge lead from the first to the second",
                None => "let the second wait for the first, by `#[after(..)]`",
            };
            let found = Diagnostic::new(graph_codes::CONCURRENT_SAVE).name("first", &first.path);
            let remedy = format!("{wait}, or give one of them its own key");
            let found = found.name("second", &second.path).name("key", key);
            problems.push(found.suggest(Suggestion::advice(remedy)));
        }
    }
    problems
}

/// Returns the first two savers, by number, that may run at the same time.
fn first_concurrent_pair(
    savers: impl Iterator<Item = usize>,
    waits: &BitRows,
    arms: &mut ExclusiveNodes<'_>,
) -> Option<(usize, usize)> {
    let (mut above, mut first_of_all, mut found) = (BitSet::default(), None, None);
    for second in savers {
        let mut beside = above.clone();
        beside.remove(waits.row(second));
        if !beside.is_empty() {
            arms.retain_compatible(second, &mut beside);
        }
        let pair = beside.iter().next().map(|first| (first, second));
        found = [found, pair].into_iter().flatten().min();
        // No later pair can have an earlier first saver.
        if pair.is_some_and(|(first, _)| Some(first) == first_of_all) {
            break;
        }
        first_of_all.get_or_insert(second);
        above.insert(second);
    }
    found
}

/// Returns true if a node begins only after another node above it has ended.
fn waits_for(nodes: &[PlanNode], node: NodeIndex, other: NodeIndex) -> bool {
    // A node waits only for nodes above it.
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

/// Returns the nodes that a node waits for. If some of its edges are enough, none of them is
/// certain.
fn before(node: &PlanNode) -> impl Iterator<Item = NodeIndex> + '_ {
    let after = node.after.iter().map(|after| after.node);
    let entries = node.entries.iter().filter(|_| needs_all(node)).map(|entry| entry.from);
    node.reads.iter().copied().chain(after).chain(entries)
}

/// Returns true if a node begins only when all its edges are taken.
fn needs_all(node: &PlanNode) -> bool {
    node.begins.waits_for_all() || node.begins.needed(node.entries.len()) >= node.entries.len()
}

/// Returns for each saver the earlier savers that must end before it begins, all by number.
fn earlier_savers(nodes: &[PlanNode], savers: &[NodeIndex]) -> BitRows {
    let (mut all, mut of_savers) =
        (BitRows::new(nodes.len(), savers.len()), BitRows::new(savers.len(), savers.len()));
    let add = |all: &BitRows, own: &mut BitSet, above: NodeIndex| {
        own.add(all.row(above as usize));
        savers.binary_search(&above).into_iter().for_each(|number| own.insert(number));
    };
    for (at, node) in (0..).zip(nodes) {
        let mut own = BitSet::none(savers.len());
        // Nodes below are not waited for.
        before(node).filter(|above| *above < at).for_each(|above| add(&all, &mut own, above));
        if !needs_all(node) {
            // One of the edges is taken, so the node certainly waits for the nodes that come before
            // each of them.
            let by_edge = node.entries.iter().map(|entry| {
                let mut behind = BitSet::none(savers.len());
                if entry.from < at {
                    add(&all, &mut behind, entry.from);
                }
                behind
            });
            let both = |mut one: BitSet, other: BitSet| {
                one.keep(other.words());
                one
            };
            own.add(by_edge.reduce(both).unwrap_or_default().words());
        }
        all.push(own.words());
        if savers.binary_search(&at).is_ok() {
            of_savers.push(own.words());
        }
    }
    of_savers
}
