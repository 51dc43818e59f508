//! `McpError`: what can be wrong with a server of the Model Context Protocol. It says nothing of the arguments of calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::with_causes;
use crate::message::ToolStatus;
use crate::tool::{Effects, ToolError};

/// Why a server of the Model Context Protocol did not do what it was asked. A [`Toolset`](crate::tool::Toolset) fails with
/// it as [`Error::Toolset`](crate::Error::Toolset), a call of a tool as a result that the model sees.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// Its process or connection could not be begun.
    #[error("the MCP server `{server}` could not be started: {problem}")]
    Start {
        /// The name that the program gave it.
        server: Arc<str>,
        /// What was wrong.
        problem: String,
    },
    /// It could be reached, and did not speak the protocol as it should.
    #[error("the MCP server `{server}` could not be connected to: {problem}")]
    Connect {
        /// The name that the program gave it.
        server: Arc<str>,
        /// What was wrong.
        problem: String,
    },
    /// It did not answer in time.
    #[error("the MCP server `{server}` did not answer `{request}` within {limit:?}")]
    Silent {
        /// The name that the program gave it.
        server: Arc<str>,
        /// What it was asked, such as `tools/list`.
        request: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The connection ended before the answer; whether the request had its effect is unknown.
    #[error("the connection to the MCP server `{server}` ended before it answered `{request}`: {problem}")]
    Lost {
        /// The name that the program gave it.
        server: Arc<str>,
        /// What it was asked, such as `tools/call`.
        request: &'static str,
        /// Why, as far as that is known.
        problem: String,
    },
    /// It ended too often in a row, so it is not started for a while.
    #[error("the MCP server `{server}` ended {times} times in a row, and is started again in {retry_in:?}: {problem}")]
    Unavailable {
        /// The name that the program gave it.
        server: Arc<str>,
        /// How often in a row.
        times: u32,
        /// When it may be asked again.
        retry_in: Duration,
        /// What was wrong last.
        problem: String,
    },
    /// It answered with an error of the protocol.
    #[error("the MCP server `{server}` refused `{request}` ({code}): {message}")]
    Refused {
        /// The name that the program gave it.
        server: Arc<str>,
        /// What it was asked.
        request: &'static str,
        /// The code of JSON-RPC, such as -32602 for arguments that do not fit.
        code: i32,
        /// Its own words, shortened.
        message: String,
    },
    /// Its answer is not one, or is over a limit.
    #[error("the MCP server `{server}` gave an answer to `{request}` that cannot be used: {problem}")]
    Answer {
        /// The name that the program gave it.
        server: Arc<str>,
        /// What it was asked.
        request: &'static str,
        /// What is wrong with the answer.
        problem: String,
    },
    /// It asks a person before it answers, which it can only in the call of a tool.
    #[error(
        "the MCP server `{server}` does not answer `{request}` before a person has answered, who can only be asked in the call of a tool: {question}"
    )]
    Asks {
        /// The name that the program gave it.
        server: Arc<str>,
        /// What it was asked, such as `prompts/get`.
        request: &'static str,
        /// Its first question, shortened.
        question: String,
    },
    /// It wants a login that is not there, or does not take the one that is; it did nothing.
    #[error("the MCP server `{server}` needs a login: {problem}")]
    Unauthorized {
        /// The name that the program gave it.
        server: Arc<str>,
        /// What is missing, and what to do.
        problem: String,
    },
    /// A description of servers cannot be read.
    #[error("the MCP servers cannot be read{at}: {problem}", at = at.as_ref().map(|at| format!(" from {at}")).unwrap_or_default())]
    Config {
        /// The file, if it is one.
        at: Option<String>,
        /// What is wrong with it.
        problem: String,
    },
}

impl fmt::Debug for McpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}

impl McpError {
    /// Whether the connection was lost while the server was asked.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// That a person was asked to log in and has not done so yet.
    #[cfg(feature = "mcp-auth")]
    pub(super) fn asking(server: &Arc<str>) -> Self {
        let problem = "a person has been asked, and has not logged in yet; try it again then".to_owned();
        Self::Unauthorized { server: Arc::clone(server), problem }
    }

    /// What the model sees of it, of a tool with such effects.
    pub(super) fn into_tool_error(self, effects: Effects) -> ToolError {
        let text = match &self {
            Self::Lost { .. } if effects == Effects::Write => {
                format!("{self}; whether the call had its effect is unknown")
            }
            _ => self.to_string(),
        };
        let status = match self {
            Self::Refused { code: -32602, .. } => ToolStatus::InvalidArguments,
            Self::Refused { code: -32601, .. } => ToolStatus::NotFound,
            Self::Silent { .. } => ToolStatus::Timeout,
            _ => ToolStatus::Error,
        };
        ToolError::with_status(status, text)
    }
}
