//! Keeps the written order of a `#[workflow]` where it can be observed. A node that writes begins
//! when all nodes above it have succeeded, so it does not run after a failure. All nodes below it
//! begin when it has ended, so they see its effect, and their failures do not stop it. Nodes below
//! a gate or a check begin after it has passed, even if it is inside a loop or a form. Steps that
//! only read run concurrently. A called workflow that neither writes nor asks a person counts as a
//! step that reads, even if it has checks.
//!
//! The plan does not show the calls that a plain function makes, so the node of such a call is
//! opaque. It runs concurrently with other nodes. If it calls a tool with side effects, the call
//! waits for its turn, which the driver opens. Gates, and steps that are known to read data that
//! other steps change, begin when the opaque nodes above have ended.
//!
//! Edges are added while a workflow is built. A workflow that is built without the macro has only
//! the edges that its author wrote.

use std::collections::{BinaryHeap, HashMap, HashSet};

use super::policy::OnError;
use super::spec::{After, NodeIndex, OrderReason, PlanNode};

/// Effect of a node on the order of other nodes. Inputs and joins have none: they do not wait, and
/// other nodes do not wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    /// `true` if the node changes something. It waits until all nodes above have succeeded, and all
    /// nodes below wait for it. Other nodes run concurrently between the writes.
    pub(super) writes: bool,
    /// Steps above that must end before the node begins.
    pub(super) looks: RequiredSteps,
    /// `true` if the node may call functions that the plan does not show and that may write.
    pub(super) is_opaque: bool,
    /// `true` if the node is known to read data that a step above may have changed.
    pub(super) reads: bool,
    /// Gate or check that the node is or contains. Nodes below it begin only after that has passed.
    pub(super) barrier: Option<OrderReason>,
}

/// The steps above a node that must have ended before it begins, besides those whose values it
/// reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RequiredSteps {
    /// No other steps: the node depends only on the values that it reads.
    #[default]
    Values,
    /// All steps that may change data: the node depends on their effects.
    Effects,
    /// All steps: the node depends on a clock or the like.
    Everything,
}

/// Nodes that the next node may have to wait for, at one position in the source.
#[derive(Clone, Debug, Default)]
pub(super) struct Frontier {
    /// Last gates and checks. There are several if they are in different arms.
    barriers: Vec<After>,
    /// Last nodes that write.
    writes: Vec<NodeIndex>,
    /// Nodes since the last write whose failure fails the run.
    above: Vec<NodeIndex>,
    /// Nodes since the last write that may write.
    opaque: Vec<NodeIndex>,
}

/// State of the order at the position where nodes are added.
#[derive(Debug, Default)]
pub(super) struct Order {
    now: Frontier,
    /// Frontiers at the positions of routers. Each arm of a router begins with the router's
    /// frontier.
    at_router: HashMap<NodeIndex, Frontier>,
}

impl Order {
    /// Returns the order edges of `next`, which is the node to be added to `nodes`, and updates the
    /// frontier.
    pub(super) fn place(
        &mut self,
        nodes: &[PlanNode],
        next: &PlanNode,
        role: Role,
        unordered: bool,
    ) -> Vec<After> {
        let is_write = role.writes && !unordered;
        let sees_writes = !unordered;
        let is_gate = role.barrier == Some(OrderReason::Gate);
        let waits_for_all = is_write || role.looks == RequiredSteps::Everything;
        let waits_for_opaque = sees_writes
            && (waits_for_all || role.looks == RequiredSteps::Effects || is_gate || role.reads);
        let edge = |why| move |node: &NodeIndex| After { node: *node, why };
        let writes = self.now.writes.iter().filter(|_| sees_writes).map(edge(OrderReason::Write));
        let above = self.now.above.iter().filter(|_| waits_for_all).map(edge(OrderReason::Above));
        let is_other = |node: &&NodeIndex| !waits_for_all || !self.now.above.contains(node);
        let opaque = self.now.opaque.iter().filter(|_| waits_for_opaque).filter(is_other);
        let opaque =
            opaque.map(edge(if is_write { OrderReason::Above } else { OrderReason::Write }));
        let mut wanted: Vec<After> =
            self.now.barriers.iter().copied().chain(writes).chain(above).chain(opaque).collect();
        // Later nodes come first: they often wait for the earlier ones, which then need no edge.
        wanted.sort_by_key(|after| std::cmp::Reverse(after.node));
        let mut edges: Vec<After> = Vec::new();
        // Two searches, because an edge to a gate or a check may be omitted only if the remaining
        // edges skip the node as well when the gate or the check fails.
        let (mut all, mut holding) = (StepsAbove::new(next, false), StepsAbove::new(next, true));
        for after in wanted {
            let before = if after.why.holds_back() { &mut holding } else { &mut all };
            if !before.includes(nodes, after.node) {
                edges.push(after);
                all.add(after.node);
                if after.why.holds_back() {
                    holding.add(after.node);
                }
            }
        }
        edges.reverse();
        let at = NodeIndex::try_from(nodes.len()).unwrap_or(NodeIndex::MAX);
        if waits_for_all && sees_writes {
            // A node that waits for this one waits for all above it too.
            self.now.above.clear();
        }
        if !is_write && next.policy.on_error == OnError::Fail && !(role.writes && unordered) {
            self.now.above.push(at);
        }
        if sees_writes && (is_write || is_gate) {
            self.now.opaque.clear();
        }
        if role.is_opaque && !is_write && sees_writes {
            self.now.opaque.push(at);
        }
        match role.barrier {
            Some(why) => {
                self.now.barriers = vec![After { node: at, why }];
                // A node that is exempt from the order of writes has not waited for the writes
                // above it.
                if sees_writes {
                    self.now.writes.clear();
                }
            }
            None if is_write => self.now.writes = vec![at],
            None => {}
        }
        edges
    }

    /// Begins an arm of a router. Returns the frontier before the arm, for
    /// [`close_arm`](Self::close_arm).
    pub(super) fn open_arm(&mut self, router: NodeIndex) -> Frontier {
        let start = self.at_router.entry(router).or_insert_with(|| self.now.clone()).clone();
        std::mem::replace(&mut self.now, start)
    }

    /// Ends the arm. Nodes below also wait for the last nodes in the arm.
    pub(super) fn close_arm(&mut self, before: Frontier) {
        let arm = std::mem::replace(&mut self.now, before);
        for barrier in arm.barriers {
            if !self.now.barriers.contains(&barrier) {
                self.now.barriers.push(barrier);
            }
        }
        let Frontier { writes, above, opaque, .. } = &mut self.now;
        for (all, of_arm) in [(writes, arm.writes), (above, arm.above), (opaque, arm.opaque)] {
            for node in of_arm {
                if !all.contains(&node) {
                    all.push(node);
                }
            }
        }
    }
}

/// The nodes that a node waits for, directly or through others, from the last to the first. With
/// `only_holding`, follows only edges that skip a node when a gate or a check above it fails.
struct StepsAbove {
    only_holding: bool,
    next: BinaryHeap<NodeIndex>,
    seen: HashSet<NodeIndex>,
}

impl StepsAbove {
    fn new(node: &PlanNode, only_holding: bool) -> Self {
        let mut before = Self { only_holding, next: BinaryHeap::new(), seen: HashSet::new() };
        before.add_all_before(node);
        before
    }

    fn add(&mut self, node: NodeIndex) {
        if self.seen.insert(node) {
            self.next.push(node);
        }
    }

    fn add_all_before(&mut self, node: &PlanNode) {
        let passes = |after: &&After| !self.only_holding || after.why.holds_back();
        let after: Vec<NodeIndex> =
            node.after.iter().filter(passes).map(|after| after.node).collect();
        let guards = node.guard().map(|(router, _)| router).into_iter().chain(node.unless);
        node.reads.iter().copied().chain(after).chain(guards).for_each(|node| self.add(node));
    }

    /// Returns true if `wanted` is one of them. Calls must pass nodes in descending order.
    fn includes(&mut self, nodes: &[PlanNode], wanted: NodeIndex) -> bool {
        // Each node comes after the nodes that it waits for, so only later nodes can lead to
        // `wanted`.
        while let Some(last) = self.next.peek().copied().filter(|last| *last > wanted) {
            self.next.pop();
            if let Some(node) = nodes.get(last as usize) {
                self.add_all_before(node);
            }
        }
        self.next.peek() == Some(&wanted)
    }
}
