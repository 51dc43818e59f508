//! What a time-out says to a question that nobody has answered: an answer of its own, or a failure.
//!
//! It waits for nobody. The deadline counts from the moment of the recorded question, whoever waits for its answer.

use super::approval::Approval;
use crate::event::ApprovalRequest;
use crate::failure::{Failure, FailureKind};
use crate::on_timeout::OnTimeout;
use crate::value::Encoded;

/// The answer that a time-out gives to a question.
///
/// # Errors
/// The failure that it is in place of one.
pub(crate) fn answer_of_timeout(question: &ApprovalRequest) -> Result<Encoded, Failure> {
    let late = || format!("nobody answered within {:?}", question.timeout().unwrap_or_default());
    let answer = match &question.on_timeout {
        OnTimeout::Fail | OnTimeout::Skip => return Err(Failure::new(FailureKind::Timeout, late())),
        OnTimeout::Deny => Encoded::new(&Approval::denied(late())),
        OnTimeout::Approve => Encoded::new(&Approval::Granted { comment: Some(late()), arguments: None }),
        OnTimeout::Answer(answer) => Encoded::new(answer),
    };
    answer.map_err(|error| Failure::new(FailureKind::Value, error.to_string()))
}
