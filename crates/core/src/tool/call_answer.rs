//! `QuestionAnswer`: the answer to a question about a call, from a person or from the time-out of the
//! question.

use serde::de::DeserializeOwned;

use super::ToolError;
use crate::event::ApprovalRequest;
use crate::on_timeout::OnTimeout;
use crate::run::Approval;
use crate::value::Encoded;

/// The answer to a question of a tool call, from a person or from the question's time-out. See
/// [`WaitingCall::answers`](super::WaitingCall::answers).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuestionAnswer {
    /// The decision, for a question whose answer is an [`Approval`]. Any other answer counts as
    /// denied.
    pub approval: Approval,
    /// The answer as recorded. It fits the schema of the question. It is `null` if the time-out
    /// ended the question without an answer.
    pub given: Encoded,
    /// The question's time-out behavior, if the time-out answered.
    pub(crate) late: Option<OnTimeout>,
}

impl QuestionAnswer {
    /// Decodes the answer.
    ///
    /// # Errors
    /// The answer has another form, such as `null` after a time-out.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        self.given.decode().map_err(|error| {
            ToolError::new(format!("the answer to the question has another form: {error}"))
        })
    }

    /// Returns `true` if the question's time-out answered.
    pub fn is_timed_out(&self) -> bool {
        self.late.is_some()
    }

    /// Reads the recorded answer to a question. An answer that cannot be decoded counts as a
    /// denial.
    pub(crate) fn recorded(question: Option<&ApprovalRequest>, answer: &Encoded, by: &str) -> Self {
        let late = question.filter(|question| by == OnTimeout::BY && question.timeout_ms.is_some());
        let approval = answer.decode().unwrap_or_else(|error| Approval::denied(error.to_string()));
        Self {
            approval,
            given: answer.clone(),
            late: late.map(|question| question.on_timeout.clone()),
        }
    }
}
