//! What a recorded decision means for the step that it is about: whether it is skipped, and what it is given. It asks
//! nobody; `decision_step.rs` does.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use agentflow_schema::text::head;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::outputs::{NodeIndex, Outputs, Revised};
use crate::error::Failure;
use crate::state::SavedByStep;
use crate::value::Encoded;

/// Why the output of a step is needed, once all nodes are known; nothing when it can be skipped.
pub(super) type NeededBy = Arc<OnceLock<Option<String>>>;

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

    /// What the node is given in place of what it would see. All of the decision is read: where a node has many items,
    /// that is done once.
    pub(super) fn revised(&self, outputs: &dyn Outputs) -> Revised {
        let recorded = self.recorded(outputs).filter(|recorded| recorded.decision == "revise");
        let Some(arguments) = recorded.and_then(|recorded| recorded.arguments) else { return Revised::default() };
        let encoded = |raw: &RawValue| Encoded::from_json(raw.get().to_owned()).ok();
        let Some(reads) = &self.reads else {
            return Revised { values: BTreeMap::new(), given: encoded(arguments) };
        };
        let given = serde_json::from_str::<BTreeMap<String, &RawValue>>(arguments.get()).unwrap_or_default();
        let value = |(name, node): &(String, NodeIndex)| Some((*node, encoded(given.get(name)?)?));
        Revised { values: reads.iter().filter_map(value).collect(), given: None }
    }
}

/// The outputs as a node sees them: those that were revised for it, and what its call is given in place of its own.
pub(crate) struct SeenBy<'o> {
    outputs: &'o dyn Outputs,
    revised: Arc<Revised>,
}

impl<'o> SeenBy<'o> {
    /// By what was decided about the node, if anything was.
    pub(crate) fn by(decided: Option<&Decided>, outputs: &'o dyn Outputs) -> Self {
        let read =
            |decided: &Decided| outputs.revised(decided.by).unwrap_or_else(|| Arc::new(decided.revised(outputs)));
        Self { outputs, revised: decided.map(read).unwrap_or_default() }
    }
}

impl Outputs for SeenBy<'_> {
    fn output(&self, node: NodeIndex) -> Option<&Encoded> {
        self.revised.values.get(&node).or_else(|| self.outputs.output(node))
    }

    fn failure(&self, node: NodeIndex) -> Option<&Failure> {
        self.outputs.failure(node)
    }

    fn state(&self) -> Option<&SavedByStep> {
        self.outputs.state()
    }

    fn given(&self) -> Option<&Encoded> {
        self.revised.given.as_ref()
    }
}
