//! Deciders: functions, agents, tools or workflows that decide before each step if it runs, is
//! skipped or gets other arguments.
//!
//! This module has the data types. `decision_step.rs` asks the decider, and `decided.rs` applies
//! the answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::graph_body::ReferenceKind;

/// A workflow step that is about to start, as shown to a decider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct NextNode {
    /// Name of the workflow.
    pub workflow: String,
    /// Name of the step.
    pub node: String,
    /// The call as written in the source. Empty if unknown.
    pub calls: String,
    /// Outputs of the nodes directly before the step, by node name.
    pub outputs: BTreeMap<String, Value>,
    /// Arguments of the step. For a step of a document that is one call: the arguments of the call.
    /// For any other step: an object with the values that it reads, by the names of the nodes that
    /// they come from.
    pub arguments: Value,
    /// JSON Schema of the arguments.
    pub arguments_schema: Value,
    /// Reason why the step cannot be skipped. `None` if it can.
    pub needed: Option<String>,
    /// Reason why the previous answer was refused. `None` the first time. A decider is asked at
    /// most three times.
    pub refused: Option<String>,
}

/// The decision about a step ([`NextNode`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeDecision {
    /// The step runs with its arguments.
    Continue,
    /// The step does not run. Later nodes start as if it had completed, and optional reads of its
    /// output find no value.
    Skip {
        /// Reason, which is also recorded for the skipped step.
        reason: String,
    },
    /// The step runs with other arguments, which replace [`NextNode::arguments`]. Values that are
    /// left out stay unchanged, except for a step that is one call, whose arguments are replaced as
    /// a whole.
    Revise {
        /// The new arguments.
        arguments: Value,
        /// Reason for the change.
        reason: String,
    },
}

/// The decider of a workflow that is data: the name of an agent, a tool or a workflow. It receives
/// a [`NextNode`] and answers with a [`NodeDecision`] or its JSON as text.
///
/// ```
/// use agentflow::workflow::{Decider, Graph};
///
/// let mut graph = Graph::new("triage", "answer");
/// graph.decider = Some(Decider::agent("guide"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a decider, such as {\"kind\": \"agent\", \"name\": \"guide\"}"
)]
#[non_exhaustive]
pub struct Decider {
    /// Kind of the decider.
    pub kind: ReferenceKind,
    /// Name under which the runtime knows it.
    pub name: String,
}

impl Decider {
    /// Creates a reference to an agent.
    pub fn agent(name: impl Into<String>) -> Self {
        Self { kind: ReferenceKind::Agent, name: name.into() }
    }

    /// Creates a reference to a tool. It is asked once per step: a refused answer fails the run.
    pub fn tool(name: impl Into<String>) -> Self {
        Self { kind: ReferenceKind::Tool, name: name.into() }
    }

    /// Creates a reference to a workflow.
    pub fn workflow(name: impl Into<String>) -> Self {
        Self { kind: ReferenceKind::Workflow, name: name.into() }
    }
}
