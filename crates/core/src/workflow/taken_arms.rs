//! Checks when a workflow is built that it has an output for all arms that its routers may take,
//! and that each node can begin. It uses edges and reads only.
//!
//! The check assumes that a router takes some of its arms, and that the rest of the workflow goes
//! as each node needs it. A node that cannot begin under this assumption never begins in a run with
//! these arms.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::collections::{BTreeMap, HashMap, HashSet};

use super::arm_sets::ArmSets;
use super::bit_set::{BitRows, BitSet, Counts, has, numbers};
use super::entry::{Begins, Entry, When};
use super::graph_codes;
use super::outputs::NodeIndex;
use super::spec::{Body, PlanNode};
use crate::path::StepPath;

/// Returns the sets of arms that each router can take.
pub(super) fn arm_sets(nodes: &[PlanNode]) -> BTreeMap<NodeIndex, ArmSets> {
    let routers = (0..).zip(nodes).filter(|(_, node)| matches!(node.body, Body::Router { .. }));
    routers.map(|(at, router)| (at, ArmSets::from_router(router))).collect()
}

/// Reports nodes that can never begin, and arms that lead to no output. Nodes must read and follow
/// only nodes above them.
pub(super) fn check_reachability(
    nodes: &[PlanNode],
    output: NodeIndex,
    all_sets: &BTreeMap<NodeIndex, ArmSets>,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for (router, sets) in all_sets {
        let node = &nodes[*router as usize];
        let Body::Router { arms, .. } = &node.body else { continue };
        // Case 0 assumes no arms of this router. Each following case assumes one of its sets.
        let (most, least) = (1..1 + sets.most.len(), &sets.least);
        let count = most.end + least.len();
        let mut cases = ArmAssumptions::new(count);
        // The router begins only if routers above it have taken certain arms.
        for (other, arm) in arms_required_by(nodes, *router) {
            cases.assume_always(other, arm as usize);
        }
        let taken = sets.most.iter().chain(least.iter().map(|(_, taken)| taken));
        (1..).zip(taken).for_each(|(case, taken)| cases.assume(*router, case, taken.iter()));
        let begins = begins(nodes, cases);
        let with_most = BitSet::from_numbers(count, most.clone());
        // A node may begin with some of the largest sets, or with each of them.
        let with_some = |at: usize| {
            begins.row(at).iter().zip(with_most.words()).any(|(of, most)| of & most != 0)
        };
        let with_all = |at: usize| {
            begins.row(at).iter().zip(with_most.words()).all(|(of, most)| !of & most == 0)
        };
        let before = |at: usize| has(begins.row(at), 0);
        let never = |at: usize| before(at) && !most.is_empty() && !with_some(at);
        let waits_for_never = |node: &PlanNode| needs_of(node).any(|before| never(before as usize));
        let ever_taken = sets.ever_taken();
        let found = problems.len();
        let is_first = |at: usize| never(at) && !waits_for_never(&nodes[at]);
        // A deciding node usually has the edges of the node that it decides on. That node reports
        // the problem.
        let is_said = |about: &str| {
            nodes.iter().position(|node| *node.path.names() == *about).is_some_and(is_first)
        };
        let is_own = |at: usize| !nodes[at].decides.as_deref().is_some_and(is_said);
        let first = nodes.iter().enumerate().filter(|(at, _)| is_first(*at) && is_own(*at));
        for (at, of) in first {
            let mut needs: Vec<NodeIndex> =
                needs_of(of).filter(|before| !with_all(*before as usize)).collect();
            needs.sort_unstable();
            needs.dedup();
            let is_never_taken = |entry: &&Entry| {
                entry.from == *router
                    && matches!(entry.when, When::Arm(arm) if !ever_taken.contains(arm as usize))
            };
            problems.push(match of.entries.iter().find(is_never_taken) {
                Some(Entry { when: When::Arm(arm), .. }) => {
                    let found =
                        Diagnostic::new(graph_codes::ARM_NEVER_TAKEN).name("node", &of.path);
                    found.name("router", &node.path).name("arm", &arms[*arm as usize])
                }
                _ => never_begins(nodes, at, *router, &needs),
            });
        }
        // A node that never begins has been reported, and is usually the cause of a missing output.
        if problems.len() > found || !before(output as usize) {
            continue;
        }
        let mut lost = BitSet::from_numbers(count, most.end..count);
        lost.remove(begins.row(output as usize));
        // A node with `ends` provides an output, too.
        let ends = (0..nodes.len()).filter(|at| nodes[*at].ends);
        ends.for_each(|at| lost.remove(begins.row(at)));
        if let Some(first) = lost.iter().next() {
            let name = |case: usize| arms[least[case - most.end].0].to_string();
            let names: Vec<String> = lost.iter().map(name).collect();
            let begins = |at: NodeIndex| has(begins.row(at as usize), first);
            problems.push(no_output(nodes, output, begins, (&node.path, &names)));
        }
    }
    problems
}

/// Finds nodes that never begin in the same run, for all arms that the routers may take. The nodes
/// are numbered by their position in `of`.
pub(super) struct ExclusiveNodes<'n> {
    nodes: &'n [PlanNode],
    of: &'n [NodeIndex],
    sets: &'n BTreeMap<NodeIndex, ArmSets>,
    /// Nodes that may begin if a node begins, by node. Uses the arms that this node requires.
    beside: BitRows,
    /// Relations for each router whose sets of arms are known. Computed on first use.
    by_router: Option<Vec<NodesByArmSet>>,
}

/// Relation between nodes and the largest sets of arms that a router takes.
struct NodesByArmSet {
    /// Sets with which a node begins, by node.
    sets: BitRows,
    /// Nodes that begin with a set, by set.
    nodes: BitRows,
}

impl<'n> ExclusiveNodes<'n> {
    pub(super) fn new(
        nodes: &'n [PlanNode],
        of: &'n [NodeIndex],
        sets: &'n BTreeMap<NodeIndex, ArmSets>,
    ) -> Self {
        let mut cases = ArmAssumptions::new(of.len());
        for (case, node) in of.iter().enumerate() {
            arms_required_by(nodes, *node)
                .into_iter()
                .for_each(|(router, arm)| cases.assume(router, case, [arm as usize]));
        }
        let beside = rows_of(&begins(nodes, cases), of, of.len());
        Self { nodes, of, sets, beside, by_router: None }
    }

    /// Removes from `others` the nodes that never begin in the same run as `node`.
    pub(super) fn retain_compatible(&mut self, node: usize, others: &mut BitSet) {
        others.keep(self.beside.row(node));
        if others.is_empty() {
            return;
        }
        let (nodes, of, sets) = (self.nodes, self.of, self.sets);
        let by_router = self.by_router.get_or_insert_with(|| {
            sets.iter()
                .filter(|(_, sets)| !sets.most.is_empty())
                .map(|(at, sets)| NodesByArmSet::new(nodes, of, *at, sets))
                .collect()
        });
        // Both nodes can run only if one set of the router's arms lets both begin.
        for by_set in by_router {
            let mut with = BitSet::none(of.len());
            numbers(by_set.sets.row(node)).for_each(|set| with.add(by_set.nodes.row(set)));
            others.keep(with.words());
            if others.is_empty() {
                return;
            }
        }
    }
}

impl NodesByArmSet {
    fn new(nodes: &[PlanNode], of: &[NodeIndex], router: NodeIndex, sets: &ArmSets) -> Self {
        let count = sets.most.len();
        let mut cases = ArmAssumptions::new(count);
        sets.most
            .iter()
            .enumerate()
            .for_each(|(case, taken)| cases.assume(router, case, taken.iter()));
        // A node that begins without the router begins with each set.
        let sets = rows_of(&begins(nodes, cases), of, count);
        let mut with = vec![BitSet::none(of.len()); count];
        (0..of.len())
            .for_each(|node| numbers(sets.row(node)).for_each(|set| with[set].insert(node)));
        let mut nodes = BitRows::new(count, of.len());
        with.iter().for_each(|with| nodes.push(with.words()));
        Self { sets, nodes }
    }
}

/// Returns the rows of some nodes.
fn rows_of(all: &BitRows, of: &[NodeIndex], bound: usize) -> BitRows {
    let mut rows = BitRows::new(of.len(), bound);
    of.iter().for_each(|node| rows.push(all.row(*node as usize)));
    rows
}

/// Returns the nodes on which the beginning of a node depends.
fn needs_of(node: &PlanNode) -> impl Iterator<Item = NodeIndex> + '_ {
    node.reads.iter().copied().chain(node.entries.iter().map(|entry| entry.from))
}

/// Returns the arms that must have been taken if a node has begun, for routers that take one arm.
fn arms_required_by(nodes: &[PlanNode], node: NodeIndex) -> BTreeMap<NodeIndex, u32> {
    let (mut open, mut seen, mut taken) = (vec![node], HashSet::new(), BTreeMap::new());
    while let Some(at) = open.pop() {
        let node = &nodes[at as usize];
        // A join does not show which of its arms was taken.
        if !seen.insert(at) || matches!(node.body, Body::Join) {
            continue;
        }
        open.extend(&node.reads);
        for entry in node.entries.iter().filter(|_| node.begins == Begins::All) {
            open.push(entry.from);
            if let (When::Arm(arm), Body::Router { several: false, .. }) =
                (&entry.when, &nodes[entry.from as usize].body)
            {
                taken.entry(entry.from).or_insert(*arm);
            }
        }
    }
    taken
}

/// Arms that routers are assumed to take, in several cases at once.
struct ArmAssumptions {
    count: usize,
    routers: HashMap<NodeIndex, AssumedArms>,
}

struct AssumedArms {
    /// Cases without an assumption.
    free: BitSet,
    /// Cases in which an arm is taken, by arm.
    by_arm: HashMap<usize, BitSet>,
}

impl ArmAssumptions {
    fn new(count: usize) -> Self {
        Self { count, routers: HashMap::new() }
    }

    /// Assumes that a router takes this arm in each case.
    fn assume_always(&mut self, router: NodeIndex, arm: usize) {
        let by_arm = HashMap::from([(arm, BitSet::all(self.count))]);
        self.routers.insert(router, AssumedArms { free: BitSet::none(self.count), by_arm });
    }

    /// Assumes that a router takes exactly these arms in a case.
    fn assume(&mut self, router: NodeIndex, case: usize, arms: impl IntoIterator<Item = usize>) {
        let count = self.count;
        let new = || AssumedArms { free: BitSet::all(count), by_arm: HashMap::new() };
        let of = self.routers.entry(router).or_insert_with(new);
        of.free.take(case);
        for arm in arms {
            of.by_arm.entry(arm).or_insert_with(|| BitSet::none(count)).insert(case);
        }
    }
}

/// Returns for each node the cases in which it may begin.
fn begins(nodes: &[PlanNode], mut cases: ArmAssumptions) -> BitRows {
    let all = BitSet::all(cases.count);
    // A case without an assumption allows each arm.
    for of in cases.routers.values_mut() {
        of.by_arm.values_mut().for_each(|taken| taken.add(of.free.words()));
    }
    let mut begins = BitRows::new(nodes.len(), cases.count);
    let (mut own, mut possible) = (all.clone(), Counts::default());
    for node in nodes {
        own.set(&all);
        let only_taken = |set: &mut BitSet, entry: &Entry| {
            // A node below has no row yet: it counts as not begun.
            set.keep(begins.row(entry.from as usize));
            if let (When::Arm(arm), Some(of)) = (&entry.when, cases.routers.get(&entry.from)) {
                set.keep(of.by_arm.get(&(*arm as usize)).unwrap_or(&of.free).words());
            }
        };
        let needed = node.begins.needed(node.entries.len());
        if needed == node.entries.len() {
            node.entries.iter().for_each(|entry| only_taken(&mut own, entry));
        } else if !node.entries.is_empty() {
            possible.clear();
            for entry in &node.entries {
                let mut taken = all.clone();
                only_taken(&mut taken, entry);
                possible.add(taken);
            }
            own = possible.at_least(needed, &all);
        }
        match node.body {
            // A join has the first output that exists.
            Body::Join if node.reads.is_empty() => {}
            Body::Join => {
                let mut first = BitSet::none(cases.count);
                node.reads.iter().for_each(|read| first.add(begins.row(*read as usize)));
                own.keep(first.words());
            }
            _ => node.reads.iter().for_each(|read| own.keep(begins.row(*read as usize))),
        }
        begins.push(own.words());
    }
    begins
}

fn never_begins(
    nodes: &[PlanNode],
    at: usize,
    router: NodeIndex,
    needs: &[NodeIndex],
) -> Diagnostic {
    let node = &nodes[at];
    let names: Vec<String> =
        needs.iter().map(|need| format!("`{}`", nodes[*need as usize].path)).collect();
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
    let found = Diagnostic::new(graph_codes::NEVER_BEGINS).name("node", &node.path);
    found.name("router", router).text("needs", needs).suggest(Suggestion::advice(remedy))
}

fn no_output(
    nodes: &[PlanNode],
    output: NodeIndex,
    begins: impl Fn(NodeIndex) -> bool,
    (router, arms): (&StepPath, &[String]),
) -> Diagnostic {
    let node = &nodes[output as usize];
    let (path, is_data) = (&node.path, node.does.is_some());
    let missing =
        node.reads.iter().find(|read| !begins(**read)).filter(|_| !matches!(node.body, Body::Join));
    let (code, remedy) = match (missing, &node.body) {
        (Some(_), _) => (
            graph_codes::OUTPUT_READS_SKIPPED,
            if is_data {
                "read it with `or`"
            } else {
                "put the arms together with `join`, or read it with `optional()`"
            },
        ),
        (None, Body::Join) => (graph_codes::OUTPUT_JOINS_NO_ARM, "give `join` the end of each arm"),
        (None, _) if node.entries.len() < 2 => (
            graph_codes::OUTPUT_SKIPPED,
            if is_data {
                "let the output be a node that every arm leads to"
            } else {
                "put the arms together with `join`"
            },
        ),
        (None, _) => (
            graph_codes::OUTPUT_NEEDS_MORE_EDGES,
            if is_data {
                "let it begin with `\"begins\": \"any\"`"
            } else {
                "let it begin with `Begins::Any`"
            },
        ),
    };
    let ends = if is_data { "`\"ends\": true`" } else { "`Node::ends`" };
    let remedy = format!("{remedy}, or mark the node that gives the output then with {ends}");
    let found = Diagnostic::new(code)
        .name("router", router)
        .text("arms", format!("`{}`", arms.join("` or `")))
        .name("node", path);
    let found = match missing {
        Some(read) => found.name("read", &nodes[*read as usize].path),
        None => found,
    };
    // The arm is where the output gets lost, so it is marked.
    let found = found.name("arm", arms.first().map_or("", String::as_str));
    found.suggest(Suggestion::advice(remedy))
}
