//! Whether a workflow has an output whichever arms its routers take, and whether each of its nodes can begin: checked when
//! the workflow is built. It looks at edges and reads alone, and runs nothing.
//!
//! A router is assumed to take some of its arms, and everything else to go as each node needs it. What cannot begin then
//! never begins in a run with these arms.

use std::collections::BTreeMap;

use super::arm_sets::{ArmSets, Arms};
use super::entry::{Begins, Entry, When};
use super::outputs::NodeIndex;
use super::spec::{Body, NodeSpec};

/// Which arms routers are assumed to take.
type Taken = BTreeMap<NodeIndex, Arms>;

/// Nodes that can never begin, and arms without an output of the workflow. The nodes have no other problem.
pub(super) fn problems_of_arms(nodes: &[NodeSpec], output: NodeIndex) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let Body::Router { arms, .. } = &node.body else { continue };
        let router = NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX);
        let mut taken = Taken::new();
        assume_begun(nodes, router, &mut taken);
        let before = begins(nodes, &taken);
        let of = |arms: &Arms| {
            let mut taken = taken.clone();
            taken.insert(router, arms.clone());
            begins(nodes, &taken)
        };
        let sets = ArmSets::of(node);
        let most: Vec<Vec<bool>> = sets.most.iter().map(of).collect();
        let never = |at: usize| before[at] && !most.is_empty() && most.iter().all(|begins| !begins[at]);
        let waits_for_never = |node: &NodeSpec| needs_of(node).any(|before| never(before as usize));
        let found = problems.len();
        for (at, of) in nodes.iter().enumerate().filter(|(at, of)| never(*at) && !waits_for_never(of)) {
            let lost = |before: &NodeIndex| most.iter().any(|begins| !begins[*before as usize]);
            let mut needs: Vec<NodeIndex> = needs_of(of).filter(lost).collect();
            needs.sort_unstable();
            needs.dedup();
            let is_never_taken = |entry: &&Entry| {
                entry.from == router && matches!(entry.when, When::Arm(arm) if sets.never_takes(arm as usize))
            };
            problems.push(match of.entries.iter().find(is_never_taken) {
                Some(Entry { when: When::Arm(arm), .. }) => format!(
                    "the node `{}` can never begin: `{}` never takes its arm `{}`, whose condition cannot hold when it is \
                     asked; correct the condition, or remove the arm",
                    of.path, node.path, arms[*arm as usize]
                ),
                _ => never_begins(nodes, at, router, &needs),
            });
        }
        if problems.len() > found || !before[output as usize] {
            continue;
        }
        let is_lost = |begins: &Vec<bool>| {
            let ended = nodes.iter().enumerate().any(|(at, node)| node.ends && begins[at]);
            !begins[output as usize] && !ended
        };
        let least = sets.least.iter().map(|(arm, taken)| (*arm, of(taken)));
        let lost: Vec<(usize, Vec<bool>)> = least.filter(|(_, begins)| is_lost(begins)).collect();
        if let Some((_, begins)) = lost.first() {
            let names: Vec<String> = lost.iter().map(|(arm, _)| format!("`{}`", arms[*arm])).collect();
            problems.push(no_output(nodes, output, begins, &format!("`{}` takes {}", node.path, names.join(" or "))));
        }
    }
    problems
}

/// Which nodes never both begin, whatever the routers take.
pub(super) struct ExclusiveArms<'n> {
    nodes: &'n [NodeSpec],
    /// Of each router, for each of the largest sets of arms that it takes, which nodes may begin then; none where nothing is
    /// known of what it takes.
    begun: Option<Vec<Vec<Vec<bool>>>>,
    /// The node that was asked about last, and what may begin where it has.
    beside: Option<(NodeIndex, Vec<bool>)>,
}

impl<'n> ExclusiveArms<'n> {
    pub(super) fn new(nodes: &'n [NodeSpec]) -> Self {
        Self { nodes, begun: None, beside: None }
    }

    /// Whether there is no run in which both nodes begin, as far as arms say. It is fast for many pairs with one first node.
    pub(super) fn exclude(&mut self, first: NodeIndex, second: NodeIndex) -> bool {
        let nodes = self.nodes;
        let (_, beside) = match self.beside.take().filter(|(node, _)| *node == first) {
            Some(beside) => self.beside.insert(beside),
            None => {
                let mut taken = Taken::new();
                assume_begun(nodes, first, &mut taken);
                self.beside.insert((first, begins(nodes, &taken)))
            }
        };
        if !beside[second as usize] {
            return true;
        }
        let mut routers = self.begun.get_or_insert_with(|| begun(nodes)).iter();
        let is_begun = |begins: &Vec<bool>| begins[first as usize] && begins[second as usize];
        routers.any(|sets| !sets.is_empty() && !sets.iter().any(is_begun))
    }
}

/// Of each router, what may begin with each of the largest sets of arms that it takes.
fn begun(nodes: &[NodeSpec]) -> Vec<Vec<Vec<bool>>> {
    let routers = nodes.iter().enumerate().filter(|(_, node)| matches!(node.body, Body::Router { .. }));
    let of = |(at, router): (usize, &NodeSpec)| {
        let at = NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX);
        // A node that begins without the router begins with each set.
        let sets = ArmSets::of(router).most.into_iter().map(|arms| begins(nodes, &Taken::from([(at, arms)])));
        sets.collect()
    };
    routers.map(of).collect()
}

/// What its beginning depends on.
fn needs_of(node: &NodeSpec) -> impl Iterator<Item = NodeIndex> + '_ {
    node.reads.iter().copied().chain(node.entries.iter().map(|entry| entry.from))
}

/// What must have been taken when a node has begun.
fn assume_begun(nodes: &[NodeSpec], node: NodeIndex, taken: &mut Taken) {
    let (mut open, mut seen) = (vec![node], vec![false; nodes.len()]);
    while let Some(at) = open.pop() {
        let node = &nodes[at as usize];
        if std::mem::replace(&mut seen[at as usize], true) || matches!(node.body, Body::Join) {
            continue;
        }
        open.extend(&node.reads);
        for entry in node.entries.iter().filter(|_| node.begins == Begins::All) {
            open.push(entry.from);
            if let (When::Arm(arm), Body::Router { several: false, .. }) =
                (&entry.when, &nodes[entry.from as usize].body)
            {
                let only = || (0..*arm).map(|_| false).chain([true]).collect();
                taken.entry(entry.from).or_insert_with(only);
            }
        }
    }
}

/// Of each node, whether it may begin.
fn begins(nodes: &[NodeSpec], taken: &Taken) -> Vec<bool> {
    let mut begins: Vec<bool> = Vec::with_capacity(nodes.len());
    for node in nodes {
        // What stands below is not begun.
        let is_begun = |node: NodeIndex| begins.get(node as usize).copied().unwrap_or(false);
        let possible = node.entries.iter().filter(|entry| is_begun(entry.from) && may_be_taken(entry, taken)).count();
        let is_entered = node.entries.is_empty() || possible >= node.begins.needed(node.entries.len());
        let mut reads = node.reads.iter().map(|read| is_begun(*read));
        let has_reads = match node.body {
            // It has the first that is there.
            Body::Join => node.reads.is_empty() || reads.any(|begins| begins),
            _ => reads.all(|begins| begins),
        };
        begins.push(is_entered && has_reads);
    }
    begins
}

fn may_be_taken(entry: &Entry, taken: &Taken) -> bool {
    match entry.when {
        When::Arm(arm) => taken.get(&entry.from).is_none_or(|arms| arms.get(arm as usize) == Some(&true)),
        _ => true,
    }
}

fn never_begins(nodes: &[NodeSpec], at: usize, router: NodeIndex, needs: &[NodeIndex]) -> String {
    let node = &nodes[at];
    let names: Vec<String> = needs.iter().map(|need| format!("`{}`", nodes[*need as usize].path)).collect();
    let needs = match names.is_empty() {
        true => String::new(),
        false => format!(", which are {}", names.join(" and ")),
    };
    let remedy = match node.does {
        Some(_) => {
            "read what may be missing with `or`, and let a node with several edges begin with `\"begins\": \"any\"`"
        }
        None => {
            "put the arms together with `join`, read what may be missing with `optional()`, or let the node begin with \
             `Begins::Any`"
        }
    };
    let router = &nodes[router as usize].path;
    format!(
        "the node `{}` can never begin: no arm of `{router}` leads to all that it needs{needs}; {remedy}",
        node.path
    )
}

fn no_output(nodes: &[NodeSpec], output: NodeIndex, begins: &[bool], when: &str) -> String {
    let node = &nodes[output as usize];
    let (path, is_data) = (&node.path, node.does.is_some());
    let missing = node.reads.iter().find(|read| !begins[**read as usize]).filter(|_| !matches!(node.body, Body::Join));
    let (why, remedy) = match (missing, &node.body) {
        (Some(read), _) => (
            format!("`{path}` reads `{}`, which is skipped then", nodes[*read as usize].path),
            if is_data {
                "read it with `or`"
            } else {
                "put the arms together with `join`, or read it with `optional()`"
            },
        ),
        (None, Body::Join) => {
            (format!("no arm that `{path}` puts together is taken then"), "give `join` the end of each arm")
        }
        (None, _) if node.entries.len() < 2 => (
            format!("`{path}` is skipped then"),
            if is_data {
                "let the output be a node that every arm leads to"
            } else {
                "put the arms together with `join`"
            },
        ),
        (None, _) => (
            format!("`{path}` needs more edges than are taken then"),
            if is_data { "let it begin with `\"begins\": \"any\"`" } else { "let it begin with `Begins::Any`" },
        ),
    };
    let ends = if is_data { "`\"ends\": true`" } else { "`Node::ends`" };
    format!(
        "when {when}, the workflow has no output: {why}; {remedy}, or mark the node that gives the output then with {ends}"
    )
}
