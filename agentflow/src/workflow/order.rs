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

/// What a node means for the order of others. An input or a join has no role: it neither waits nor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    /// It changes something: all above it has succeeded, and all below it waits for it. What does not write runs beside
    /// others, between the writes.
    pub(super) writes: bool,
    /// It looks at a clock or the like, so it begins when all above it has succeeded.
    pub(super) looks: bool,
    /// The gate or the check that it is, or that is within it: nothing below it begins before that has passed.
    pub(super) barrier: Option<OrderReason>,
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
    /// What was waited for where a router stands; each of its arms begins with that.
    at_router: HashMap<NodeIndex, Frontier>,
}

impl Order {
    /// The order edges of the node that is added next, which is not yet among `nodes`.
    pub(super) fn place(&mut self, nodes: &[NodeSpec], next: &NodeSpec, role: Role, unordered: bool) -> Vec<After> {
        let is_write = role.writes && !unordered;
        let sees_writes = !unordered;
        let edge = |why| move |node: &NodeIndex| After { node: *node, why };
        let writes = self.now.writes.iter().filter(|_| sees_writes).map(edge(OrderReason::Write));
        let above = self.now.above.iter().filter(|_| is_write || role.looks).map(edge(OrderReason::Above));
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
        } else if next.policy.on_error == OnError::Fail && !(role.writes && unordered) {
            self.now.above.push(at);
        }
        match role.barrier {
            Some(why) => {
                self.now.barriers = vec![After { node: at, why }];
                // One that is out of the order of writes has not waited for those above it.
                if sees_writes {
                    self.now.writes.clear();
                }
            }
            None if is_write => self.now.writes = vec![at],
            None => {}
        }
        edges
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

/// Whether the node waits for another one already, by way of others. A gate or a check also holds back what is below
/// it when it fails: for these, only ways count by which that is passed on.
fn is_implied(nodes: &[NodeSpec], next: &NodeSpec, edges: &[After], wanted: After) -> bool {
    let strong = wanted.why.holds_back();
    let passes = |after: &After| !strong || after.why.holds_back();
    let before = |node: &NodeSpec, into: &mut Vec<NodeIndex>| {
        into.extend(&node.reads);
        into.extend(node.after.iter().filter(|after| passes(after)).map(|after| after.node));
        into.extend(node.guard().map(|(router, _)| router).into_iter().chain(node.unless));
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
