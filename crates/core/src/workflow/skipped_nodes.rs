//! Determines which nodes a decider may skip, and why a decision skips a node. `decided.rs` reads
//! the decision.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::When;
use super::machine::Machine;
use super::spec::{NodeIndex, PlanNode};

/// Records for each node that is decided on why it cannot be skipped, if there is a reason. Call it
/// when all nodes are known.
pub(super) fn record_why_needed(nodes: &[PlanNode], output: NodeIndex) {
    let decided =
        || (0..).zip(nodes).filter_map(|(at, node)| Some((at, node, node.decided.as_ref()?)));
    let names: HashMap<String, NodeIndex> =
        decided().map(|(at, node, _)| (node.path.to_string(), at)).collect();
    if names.is_empty() {
        return;
    }
    let mut needed = HashMap::new();
    // A deciding node reads and follows the same nodes as the node that it decides on, so it does
    // not count.
    for node in nodes.iter().filter(|node| node.decides.is_none()) {
        let mut note = |of: NodeIndex, how: &str| {
            needed.entry(of).or_insert_with(|| format!("`{}` {how}", node.path));
        };
        let of_edges = node.entries.iter().filter_map(|entry| match &entry.when {
            When::Holds(condition) => Some(condition.condition.reads(&|of| names.contains_key(of))),
            _ => None,
        });
        let of_edges = of_edges.flatten().filter_map(|(read, _)| names.get(read));
        node.reads.iter().chain(of_edges).for_each(|read| note(*read, "reads its output"));
        let held_back = node.after.iter().filter(|after| after.why.holds_back());
        held_back.for_each(|after| note(after.node, "begins only when it has passed"));
    }
    for (at, node, decided) in decided() {
        let why = match node {
            _ if at == output => Some("its output is that of the workflow".to_owned()),
            PlanNode { ends: true, .. } => Some("the workflow ends with its output".to_owned()),
            PlanNode { barrier: Some(_), .. } => {
                Some("what is below it waits for a person or a check in it".to_owned())
            }
            _ => needed.remove(&at),
        };
        let _ = decided.needed.set(why);
    }
}

impl Machine {
    /// Returns the reason if a decision skips the node.
    pub(super) fn decided_otherwise(&self, node: &PlanNode) -> Option<Arc<str>> {
        let decided = node.decided.as_ref()?;
        let by = &self.spec().node(decided.by).path;
        decided.skips(self).map(|reason| match reason.is_empty() {
            true => format!("`{by}` skips it").into(),
            false => format!("`{by}` skips it: {reason}").into(),
        })
    }
}
