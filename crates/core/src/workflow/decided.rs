//! The effect of a recorded decision on a step: the step is skipped or gets revised inputs.
//! `decision_step.rs` asks the decider.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use agentflow_schema::text::head;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::outputs::{NodeIndex, Outputs, RevisedInput};
use crate::error::Failure;
use crate::state::SavedByStep;
use crate::value::Encoded;

/// The reason why the output of a step is needed, set when all nodes are known. `None` if the step
/// can be skipped.
pub(super) type NeededBy = Arc<OnceLock<Option<String>>>;

/// Maximum number of bytes of the reason in the record of a skipped node. The decision itself
/// contains the full reason.
const MOST_REASON: usize = 500;

/// The decision on a node: where it is recorded, and how it applies.
pub(crate) struct Decided {
    /// The step whose output is the decision.
    pub(crate) by: NodeIndex,
    /// Names of the arguments and the nodes that they are read from. `None` if the node is one
    /// call, whose arguments are revised as a whole.
    pub(crate) reads: Option<Vec<(String, NodeIndex)>>,
    pub(super) needed: NeededBy,
}

/// The recorded form of a decision.
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

    /// Returns the reason if the node is skipped.
    pub(super) fn skips(&self, outputs: &dyn Outputs) -> Option<String> {
        let recorded = self.recorded(outputs).filter(|recorded| recorded.decision == "skip")?;
        Some(head(&recorded.reason.unwrap_or_default(), MOST_REASON).to_owned())
    }

    /// Returns the revised inputs of the node. Parses the whole decision, so the result is cached
    /// for nodes with many items.
    pub(super) fn revised(&self, outputs: &dyn Outputs) -> RevisedInput {
        let recorded = self.recorded(outputs).filter(|recorded| recorded.decision == "revise");
        let Some(arguments) = recorded.and_then(|recorded| recorded.arguments) else {
            return RevisedInput::default();
        };
        let encoded = |raw: &RawValue| Encoded::from_json(raw.get().to_owned()).ok();
        let Some(reads) = &self.reads else {
            return RevisedInput { values: BTreeMap::new(), given: encoded(arguments) };
        };
        let given = serde_json::from_str::<BTreeMap<String, &RawValue>>(arguments.get())
            .unwrap_or_default();
        let value = |(name, node): &(String, NodeIndex)| Some((*node, encoded(given.get(name)?)?));
        RevisedInput { values: reads.iter().filter_map(value).collect(), given: None }
    }
}

/// The outputs as a node sees them: with its revised inputs, and with the revised argument of its
/// call.
pub(crate) struct RevisedOutputs<'o> {
    outputs: &'o dyn Outputs,
    revised: Arc<RevisedInput>,
}

impl<'o> RevisedOutputs<'o> {
    /// Applies the decision on the node, if any.
    pub(crate) fn by(decided: Option<&Decided>, outputs: &'o dyn Outputs) -> Self {
        let read = |decided: &Decided| {
            outputs.revised(decided.by).unwrap_or_else(|| Arc::new(decided.revised(outputs)))
        };
        Self { outputs, revised: decided.map(read).unwrap_or_default() }
    }
}

impl Outputs for RevisedOutputs<'_> {
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
