//! `CallAnswer`: what was said of a call, by a person or by the time-out of the question. It waits for nobody.

use crate::event::ApprovalRequest;
use crate::on_timeout::OnTimeout;
use crate::run::Approval;
use crate::value::Encoded;

/// What was said of a call.
#[derive(Clone, Debug)]
pub(crate) struct CallAnswer {
    pub(crate) approval: Approval,
    /// As it is recorded; of a tool that asks it is the call's.
    pub(crate) given: Encoded,
    /// The time-out said it: what the question says of that.
    pub(crate) late: Option<OnTimeout>,
}

impl CallAnswer {
    /// The answer that is recorded to a question. One that cannot be read agrees to nothing.
    pub(crate) fn recorded(question: Option<&ApprovalRequest>, answer: &Encoded, by: &str) -> Self {
        let late = question.filter(|question| by == OnTimeout::BY && question.timeout_ms.is_some());
        let approval = answer.decode().unwrap_or_else(|error| Approval::denied(error.to_string()));
        Self { approval, given: answer.clone(), late: late.map(|question| question.on_timeout.clone()) }
    }
}
