//! A person's word: what is asked, what is answered, and whether an answer fits.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::StepError;
use super::spec::{Body, NodeSpec, Outputs, Spec};
use crate::control::{ControlError, ControlErrorKind};
use crate::event::ApprovalRequest;
use crate::value::{Encoded, NodeValue};

/// A person's answer to the usual question: whether something may be done.
///
/// As JSON: `{"decision": "granted"}`, `{"decision": "denied", "comment": "not on a Friday"}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Approval {
    /// It may.
    Granted {
        /// What the person said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
    },
    /// It may not.
    Denied {
        /// What the person said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
    },
}

impl Approval {
    /// It may.
    pub const fn granted() -> Self {
        Self::Granted { comment: None }
    }

    /// It may not, for a reason.
    pub fn denied(comment: impl Into<String>) -> Self {
        Self::Denied { comment: Some(comment.into()) }
    }

    /// Whether it may.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted { .. })
    }
}

/// What is asked before a node that needs a person's word, with the values that it is about to use.
pub(crate) fn approval_of(spec: &Spec, node: &NodeSpec, outputs: &dyn Outputs) -> Result<ApprovalRequest, StepError> {
    let message = node.policy.approve.clone().unwrap_or_default();
    let answer = Encoded::new(&Approval::schema()).map_err(|error| StepError::value("the answer's schema", &error))?;
    Ok(ApprovalRequest::new(message, values_read(spec, node, outputs), answer, None))
}

/// What a node reads, as an object by the names of the nodes that it reads from; `null` when it reads nothing. Of what it
/// calls, these are the arguments, or what they are made of.
fn values_read(spec: &Spec, node: &NodeSpec, outputs: &dyn Outputs) -> Encoded {
    let mut seen = HashSet::new();
    let read = node.reads.iter().filter(|read| seen.insert(**read));
    let fields: Vec<String> = read
        .filter_map(|read| {
            let name = serde_json::Value::from(spec.node(*read).path.names());
            outputs.output(*read).map(|value| format!("{name}:{value}"))
        })
        .collect();
    match fields.is_empty() {
        true => Encoded::null(),
        // Names and values of JSON between braces are JSON.
        false => Encoded::from_json(format!("{{{}}}", fields.join(","))).unwrap_or_else(|_| Encoded::null()),
    }
}

/// Whether an answer is of the type that a node asks for.
pub(crate) fn check_answer(node: &NodeSpec, answer: &Encoded) -> Result<(), ControlError> {
    let fits = match &node.body {
        Body::Gate { fits, .. } => fits(answer),
        _ => answer.decode::<Approval>().map(drop),
    };
    fits.map_err(|error| {
        ControlError::new(
            ControlErrorKind::WrongAnswer,
            format!("the answer does not fit what `{}` asks for: {error}; `{answer}` was given", node.path),
        )
    })
}
