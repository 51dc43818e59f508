//! The JSON forms of a node of a run and of its attempts.

use agentflow_core::runtime::{AttemptReport, NodeReport, RunReport};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{json_value, time_text};

/// A node of a run, with its last attempt.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "NodeRun")]
pub(crate) struct NodeRunResource {
    /// Id of the node in all runs: the id of the run, a slash and the name of the node.
    pub(crate) node_run_id: String,
    /// Id of the run.
    pub(crate) run_id: String,
    /// Name of the node, including the arms that contain it.
    pub(crate) node_id: String,
    /// `pending`, `awaiting_approval`, `resolving_dependencies`, `running`, `success`, `failed`,
    /// `skipped` or `cancelled`.
    pub(crate) status: String,
    /// Number of the last attempt that was started; 0 if none was.
    pub(crate) attempt: usize,
    /// Resolved bindings of the dependencies of a started node.
    pub(crate) resolved_dependencies: Vec<Value>,
    /// Recorded input of the last attempt: the arguments of a call, or the subject of a question.
    pub(crate) input_snapshot: Map<String, Value>,
    /// Output of the last attempt. A value that is not an object is under the key `value`.
    pub(crate) output_snapshot: Map<String, Value>,
    /// Error of a failed node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Open question to a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<String>,
    /// Time at which the first attempt started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    /// Time at which the last attempt ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
}

impl NodeRunResource {
    pub(crate) fn new(report: &RunReport, node: &NodeReport) -> Self {
        let run_id = report.run.run_id.to_string();
        let (first, last) = (node.attempts.first(), node.attempts.last());
        let dependencies = node.resolved_dependencies.iter();
        Self {
            node_run_id: format!("{run_id}/{}", node.name),
            run_id,
            node_id: node.name.clone(),
            status: node.status.as_str().to_owned(),
            attempt: node.attempts.len(),
            resolved_dependencies: dependencies
                .map(|dependency| serde_json::to_value(dependency).unwrap_or_default())
                .collect(),
            input_snapshot: object(last.and_then(|last| last.input.as_ref()).map(json_value)),
            output_snapshot: object(last.and_then(|last| last.output.as_ref()).map(json_value)),
            error: node.error.clone(),
            question: node.question.clone(),
            started_at: first.map(|first| time_text(first.began)),
            finished_at: last.and_then(|last| last.ended).map(time_text),
        }
    }
}

/// Returns a value as an object: a value that is not one is put under the key `value`.
fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        None => Map::new(),
        Some(Value::Object(object)) => object,
        Some(value) => Map::from_iter([("value".to_owned(), value)]),
    }
}

/// A node of a run with all its attempts and calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct NodeDetail {
    #[serde(flatten)]
    pub(crate) node: NodeRunResource,
    /// All attempts, in the order in which they started.
    pub(crate) attempts: Vec<AttemptResource>,
    /// Model and tool calls of the node, ordered by path.
    pub(crate) calls: Vec<CallResource>,
    /// Effect of resuming the run on the node, as a sentence.
    pub(crate) on_resume: String,
}

impl NodeDetail {
    pub(crate) fn new(report: &RunReport, node: &NodeReport) -> Self {
        let calls = node.calls.iter().map(|call| CallResource {
            path: call.path.clone(),
            status: call.status.as_str().to_owned(),
            attempts: call.attempts.iter().map(AttemptResource::from).collect(),
        });
        Self {
            node: NodeRunResource::new(report, node),
            attempts: node.attempts.iter().map(AttemptResource::from).collect(),
            calls: calls.collect(),
            on_resume: node.on_resume.to_owned(),
        }
    }
}

/// A model or tool call of a node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Call")]
pub(crate) struct CallResource {
    /// Path of the call, such as `paid/tool#1.refund`.
    pub(crate) path: String,
    /// `running`, `success`, `failed` or `cancelled`.
    pub(crate) status: String,
    /// All attempts, in the order in which they started.
    pub(crate) attempts: Vec<AttemptResource>,
}

/// An attempt at a node or a call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Attempt")]
pub(crate) struct AttemptResource {
    /// Number of the attempt, starting at 1.
    pub(crate) number: u32,
    /// Time at which it started, or at which a person was asked.
    pub(crate) started_at: String,
    /// Time at which it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
    /// Duration in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<u64>,
    /// Recorded input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Value>,
    /// Output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    /// Error of a failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Person who approved or answered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answered_by: Option<String>,
}

impl From<&AttemptReport> for AttemptResource {
    fn from(attempt: &AttemptReport) -> Self {
        Self {
            number: attempt.number,
            started_at: time_text(attempt.began),
            finished_at: attempt.ended.map(time_text),
            duration_ms: attempt.duration_ms,
            input: attempt.input.as_ref().map(json_value),
            output: attempt.output.as_ref().map(json_value),
            error: attempt.error.clone(),
            answered_by: attempt.answered_by.clone(),
        }
    }
}
