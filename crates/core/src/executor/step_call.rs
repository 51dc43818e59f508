//! `StepCall` and `StepOutcome`: the request to execute one attempt at a step, and its result.
//! Plain data.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ExecutorError;
use crate::caller::CallerClaims;
use crate::error::Failure;
use crate::event::{Event, RunId, Spending};
use crate::path::StepPath;
use crate::state::SavedByStep;
use crate::time::Timestamp;
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// A request to execute one attempt at a step of a run. It can be sent as JSON. It contains all
/// data of the run that the step needs; the executing process finds the workflow by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepCall {
    /// Version of the format. [`StepCall::VERSION`] if created by this release. Other versions are
    /// refused.
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// Name of the run's workflow.
    pub workflow: Arc<str>,
    /// Definition hash of the workflow.
    pub definition: Arc<str>,
    /// [Id](crate::definition::Definition::id) of the workflow's definition by parts, which
    /// includes the agents and tools that it calls.
    pub parts: Arc<str>,
    /// Id of the document sources that the workflow was made of; `None` for a workflow defined in
    /// the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Arc<str>>,
    /// Path of the step: a node, an item, a round or a branch.
    pub path: StepPath,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Number of earlier attempts that failed. It is less than `attempt - 1` if a process ended
    /// during an attempt.
    pub failed: u32,
    /// Outputs that the step reads, by the names of their nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Encoded>,
    /// Failures that the step reads, by the names of their nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, Failure>,
    /// The item, if the step belongs to an item. For a round of a repetition, the output of the
    /// previous round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Encoded>,
    /// The strongest effect that calls not shown in the plan may have, given the steps written
    /// above that have ended. The run allows stronger effects later with
    /// [`StepSignal::Turn`](super::StepSignal::Turn).
    #[serde(default = "no_effects", skip_serializing_if = "is_no_effects")]
    pub turn: Effects,
    /// Scopes granted to the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Arc<str>>,
    /// Name of the caller on whose behalf the run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Arc<str>>,
    /// Roles, groups and scopes of the caller.
    #[serde(default, skip_serializing_if = "CallerClaims::is_empty")]
    pub caller_claims: CallerClaims,
    /// Id of the host program's trace to which the run belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Arc<str>>,
    /// Tags of the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// `true` if the run has a store.
    pub durable: bool,
    /// `true` if the run compensates its completed calls when it fails or is cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compensate: bool,
    /// `true` if deltas of model calls may be forwarded. `false` while a redactor filters the
    /// events of the run.
    pub deltas: bool,
    /// Time when the call was created, by the run's clock. The executing process computes the age
    /// of the records from it.
    pub at: Timestamp,
    /// Number of agents and workflows that enclose the step.
    pub depth: u32,
    /// Maximum number of model calls of the run.
    pub max_llm_calls: u32,
    /// Maximum size of one event in the run's store, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_event_bytes: Option<u64>,
    /// Model usage of the run so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<Spending>,
    /// The state that the step sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<SavedByStep>>,
    /// Records of the step and below it, from this attempt and earlier ones, so that no recorded
    /// work is repeated.
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
    /// The version of the format that this release writes and reads.
    pub const VERSION: u32 = 3;

    /// Creates the outcome of this call.
    pub(crate) fn ended(&self, end: StepEnd) -> StepOutcome {
        StepOutcome { run: self.run.clone(), path: self.path.clone(), attempt: self.attempt, end }
    }
}

/// The result of one attempt at a step. It can be sent as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepOutcome {
    /// The run.
    pub run: RunId,
    /// Path of the step.
    pub path: StepPath,
    /// Number of the attempt.
    pub attempt: u32,
    /// The way in which the attempt ended.
    pub end: StepEnd,
}

/// The way in which an attempt at a step ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepEnd {
    /// The step completed.
    Completed {
        /// The output.
        output: Encoded,
        /// State that the step saved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<Arc<SavedByStep>>,
    },
    /// The step failed, or could not start.
    Failed {
        /// The failure.
        failure: Failure,
    },
    /// The step was interrupted by a drain of its run or of the executing runtime. All parts of the
    /// step have finished, wait for a person, or do not start new work. Its finished work is
    /// recorded.
    Left {
        /// Paths of the agents and workflows in the step that wait.
        parked: Vec<StepPath>,
    },
    /// This delivery executed no part of the step. The run refused it because another delivery took
    /// the step or the run no longer waits for it, or the runtime that received it is being
    /// drained. This is not the outcome of the step: an executor that delivers a call twice waits
    /// for the outcome of the other delivery.
    Refused {
        /// The reason.
        error: ExecutorError,
    },
}
