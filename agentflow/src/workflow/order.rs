//! The written order of a `#[workflow]`, where it can be noticed. A node that writes begins when all above it has
//! succeeded, so that it does not happen if that fails, and all below it begins when it is over, so that it is seen, and
//! not stopped by what fails below. Nothing below a gate or a check begins before that has passed, also when it stands in
//! the body of a loop or a form. What reads runs beside what reads, and a called workflow that neither writes nor asks is
//! something that reads, whatever it checks.
//!
//! It adds edges between nodes while a workflow is built. It knows no types and runs nothing; a workflow that is built
//! by hand has the edges that its author wrote.

use std::collections::{HashMap, HashSet};

use super::policy::OnError;
use super::spec::{After, NodeIndex, NodeSpec, OrderReason};

/// What a node means for the order of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An input or a join: neither waits nor is waited for.
    Outside,
    /// It runs beside others that read, between the writes.
    Read,
    /// The same, once all above it has succeeded: it looks at a clock or the like.
    Look,
    /// It changes something: all above it has succeeded, and all below it waits for it.
    Write,
    /// A gate or a check, or a node whose body has one: nothing below it begins before it has passed.
    Barrier { why: OrderReason, writes: bool },
}

/// What is waited for at a place of the source.
#[derive(Clone, Debug, Default)]
pub(super) struct Frontier {
    /// The last gates and checks; several when they are in different arms.
    barriers: Vec<After>,
    /// The last nodes that write.
    writes: Vec<NodeIndex>,
    /// The nodes that can fail since then.
    above: Vec<NodeIndex>,
}

/// The order at the place where nodes are added now.
#[derive(Debug, Default)]
pub(super) struct Order {
    now: Frontier,
    /// Whether there is a gate, or a check: what stands below the node that all of this is the body of waits for that.
    barrier: Option<OrderReason>,
    /// What was waited for where a router stands; each of its arms begins with that.
    at_router: HashMap<NodeIndex, Frontier>,
}

impl Order {
    /// The order edges of the node that is added next, which is not yet among `nodes`.
    pub(super) fn place(&mut self, nodes: &[NodeSpec], next: &NodeSpec, role: Role, unordered: bool) -> Vec<After> {
        if role == Role::Outside {
            return Vec::new();
        }
        let is_write = matches!(role, Role::Write | Role::Barrier { writes: true, .. }) && !unordered;
        let sees_writes = !unordered;
        let edge = |why| move |node: &NodeIndex| After { node: *node, why };
        let writes = self.now.writes.iter().filter(|_| sees_writes).map(edge(OrderReason::Write));
        let waits = is_write || role == Role::Look;
        let above = self.now.above.iter().filter(|_| waits).map(edge(OrderReason::Above));
        let mut wanted: Vec<After> = self.now.barriers.iter().copied().chain(writes).chain(above).collect();
        // A later one often waits for the earlier ones.
        wanted.sort_by_key(|after| std::cmp::Reverse(after.node));
        let mut edges: Vec<After> = Vec::new();
        for after in wanted {
            if !is_implied(nodes, next, &edges, after) {
                edges.push(after);
            }
        }
        edges.reverse();
        let at = NodeIndex::try_from(nodes.len()).unwrap_or(NodeIndex::MAX);
        if is_write {
            self.now.above.clear();
        } else if next.policy.on_error == OnError::Fail && !(role == Role::Write && unordered) {
            self.now.above.push(at);
        }
        match role {
            Role::Barrier { why, .. } => {
                self.now.barriers = vec![After { node: at, why }];
                self.now.writes.clear();
                self.barrier = stronger(self.barrier, Some(why));
            }
            Role::Write if !unordered => self.now.writes = vec![at],
            _ => {}
        }
        edges
    }

    /// A gate if there is one, else a check if there is one.
    pub(super) fn barrier(&self) -> Option<OrderReason> {
        self.barrier
    }

    /// An arm of a router begins; gives what was waited for before it.
    pub(super) fn open_arm(&mut self, router: NodeIndex) -> Frontier {
        let start = self.at_router.entry(router).or_insert_with(|| self.now.clone()).clone();
        std::mem::replace(&mut self.now, start)
    }

    /// The arm ends: whatever is below waits for what is last in it, too.
    pub(super) fn close_arm(&mut self, before: Frontier) {
        let arm = std::mem::replace(&mut self.now, before);
        for barrier in arm.barriers {
            if !self.now.barriers.contains(&barrier) {
                self.now.barriers.push(barrier);
            }
        }
        for (all, of_arm) in [(&mut self.now.writes, arm.writes), (&mut self.now.above, arm.above)] {
            for node in of_arm {
                if !all.contains(&node) {
                    all.push(node);
                }
            }
        }
    }
}

/// Of two barriers the one that a reader looks for: a question to a person rather than a check.
pub(super) fn stronger(one: Option<OrderReason>, other: Option<OrderReason>) -> Option<OrderReason> {
    [one, other].into_iter().flatten().find(|why| *why == OrderReason::Gate).or(one).or(other)
}

/// Whether the node waits for another one already, by way of others. A gate or a check also holds back what is below
/// it when it fails: for these, only ways count by which that is passed on.
fn is_implied(nodes: &[NodeSpec], next: &NodeSpec, edges: &[After], wanted: After) -> bool {
    let strong = wanted.why.holds_back();
    let passes = |after: &After| !strong || after.why.holds_back();
    let before = |node: &NodeSpec, into: &mut Vec<NodeIndex>| {
        into.extend(&node.reads);
        into.extend(node.after.iter().filter(|after| passes(after)).map(|after| after.node));
        into.extend(node.guard.map(|(router, _)| router).into_iter().chain(node.unless));
    };
    let mut open = Vec::new();
    before(next, &mut open);
    open.extend(edges.iter().filter(|after| passes(after)).map(|after| after.node));
    let mut seen = HashSet::new();
    while let Some(node) = open.pop() {
        if node == wanted.node {
            return true;
        }
        // Every node stands after all that it waits for.
        if node > wanted.node
            && seen.insert(node)
            && let Some(node) = nodes.get(node as usize)
        {
            before(node, &mut open);
        }
    }
    false
}
