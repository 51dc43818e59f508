//! `McpServerError`: failures of a server. Errors of single calls are sent to their client instead.

use std::fmt;

use agentflow_core::__private::extension::with_causes;
use agentflow_core::error::Error;

/// A server of the Model Context Protocol could not serve a client.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum McpServerError {
    /// A configured tool, agent or workflow does not exist.
    #[error("the MCP server cannot offer this: {0}")]
    Offer(#[source] Error),
    /// Two offered items have the same name.
    #[error(
        "the MCP server cannot offer the {kind} `{name}`: another {other} has this name; leave one of them out"
    )]
    #[non_exhaustive]
    Twice {
        /// Kind of the refused item: `agent`, `workflow`, `resource` or `prompt`.
        kind: &'static str,
        /// Name of both items.
        name: String,
        /// Kind of the other item with this name.
        other: &'static str,
    },
    /// A client could not use the item: its arguments have no schema, or its name or address is
    /// invalid in the protocol.
    #[error("the MCP server cannot offer the {kind} `{name}`: {problem}")]
    #[non_exhaustive]
    Unusable {
        /// Kind of the item: `agent`, `workflow`, `resource` or `prompt`.
        kind: &'static str,
        /// Name of the item.
        name: String,
        /// Reason.
        problem: String,
    },
    /// The client does not speak the protocol, or was disconnected because of a message that
    /// exceeds a limit.
    #[error("the connection to the MCP client ended: {problem}")]
    #[non_exhaustive]
    Connection {
        /// Description of the problem.
        problem: String,
    },
}

impl fmt::Debug for McpServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}
