//! `StepCall` and `StepOutcome`: everything that another process needs to execute one attempt at a step, and what it gives
//! back. Plain data, which decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ExecutorError;
use crate::error::Failure;
use crate::event::{Event, RunId, Spending};
use crate::path::StepPath;
use crate::state::SavedByStep;
use crate::time::Timestamp;
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// One attempt at a step of a run, for whoever executes it. It survives JSON, and executing it needs nothing else of the
/// run: only the workflow, which is found by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepCall {
    /// The version of this form, [`StepCall::VERSION`] when made by this release. Another one is refused.
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// The name of its workflow.
    pub workflow: Arc<str>,
    /// The workflow's definition hash.
    pub definition: Arc<str>,
    /// The [id](crate::definition::Definition::id) of the workflow's definition by parts: also of the agents and tools that it
    /// calls.
    pub parts: Arc<str>,
    /// What identifies the texts of the documents that the workflow was made of; `None` of a workflow of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Arc<str>>,
    /// The step: a node, an item, a round or a branch.
    pub path: StepPath,
    /// The attempt at it, from 1.
    pub attempt: u32,
    /// How many attempts at it have failed before. Fewer than `attempt - 1` when a process ended in the middle of one.
    pub failed: u32,
    /// The outputs that it reads, by the names of their nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Encoded>,
    /// The failures that it reads, by the names of their nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, Failure>,
    /// The item that it is the step of; of a round of a repetition, the output of the round before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Encoded>,
    /// The strongest effect that a call may have which the plan of the step does not show: the steps that are written above
    /// have ended. The run says later when calls with other effects may begin, with
    /// [`StepSignal::Turn`](super::StepSignal::Turn).
    #[serde(default = "no_effects", skip_serializing_if = "is_no_effects")]
    pub turn: Effects,
    /// The scopes that the run is granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Arc<str>>,
    /// On whose behalf the run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Arc<str>>,
    /// The trace of the host that the run belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Arc<str>>,
    /// The tags of the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Whether the run has a store.
    pub durable: bool,
    /// Whether the run undoes what it has done when it fails or is cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compensate: bool,
    /// Whether deltas of model calls may be shown: not while something is taken out of the run's events.
    pub deltas: bool,
    /// When it was handed out, by the run's clock: the times of the records are held against it.
    pub at: Timestamp,
    /// How many agents and workflows stand around it.
    pub depth: u32,
    /// The most model calls of the run.
    pub max_llm_calls: u32,
    /// The most bytes that the run's store takes for one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_event_bytes: Option<u64>,
    /// What the run has spent on models so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<Spending>,
    /// The state that the step sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<SavedByStep>>,
    /// What is recorded of the step and below it, by this attempt and earlier ones, so that nothing is done twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<Event>,
}

fn no_effects() -> Effects {
    Effects::None
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_no_effects(effects: &Effects) -> bool {
    *effects == Effects::None
}

impl StepCall {
    /// The version of the form that this release makes and reads.
    pub const VERSION: u32 = 3;

    /// The outcome of this call.
    pub(crate) fn ended(&self, end: StepEnd) -> StepOutcome {
        StepOutcome { run: self.run.clone(), path: self.path.clone(), attempt: self.attempt, end }
    }
}

/// What became of one attempt at a step. It survives JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepOutcome {
    /// The run.
    pub run: RunId,
    /// The step.
    pub path: StepPath,
    /// The attempt.
    pub attempt: u32,
    /// How it ended.
    pub end: StepEnd,
}

/// How an attempt at a step ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepEnd {
    /// It has its output.
    Completed {
        /// The output.
        output: Encoded,
        /// What the step saved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<Arc<SavedByStep>>,
    },
    /// It failed, or could not begin.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// It has not ended: its run, or the runtime that executes it, is drained, and nothing in it is running any more but
    /// what waits for a person or begins nothing new. What it has done is recorded.
    Left {
        /// The agents and workflows in it that wait.
        parked: Vec<StepPath>,
    },
    /// Nothing of it was executed by this delivery: the run refused it, since another one has the step or the run no longer
    /// waits for it, or the runtime that was given it is drained. This is not the step's outcome; an executor that delivers a call twice waits for that of the other.
    Refused {
        /// Why.
        error: ExecutorError,
    },
}
