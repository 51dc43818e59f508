//! `ControlError`: why a control request was refused. It describes and decides nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::PauseReason;
use crate::store::RunStatus;

/// Why a run cannot do what an operator asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ControlError {
    kind: ControlErrorKind,
    message: String,
}

/// The class of a [`ControlError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlErrorKind {
    /// The run is not in a state in which this can be done.
    WrongState,
    /// The workflow has no node of that name.
    UnknownNode,
    /// The answer is not of the type that was asked for.
    WrongAnswer,
    /// The message cannot be one of the user: it is of somebody else, empty or too large.
    WrongMessage,
    /// So many messages wait for the run's model that it takes no more until its next call.
    TooManyMessages,
    /// The process that executes the run did not respond in time. The request is withdrawn; it has an effect only if
    /// that process had read it and was held up.
    NoResponse,
}

impl ControlErrorKind {
    /// The class as a word, such as `wrong_state`.
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

    /// The run is in a state in which this cannot be done.
    pub(crate) fn state(what: &str, state: impl fmt::Display) -> Self {
        Self::new(ControlErrorKind::WrongState, format!("the run cannot be {what}: it is {state}"))
    }

    /// The run has ended.
    pub(crate) fn over(what: &str, status: RunStatus) -> Self {
        Self::state(what, format!("over ({status})"))
    }

    /// The request was written by another release.
    pub(crate) fn not_understood() -> Self {
        let message = "the process that executes the run does not understand the request; use the same release there";
        Self::new(ControlErrorKind::WrongState, message)
    }

    /// An item or a branch is named where only its node can be.
    pub(crate) fn part(part: &str, whole: &str) -> Self {
        let message = format!(
            "`{part}` cannot be retried by itself; retry the node `{whole}`, whose other items keep their outcomes"
        );
        Self::new(ControlErrorKind::WrongState, message)
    }

    /// The run was not paused by an operator, so an operator cannot unpause it.
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

    /// The class.
    pub fn kind(&self) -> ControlErrorKind {
        self.kind
    }
}
