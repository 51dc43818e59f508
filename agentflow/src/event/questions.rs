//! What people are asked, as it is recorded: `ApprovalRequest`, and `ToolWaiting` for a call that asks in the middle. It says
//! nothing of the answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::on_timeout::OnTimeout;
use crate::value::Encoded;

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The question, for a person to read.
    pub message: String,
    /// What it is about: the payload of a gate; of a node that needs an approval, an object with the values that it
    /// reads, by the names of their nodes.
    pub payload: Encoded,
    /// The JSON Schema of the answer.
    pub answer: Encoded,
    /// How long the answer is waited for, in milliseconds; without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What happens when nobody has answered by then.
    #[serde(default, skip_serializing_if = "OnTimeout::is_default")]
    pub on_timeout: OnTimeout,
}

impl ApprovalRequest {
    /// A question that waits for ever.
    pub(crate) fn new(message: String, payload: Encoded, answer: Encoded) -> Self {
        Self { message, payload, answer, timeout_ms: None, on_timeout: OnTimeout::Fail }
    }

    /// The same, waiting so long.
    pub(crate) fn within(mut self, timeout_ms: Option<u64>, on_timeout: &OnTimeout) -> Self {
        if timeout_ms.is_some() {
            (self.timeout_ms, self.on_timeout) = (timeout_ms, on_timeout.clone());
        }
        self
    }

    /// How long the answer is waited for.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

/// What a tool asks in the middle of its call, and what it needs to continue when everything is answered.
///
/// Each question is one of its own, at a path such as `tool#1.book/ask#1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolWaiting {
    /// What the tool needs to continue. A redactor leaves it as it is, since the call could not continue otherwise.
    pub state: Encoded,
    /// The questions.
    pub questions: Vec<ApprovalRequest>,
    /// How many questions the call had asked before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(any(feature = "mcp", feature = "a2a-client"))]
impl ToolWaiting {
    pub(crate) fn new(state: Encoded, questions: Vec<ApprovalRequest>, asked: u32) -> Self {
        Self { state, questions, asked }
    }
}
