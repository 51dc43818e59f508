//! [`ControlError`]: the reason why a control request for a run was refused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::PauseReason;
use crate::store::RunStatus;

/// A refused control request for a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ControlError {
    kind: ControlErrorKind,
    message: String,
}

/// Kind of a [`ControlError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlErrorKind {
    /// The state of the run does not allow the request.
    WrongState,
    /// The workflow has no node with this name.
    UnknownNode,
    /// The answer does not have the requested type.
    WrongAnswer,
    /// The message is not a valid user message: it has another role, is empty or is too large.
    WrongMessage,
    /// Too many messages are waiting for the next model call of the run.
    TooManyMessages,
    /// The process that executes the run did not respond in time. The request is withdrawn. It has
    /// an effect only if that process had already read it and was delayed.
    NoResponse,
}

impl ControlErrorKind {
    /// Returns the kind as a word, such as `wrong_state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WrongState => "wrong_state",
            Self::UnknownNode => "unknown_node",
            Self::WrongAnswer => "wrong_answer",
            Self::WrongMessage => "wrong_message",
            Self::TooManyMessages => "too_many_messages",
            Self::NoResponse => "no_response",
        }
    }
}

impl ControlError {
    pub(crate) fn new(kind: ControlErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Creates the error for a request that the state of the run does not allow.
    pub(crate) fn state(what: &str, state: impl fmt::Display) -> Self {
        Self::new(ControlErrorKind::WrongState, format!("the run cannot be {what}: it is {state}"))
    }

    /// Creates the error for a run that has ended.
    pub(crate) fn over(what: &str, status: RunStatus) -> Self {
        Self::state(what, format!("over ({status})"))
    }

    /// Creates the error for a request that was written by another release.
    pub(crate) fn not_understood() -> Self {
        let message = "the process that executes the run does not understand the request; use the same release there";
        Self::new(ControlErrorKind::WrongState, message)
    }

    /// Creates the error for retrying an item or a branch. Only its node can be retried.
    pub(crate) fn part(part: &str, whole: &str) -> Self {
        let message = format!(
            "`{part}` cannot be retried by itself; retry the node `{whole}`, whose other items keep their outcomes"
        );
        Self::new(ControlErrorKind::WrongState, message)
    }

    /// Creates the error for unpausing a run that an operator has not paused.
    pub(crate) fn not_paused(waits_for: Option<PauseReason>) -> Self {
        let state = match waits_for {
            Some(PauseReason::Approval) => "waiting for an approval; answer it instead",
            Some(PauseReason::Interrupted) => {
                "waiting for a decision on an interrupted step; retry the step, or cancel the run"
            }
            Some(PauseReason::Message) => "waiting for a message; send it one, or close it",
            _ => "running, not paused",
        };
        Self::state("unpaused", state)
    }

    /// The kind of the error.
    pub fn kind(&self) -> ControlErrorKind {
        self.kind
    }
}
