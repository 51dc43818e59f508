//! `ExecutorError`: the failure of a remote step, or the refusal of its records. It decides about
//! no retry.

use serde::{Deserialize, Serialize};

use crate::failure::FailureKind;

/// The reason why a remote step produced no outcome, or why a recorder refused a batch.
///
/// The error is serializable: a process that executes a step learns from it that the run no longer
/// waits for the step.
///
/// ```
/// use agentflow::executor::{ExecutorError, ExecutorErrorKind};
///
/// let error = ExecutorError::lost("the worker did not answer");
/// assert_eq!(error.kind(), ExecutorErrorKind::Lost);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ExecutorError {
    kind: ExecutorErrorKind,
    message: String,
}

/// The class of an [`ExecutorError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExecutorErrorKind {
    /// The process that executed the step is gone or unreachable. The step fails as `lost`.
    Lost,
    /// The response cannot be parsed. The step fails as `unreadable_outcome`.
    Unreadable,
    /// The response belongs to another step, attempt or run. The step fails as `foreign_outcome`.
    Foreign,
    /// The run no longer waits for this attempt: the run or the attempt ended or was stopped, or
    /// another executor has the step.
    Ended,
    /// The step was taken by another delivery of the same call. This delivery executes nothing, and
    /// its outcome does not count.
    Taken,
    /// The store of the run did not keep the records.
    Store,
}

impl ExecutorError {
    /// Creates an error with a class and a message.
    pub fn new(kind: ExecutorErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Creates an error of the class [`Lost`](ExecutorErrorKind::Lost): the process that executed
    /// the step is gone. `why` is the message.
    pub fn lost(why: impl Into<String>) -> Self {
        Self::new(ExecutorErrorKind::Lost, why)
    }

    /// Returns the class.
    pub fn kind(&self) -> ExecutorErrorKind {
        self.kind
    }

    /// Returns the failure kind of the attempt.
    pub(crate) fn failure_kind(&self) -> FailureKind {
        match self.kind {
            ExecutorErrorKind::Unreadable => FailureKind::UnreadableOutcome,
            ExecutorErrorKind::Foreign => FailureKind::ForeignOutcome,
            ExecutorErrorKind::Lost
            | ExecutorErrorKind::Ended
            | ExecutorErrorKind::Taken
            | ExecutorErrorKind::Store => FailureKind::Lost,
        }
    }
}

impl From<serde_json::Error> for ExecutorError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(ExecutorErrorKind::Unreadable, format!("what was sent cannot be read: {error}"))
    }
}
