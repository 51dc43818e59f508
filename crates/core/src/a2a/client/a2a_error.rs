//! `A2aError`: what can be wrong with an agent of another program. It says nothing of the texts of messages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::A2aErrorCode;
use crate::error::with_causes;
use crate::message::ToolStatus;
use crate::tool::ToolError;

/// Why an agent of another program did not do what it was asked. A [`Toolset`](crate::tool::Toolset) fails with it as
/// [`Error::Toolset`](crate::Error::Toolset), a call of the agent's tool as a result that the model sees.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum A2aError {
    /// What the program says of the agent cannot be used.
    #[error("the A2A agent `{agent}` cannot be used: {problem}")]
    Config {
        /// The name that the program gave it.
        agent: Arc<str>,
        /// What is wrong.
        problem: String,
    },
    /// Its card is not one that this program can use.
    #[error("the card of the A2A agent `{agent}` cannot be used: {problem}")]
    Card {
        /// The name that the program gave it.
        agent: Arc<str>,
        /// What is wrong with the card.
        problem: String,
    },
    /// It speaks other versions of the protocol.
    #[error(
        "the A2A agent `{agent}` speaks A2A {spoken}, and this program speaks 1.0; ask for an agent that does, too"
    )]
    Version {
        /// The name that the program gave it.
        agent: Arc<str>,
        /// The versions that it speaks, such as `0.3`.
        spoken: String,
    },
    /// There is no connection to it, so nothing reached it.
    #[error("the A2A agent `{agent}` cannot be reached: {problem}")]
    Connect {
        /// The name that the program gave it.
        agent: Arc<str>,
        /// What was wrong.
        problem: String,
    },
    /// It did not answer in time.
    #[error("the A2A agent `{agent}` did not answer `{request}` within {limit:?}")]
    Silent {
        /// The name that the program gave it.
        agent: Arc<str>,
        /// What it was asked, such as `SendMessage`.
        request: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The connection ended before the answer; whether the request had its effect is unknown.
    #[error("the connection to the A2A agent `{agent}` ended before it answered `{request}`: {problem}")]
    Lost {
        /// The name that the program gave it.
        agent: Arc<str>,
        /// What it was asked, such as `SendMessage`.
        request: &'static str,
        /// Why, as far as that is known.
        problem: String,
    },
    /// It answered with an error.
    #[error("the A2A agent `{agent}` refused `{request}` ({code}): {message}")]
    Refused {
        /// The name that the program gave it.
        agent: Arc<str>,
        /// What it was asked.
        request: &'static str,
        /// The code of JSON-RPC, such as -32001; the status of HTTP where the answer has no other.
        code: i64,
        /// The error of the protocol, where it is one.
        error: Option<A2aErrorCode>,
        /// Its own words, shortened.
        message: String,
    },
    /// Its task asks a question that this program cannot show or answer.
    #[error("the A2A agent `{agent}` {problem}")]
    Question {
        /// The name that the program gave it.
        agent: Arc<str>,
        /// The reason, such as `asks for credentials, which this program cannot give`.
        problem: String,
    },
    /// Its answer is not one, or is over a limit.
    #[error("the A2A agent `{agent}` gave an answer to `{request}` that cannot be used: {problem}")]
    Answer {
        /// The name that the program gave it.
        agent: Arc<str>,
        /// What it was asked.
        request: &'static str,
        /// What is wrong with the answer.
        problem: String,
    },
}

impl fmt::Debug for A2aError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}

impl A2aError {
    /// The error of the protocol that the agent answered with.
    pub fn code(&self) -> Option<A2aErrorCode> {
        match self {
            Self::Refused { error, .. } => *error,
            _ => None,
        }
    }

    /// Whether another attempt may find the agent well: nothing was said by the agent itself.
    pub(super) fn is_of_transport(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Silent { .. } | Self::Lost { .. })
    }

    /// What the model sees of it.
    pub(super) fn into_tool_error(self) -> ToolError {
        let text = match &self {
            Self::Lost { .. } | Self::Silent { .. } => format!("{self}; whether the message had its effect is unknown"),
            _ => self.to_string(),
        };
        let status = match &self {
            Self::Refused { error: Some(A2aErrorCode::InvalidParams), .. } => ToolStatus::InvalidArguments,
            Self::Refused { error: Some(A2aErrorCode::TaskNotFound), .. } => ToolStatus::NotFound,
            Self::Silent { .. } => ToolStatus::Timeout,
            _ => ToolStatus::Error,
        };
        ToolError::with_status(status, text)
    }
}
