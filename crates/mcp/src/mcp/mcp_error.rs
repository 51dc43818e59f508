//! `McpError`: failures of servers of the Model Context Protocol. Errors never contain the
//! arguments of calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentflow_core::__private::extension::with_causes;
use agentflow_core::message::ToolStatus;
use agentflow_core::tool::{Effects, ToolError};

/// A failed request to a server of the Model Context Protocol. A [`Toolset`](agentflow_core::tool::Toolset)
/// reports it as [`Error::Toolset`](agentflow_core::Error::Toolset). A tool call reports it as a result that
/// the model reads.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The server's process could not be started.
    #[error("the MCP server `{server}` could not be started: {problem}")]
    Start {
        /// Name of the server in this program.
        server: Arc<str>,
        /// Reason for the failure.
        problem: String,
    },
    /// The server could not be reached, or violated the protocol during the handshake.
    #[error("the MCP server `{server}` could not be connected to: {problem}")]
    Connect {
        /// Name of the server in this program.
        server: Arc<str>,
        /// Reason for the failure.
        problem: String,
    },
    /// The server did not answer in time.
    #[error("the MCP server `{server}` did not answer `{request}` within {limit:?}")]
    Silent {
        /// Name of the server in this program.
        server: Arc<str>,
        /// Method of the request, such as `tools/list`.
        request: &'static str,
        /// Time limit that was exceeded.
        limit: Duration,
    },
    /// The connection ended before the answer arrived. The effect of the request is unknown.
    #[error(
        "the connection to the MCP server `{server}` ended before it answered `{request}`: {problem}"
    )]
    Lost {
        /// Name of the server in this program.
        server: Arc<str>,
        /// Method of the request, such as `tools/call`.
        request: &'static str,
        /// Reason for the end of the connection, if it is known.
        problem: String,
    },
    /// The server ended too often in a row. It is not started again for a while.
    #[error(
        "the MCP server `{server}` ended {times} times in a row, and is started again in {retry_in:?}: {problem}"
    )]
    Unavailable {
        /// Name of the server in this program.
        server: Arc<str>,
        /// Number of consecutive failures.
        times: u32,
        /// Time until the server can be started again.
        retry_in: Duration,
        /// Reason for the last failure.
        problem: String,
    },
    /// The server answered with a protocol error.
    #[error("the MCP server `{server}` refused `{request}` ({code}): {message}")]
    Refused {
        /// Name of the server in this program.
        server: Arc<str>,
        /// Method of the request.
        request: &'static str,
        /// The JSON-RPC error code, such as -32602 for invalid arguments.
        code: i32,
        /// The server's error message, shortened.
        message: String,
    },
    /// The answer is invalid or exceeds a limit.
    #[error(
        "the MCP server `{server}` gave an answer to `{request}` that cannot be used: {problem}"
    )]
    Answer {
        /// Name of the server in this program.
        server: Arc<str>,
        /// Method of the request.
        request: &'static str,
        /// Problem with the answer.
        problem: String,
    },
    /// The server wants to ask a person before it answers. It can do so only during a tool call.
    #[error(
        "the MCP server `{server}` does not answer `{request}` before a person has answered, who can only be asked in the call of a tool: {question}"
    )]
    Asks {
        /// Name of the server in this program.
        server: Arc<str>,
        /// Method of the request, such as `prompts/get`.
        request: &'static str,
        /// The server's first question, shortened.
        question: String,
    },
    /// The server wants a login that does not exist, or does not accept the existing login. It has
    /// not executed the request.
    #[error("the MCP server `{server}` needs a login: {problem}")]
    Unauthorized {
        /// Name of the server in this program.
        server: Arc<str>,
        /// The missing login, and the steps to get it.
        problem: String,
    },
    /// The configuration of the servers is invalid.
    #[error("the MCP servers cannot be read{at}: {problem}", at = at.as_ref().map(|at| format!(" from {at}")).unwrap_or_default())]
    Config {
        /// Path of the file, if the configuration comes from a file.
        at: Option<String>,
        /// Problem with the configuration.
        problem: String,
    },
}

impl fmt::Debug for McpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}

impl McpError {
    /// Returns `true` if the connection was lost during the request.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    #[cfg(feature = "auth")]
    /// Returns the error for a login that waits for a person.
    pub(super) fn asking(server: &Arc<str>) -> Self {
        let problem =
            "a person has been asked, and has not logged in yet; try it again then".to_owned();
        Self::Unauthorized { server: Arc::clone(server), problem }
    }

    /// Converts the error into the result that the model reads. `effects` are the effects of the
    /// called tool.
    pub(super) fn into_tool_error(self, effects: Effects) -> ToolError {
        let text = match &self {
            // The model must not assume that a writing call failed.
            Self::Lost { .. } if effects == Effects::Write => {
                format!("{self}; whether the call had its effect is unknown")
            }
            _ => self.to_string(),
        };
        // JSON-RPC 2.0: -32602 is "invalid params" and -32601 is "method not found".
        let status = match self {
            Self::Refused { code: -32602, .. } => ToolStatus::InvalidArguments,
            Self::Refused { code: -32601, .. } => ToolStatus::NotFound,
            Self::Silent { .. } => ToolStatus::Timeout,
            _ => ToolStatus::Error,
        };
        ToolError::with_status(status, text)
    }
}
