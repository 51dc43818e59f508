//! `A2aError`: errors of requests to a remote A2A agent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::A2aErrorCode;
use agentflow_core::__private::extension::with_causes;
use agentflow_core::message::ToolStatus;
use agentflow_core::tool::ToolError;

/// An error of a request to a remote agent. A [`Toolset`](agentflow_core::tool::Toolset) returns it as
/// [`Error::Toolset`](agentflow_core::Error::Toolset). A call of the agent's tool returns it as a result
/// that the model sees.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum A2aError {
    /// The configuration of the client is invalid.
    #[error("the A2A agent `{agent}` cannot be used: {problem}")]
    Config {
        /// Name of the agent in this program.
        agent: Arc<str>,
        /// Description of the problem.
        problem: String,
    },
    /// The agent's card cannot be used.
    #[error("the card of the A2A agent `{agent}` cannot be used: {problem}")]
    Card {
        /// Name of the agent in this program.
        agent: Arc<str>,
        /// Description of the problem.
        problem: String,
    },
    /// The agent supports only other versions of the protocol.
    #[error(
        "the A2A agent `{agent}` speaks A2A {spoken}, and this program speaks 1.0; ask for an agent that does, too"
    )]
    Version {
        /// Name of the agent in this program.
        agent: Arc<str>,
        /// Versions that the agent supports, such as `0.3`.
        spoken: String,
    },
    /// The connection could not be established. The agent received nothing.
    #[error("the A2A agent `{agent}` cannot be reached: {problem}")]
    Connect {
        /// Name of the agent in this program.
        agent: Arc<str>,
        /// Description of the problem.
        problem: String,
    },
    /// The agent did not answer in time.
    #[error("the A2A agent `{agent}` did not answer `{request}` within {limit:?}")]
    Silent {
        /// Name of the agent in this program.
        agent: Arc<str>,
        /// Name of the request, such as `SendMessage`.
        request: &'static str,
        /// The limit that passed.
        limit: Duration,
    },
    /// The connection ended before the answer. It is unknown if the request had an effect.
    #[error(
        "the connection to the A2A agent `{agent}` ended before it answered `{request}`: {problem}"
    )]
    Lost {
        /// Name of the agent in this program.
        agent: Arc<str>,
        /// Name of the request, such as `SendMessage`.
        request: &'static str,
        /// Reason, if it is known.
        problem: String,
    },
    /// The agent answered with an error.
    #[error("the A2A agent `{agent}` refused `{request}` ({code}): {message}")]
    Refused {
        /// Name of the agent in this program.
        agent: Arc<str>,
        /// Name of the request, such as `SendMessage`.
        request: &'static str,
        /// JSON-RPC code, such as -32001; the HTTP status if the response has no JSON-RPC code.
        code: i64,
        /// The protocol's error for this code, if it defines one.
        error: Option<A2aErrorCode>,
        /// Message of the agent, shortened.
        message: String,
    },
    /// The task asks a question that this program cannot show or answer.
    #[error("the A2A agent `{agent}` {problem}")]
    Question {
        /// Name of the agent in this program.
        agent: Arc<str>,
        /// Reason, such as `asks for credentials, which this program cannot give`.
        problem: String,
    },
    /// The answer is invalid, or exceeds a limit.
    #[error("the A2A agent `{agent}` gave an answer to `{request}` that cannot be used: {problem}")]
    Answer {
        /// Name of the agent in this program.
        agent: Arc<str>,
        /// Name of the request, such as `SendMessage`.
        request: &'static str,
        /// Description of the problem.
        problem: String,
    },
}

impl fmt::Debug for A2aError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}

impl A2aError {
    /// Returns the error code that the agent answered with, if the protocol defines it.
    pub fn code(&self) -> Option<A2aErrorCode> {
        match self {
            Self::Refused { error, .. } => *error,
            _ => None,
        }
    }

    /// Returns `true` if the transport failed, so that another attempt may succeed.
    pub(super) fn is_transport_error(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Silent { .. } | Self::Lost { .. })
    }

    /// Converts the error to the result that the model sees.
    pub(super) fn into_tool_error(self) -> ToolError {
        let text = match &self {
            Self::Lost { .. } | Self::Silent { .. } => {
                format!("{self}; whether the message had its effect is unknown")
            }
            _ => self.to_string(),
        };
        let status = match &self {
            Self::Refused { error: Some(A2aErrorCode::InvalidParams), .. } => {
                ToolStatus::InvalidArguments
            }
            Self::Refused { error: Some(A2aErrorCode::TaskNotFound), .. } => ToolStatus::NotFound,
            Self::Silent { .. } => ToolStatus::Timeout,
            _ => ToolStatus::Error,
        };
        ToolError::with_status(status, text)
    }
}
