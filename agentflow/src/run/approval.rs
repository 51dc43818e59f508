//! `Approval`: a person's answer to a gate of the usual type. It asks nothing and decides nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
