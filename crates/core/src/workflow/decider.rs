//! A decider: a function or a model that is asked before each step of a workflow whether it runs, is skipped, or is given
//! other arguments; and what it is shown and says. `decision_step.rs` asks it, `decided.rs` says what an answer means.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::graph_body::ReferenceKind;

/// A step of a workflow that is about to begin, as a decider is shown it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct NextNode {
    /// The workflow's name.
    pub workflow: String,
    /// The name of the step.
    pub node: String,
    /// What it calls, as written; empty when that is not known.
    pub calls: String,
    /// The outputs of the nodes just before it, by their names.
    pub outputs: BTreeMap<String, Value>,
    /// What it is given: of a node of a document that is one call, what the call is given; of any other, an object of the
    /// values that it reads, by the names of the nodes that they come from.
    pub arguments: Value,
    /// The JSON Schema of the arguments.
    pub arguments_schema: Value,
    /// Why it cannot be skipped; nothing when it can.
    pub needed: Option<String>,
    /// Why the answer before this one was refused; nothing the first time. A decider is asked three times at most.
    pub refused: Option<String>,
}

/// What a decider says about a [`NextNode`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeDecision {
    /// It runs with its arguments.
    Continue,
    /// It does not run. The nodes behind it begin as if it had ended; what reads its output optionally finds none.
    Skip {
        /// Why, which the record of the skipped node says too.
        reason: String,
    },
    /// It runs with other arguments, which take the place of those in [`NextNode::arguments`]. A value that it reads and
    /// that they leave out stays as it is; of one call they are the whole.
    Revise {
        /// The new arguments.
        arguments: Value,
        /// Why.
        reason: String,
    },
}

/// Who decides in a workflow that is data: an agent, a tool or a workflow by its name. It is given a [`NextNode`], and
/// answers with a [`NodeDecision`] or its JSON as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a decider, such as {\"kind\": \"agent\", \"name\": \"guide\"}")]
#[non_exhaustive]
pub struct Decider {
    /// What it is.
    pub kind: ReferenceKind,
    /// Its name among those that the runtime knows.
    pub name: String,
}

impl Decider {
    /// An agent.
    pub fn agent(name: impl Into<String>) -> Self {
        Self { kind: ReferenceKind::Agent, name: name.into() }
    }

    /// A tool. It is asked once about each step: an answer that is refused fails the run.
    pub fn tool(name: impl Into<String>) -> Self {
        Self { kind: ReferenceKind::Tool, name: name.into() }
    }

    /// A workflow.
    pub fn workflow(name: impl Into<String>) -> Self {
        Self { kind: ReferenceKind::Workflow, name: name.into() }
    }
}
