//! Determines the outcome of a question whose time limit was reached: a default answer or a
//! failure.
//!
//! The time limit counts from the recorded question.

use super::approval::Approval;
use crate::event::ApprovalRequest;
use crate::failure::{Failure, FailureKind};
use crate::on_timeout::OnTimeout;
use crate::value::Encoded;

/// Returns the answer that applies when the time limit of a question is reached.
///
/// # Errors
/// Returns the failure if the setting is to fail or skip.
pub(crate) fn timeout_answer(question: &ApprovalRequest) -> Result<Encoded, Failure> {
    let late = || format!("nobody answered within {:?}", question.timeout().unwrap_or_default());
    let answer = match &question.on_timeout {
        OnTimeout::Fail | OnTimeout::Skip => {
            return Err(Failure::new(FailureKind::Timeout, late()));
        }
        OnTimeout::Deny => Encoded::new(&Approval::denied(late())),
        OnTimeout::Approve => {
            Encoded::new(&Approval::Granted { comment: Some(late()), arguments: None })
        }
        OnTimeout::Answer(answer) => Encoded::new(answer),
    };
    answer.map_err(|error| Failure::new(FailureKind::Value, error.to_string()))
}
