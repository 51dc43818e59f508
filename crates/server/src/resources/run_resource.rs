//! The JSON forms of a run.

use std::collections::BTreeMap;

use agentflow_core::event::PauseReason;
use agentflow_core::model::Usage;
use agentflow_core::runtime::{NodeStatus, RunReport};
use agentflow_core::state::StateValues;
use agentflow_core::store::{RunRecord, RunStatus};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{NodeRunResource, json_value, time_text};

/// Prefix of the keys of the state that belong to the library.
const RESERVED: &str = "agentflow:";

/// A run in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct RunSummary {
    /// Id of the run.
    pub(crate) run_id: String,
    /// Name of the workflow or agent.
    pub(crate) workflow_id: String,
    /// Version of a saved workflow. Absent for workflows of the program and for agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workflow_version: Option<u64>,
    /// `queued`, `running`, `paused`, `compensating`, `success`, `failed` or `cancelled`.
    pub(crate) status: String,
    /// Event that a paused run waits for: `approval`, `operator`, `message` or `interrupted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pause_reason: Option<PauseReasonText>,
    /// Caller on whose behalf the run was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) triggered_by: Option<String>,
    /// Time at which the run started, in RFC 3339 format.
    pub(crate) started_at: String,
    /// Time of the last recorded event.
    pub(crate) updated_at: String,
    /// Time at which the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
    /// Error of a failed run, or reason of a cancelled one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Session that the run belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
    /// Tags of the run.
    pub(crate) tags: BTreeMap<String, String>,
    /// Number of recorded events.
    pub(crate) events: u64,
    /// Tokens of all model responses so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<UsageResource>,
}

/// Reason of a pause, as a word.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "PauseReason")]
pub(crate) struct PauseReasonText(String);

impl PauseReasonText {
    fn new(reason: &PauseReason) -> Self {
        let text = serde_json::to_value(reason).unwrap_or_default();
        Self(text.as_str().unwrap_or("other").to_owned())
    }
}

impl From<RunRecord> for RunSummary {
    fn from(record: RunRecord) -> Self {
        let finished_at = record.status.has_ended().then(|| time_text(record.updated));
        Self {
            run_id: record.run_id.to_string(),
            workflow_id: record.name.to_string(),
            workflow_version: record.document.as_ref().map(|document| document.version),
            status: record.status.as_str().to_owned(),
            pause_reason: record.pause_reason.as_ref().map(PauseReasonText::new),
            triggered_by: record.caller.as_deref().map(str::to_owned),
            started_at: time_text(record.created),
            updated_at: time_text(record.updated),
            finished_at,
            error: record.error,
            session_id: record.session.map(|place| place.session.to_string()),
            tags: record.tags,
            events: record.events,
            usage: record.usage.as_ref().map(UsageResource::from),
        }
    }
}

/// Numbers of tokens.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
pub(crate) struct UsageResource {
    /// Input tokens, including cached tokens.
    pub(crate) input_tokens: u64,
    /// Output tokens, including reasoning.
    pub(crate) output_tokens: u64,
    /// Sum of the input and output tokens.
    pub(crate) total_tokens: u64,
}

impl From<&Usage> for UsageResource {
    fn from(usage: &Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            total_tokens: usage.total_tokens(),
        }
    }
}

/// A run with its state and its nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RunDetail {
    #[serde(flatten)]
    pub(crate) run: RunSummary,
    /// The node that runs or waits now; the first one, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_node_id: Option<String>,
    /// The values that the completed steps have saved.
    pub(crate) state_snapshot: Map<String, Value>,
    /// The nodes of the run. For an agent, its model and tool calls.
    pub(crate) node_runs: Vec<NodeRunResource>,
    /// Output of a successful run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
}

impl RunDetail {
    pub(crate) fn new(report: &RunReport, state: &StateValues, output: Option<Value>) -> Self {
        let is_current = |status: NodeStatus| {
            matches!(
                status,
                NodeStatus::Running
                    | NodeStatus::AwaitingApproval
                    | NodeStatus::ResolvingDependencies
            )
        };
        let current = report.nodes.iter().find(|node| is_current(node.status));
        let own = state.iter().filter(|(key, _)| !key.starts_with(RESERVED));
        Self {
            run: report.run.clone().into(),
            current_node_id: current.map(|node| node.name.clone()),
            state_snapshot: own.map(|(key, value)| (key.to_owned(), json_value(value))).collect(),
            node_runs: report.nodes.iter().map(|node| NodeRunResource::new(report, node)).collect(),
            output,
        }
    }
}

/// The response to the start of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct StartedRun {
    /// Id of the run.
    pub(crate) run_id: String,
    /// Status of the run.
    pub(crate) status: String,
    /// Output of a run that was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    /// Error of a run that was waited for and failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl StartedRun {
    pub(crate) fn new(record: &RunRecord) -> Self {
        Self {
            run_id: record.run_id.to_string(),
            status: record.status.as_str().to_owned(),
            output: None,
            error: record.error.clone().filter(|_| record.status != RunStatus::Success),
        }
    }
}
