//! `QuestionAnswer`: the answer to a question about a call, from a person or from the time-out of the
//! question.

use crate::event::ApprovalRequest;
use crate::on_timeout::OnTimeout;
use crate::run::Approval;
use crate::value::Encoded;

/// The answer to a question about a call.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct QuestionAnswer {
    /// The decision.
    pub approval: Approval,
    /// The recorded answer. If the tool asks a person, it is the result of the call.
    pub given: Encoded,
    /// The question's time-out behavior, if the time-out answered.
    pub(crate) late: Option<OnTimeout>,
}

impl QuestionAnswer {
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
