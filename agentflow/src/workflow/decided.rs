//! What a recorded decision means for the step that it is about: whether it is skipped, and what it is given. It asks
//! nobody; `decider.rs` does.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::decider::NeededBy;
use super::entry::When;
use super::spec::{NodeIndex, NodeSpec, Outputs};
use crate::error::Failure;
use crate::state::SavedByStep;
use crate::text::head;
use crate::value::Encoded;

/// How much of a reason the record of a skipped node says, in bytes: the decision itself has all of it.
const MOST_REASON: usize = 500;

/// The step that decides on a node.
pub(crate) struct Decided {
    pub(crate) by: NodeIndex,
    /// What the arguments are named after, of a node whose arguments are what it reads; of one call, nothing.
    pub(crate) reads: Option<Vec<(String, NodeIndex)>>,
    pub(super) needed: NeededBy,
}

/// A decision, as it is recorded.
#[derive(Deserialize)]
struct Recorded<'r> {
    decision: &'r str,
    #[serde(default)]
    reason: Option<String>,
    #[serde(borrow, default)]
    arguments: Option<&'r RawValue>,
}

impl Decided {
    fn recorded<'o>(&self, outputs: &'o dyn Outputs) -> Option<Recorded<'o>> {
        serde_json::from_str(outputs.output(self.by)?.as_str()).ok()
    }

    /// Why the node is skipped, when that was decided.
    pub(super) fn skips(&self, outputs: &dyn Outputs) -> Option<String> {
        let recorded = self.recorded(outputs).filter(|recorded| recorded.decision == "skip")?;
        Some(head(&recorded.reason.unwrap_or_default(), MOST_REASON).to_owned())
    }

    /// The value of a node that is read, when that was revised.
    pub(super) fn revised(&self, read: NodeIndex, outputs: &dyn Outputs) -> Option<Encoded> {
        self.values(outputs).0.remove(&read)
    }

    fn values(&self, outputs: &dyn Outputs) -> (BTreeMap<NodeIndex, Encoded>, Option<Encoded>) {
        let nothing = (BTreeMap::new(), None);
        let Some(recorded) = self.recorded(outputs).filter(|recorded| recorded.decision == "revise") else {
            return nothing;
        };
        let Some(arguments) = recorded.arguments else { return nothing };
        let encoded = |raw: &RawValue| Encoded::from_json(raw.get().to_owned()).ok();
        let Some(reads) = &self.reads else { return (BTreeMap::new(), encoded(arguments)) };
        let Ok(given) = serde_json::from_str::<BTreeMap<String, &RawValue>>(arguments.get()) else { return nothing };
        let value = |(name, node): &(String, NodeIndex)| Some((*node, encoded(given.get(name)?)?));
        (reads.iter().filter_map(value).collect(), None)
    }
}

/// The outputs as a node sees them: those that were revised for it, and what its call is given in place of its own.
pub(crate) struct SeenBy<'o> {
    outputs: &'o dyn Outputs,
    values: BTreeMap<NodeIndex, Encoded>,
    given: Option<Encoded>,
}

impl<'o> SeenBy<'o> {
    pub(crate) fn node(node: &NodeSpec, outputs: &'o dyn Outputs) -> Self {
        let (values, given) = node.decided.as_ref().map(|decided| decided.values(outputs)).unwrap_or_default();
        Self { outputs, values, given }
    }
}

impl Outputs for SeenBy<'_> {
    fn output(&self, node: NodeIndex) -> Option<&Encoded> {
        self.values.get(&node).or_else(|| self.outputs.output(node))
    }

    fn failure(&self, node: NodeIndex) -> Option<&Failure> {
        self.outputs.failure(node)
    }

    fn state(&self) -> Option<&SavedByStep> {
        self.outputs.state()
    }

    fn given(&self) -> Option<&Encoded> {
        self.given.as_ref()
    }
}

/// Says of each node that is decided on whether it can be skipped, now that all are known.
pub(super) fn note_needed(nodes: &[NodeSpec], output: NodeIndex) {
    let decided = || (0..).zip(nodes).filter_map(|(at, node)| Some((at, node, node.decided.as_ref()?)));
    let names: HashMap<String, NodeIndex> = decided().map(|(at, node, _)| (node.path.to_string(), at)).collect();
    if names.is_empty() {
        return;
    }
    let mut needed = HashMap::new();
    // One that asks about another node reads what that one does, and waits for the same.
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
            NodeSpec { ends: true, .. } => Some("the workflow ends with its output".to_owned()),
            NodeSpec { barrier: Some(_), .. } => {
                Some("what is below it waits for a person or a check in it".to_owned())
            }
            _ => needed.remove(&at),
        };
        let _ = decided.needed.set(why);
    }
}

impl super::machine::Machine {
    /// Why a node does not run, by its decision.
    pub(super) fn decided_otherwise(&self, node: &NodeSpec) -> Option<Arc<str>> {
        let decided = node.decided.as_ref()?;
        let by = &self.spec().node(decided.by).path;
        decided.skips(self).map(|reason| match reason.is_empty() {
            true => format!("`{by}` skips it").into(),
            false => format!("`{by}` skips it: {reason}").into(),
        })
    }
}
