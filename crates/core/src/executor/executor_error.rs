//! `ExecutorError`: why a step that was handed out has no outcome, or why what was recorded of it was refused. It decides
//! no retry.

use serde::{Deserialize, Serialize};

use crate::failure::FailureKind;

/// Why a step that was handed out has no outcome, or why a recorder refused what it was given. It can be sent: a process
/// that executes a step learns with it that the run no longer waits for the step.
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
    /// What executed the step is gone, or cannot be reached. The step fails as `lost`.
    Lost,
    /// What came back cannot be read. The step fails as `unreadable_outcome`.
    Unreadable,
    /// What came back belongs to another step, another attempt or another run. The step fails as `foreign_outcome`.
    Foreign,
    /// The run no longer waits for this attempt at the step: it has ended, was stopped or has another executor.
    Ended,
    /// Another delivery of the same call has the step. This one executes nothing, and its outcome is not the step's.
    Taken,
    /// The run's store did not keep what was recorded.
    Store,
}

impl ExecutorError {
    /// An error of a class, with a sentence.
    pub fn new(kind: ExecutorErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// What executed the step is gone; `why` says more.
    pub fn lost(why: impl Into<String>) -> Self {
        Self::new(ExecutorErrorKind::Lost, why)
    }

    /// The class.
    pub fn kind(&self) -> ExecutorErrorKind {
        self.kind
    }

    /// How the attempt fails.
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
