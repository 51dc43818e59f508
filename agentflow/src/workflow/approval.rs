//! A person's word: what is asked, what is answered, and whether an answer fits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::StepError;
use super::spec::{Body, NodeSpec};
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

/// What is asked before a node that needs a person's word.
pub(crate) fn approval_of(node: &NodeSpec) -> Result<ApprovalRequest, StepError> {
    let message = node.policy.approve.clone().unwrap_or_default();
    let answer = Encoded::new(&Approval::schema()).map_err(|error| StepError::value("the answer's schema", &error))?;
    Ok(ApprovalRequest::new(message, Encoded::null(), answer, None))
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
