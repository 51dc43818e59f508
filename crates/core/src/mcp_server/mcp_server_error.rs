//! `McpServerError`: why a server could not serve. It says nothing of calls, whose errors their client reads.

use std::fmt;

use crate::error::{Error, with_causes};

/// Why a server of the Model Context Protocol could not serve a client.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum McpServerError {
    /// Something that it is to offer is not there.
    #[error("the MCP server cannot offer this: {0}")]
    Offer(#[source] Error),
    /// Two things would have one name for the client.
    #[error("the MCP server cannot offer the {kind} `{name}`: another {other} has this name; leave one of them out")]
    #[non_exhaustive]
    Twice {
        /// What cannot be offered: `agent`, `workflow`, `resource` or `prompt`.
        kind: &'static str,
        /// The name.
        name: String,
        /// What has the name, too.
        other: &'static str,
    },
    /// No client could use what was named: its arguments have no schema, or its name or address is not one of the protocol.
    #[error("the MCP server cannot offer the {kind} `{name}`: {problem}")]
    #[non_exhaustive]
    Unusable {
        /// What it is: `agent`, `workflow`, `resource` or `prompt`.
        kind: &'static str,
        /// The name.
        name: String,
        /// Why.
        problem: String,
    },
    /// The client does not speak the protocol, or was disconnected for a message over a limit.
    #[error("the connection to the MCP client ended: {problem}")]
    #[non_exhaustive]
    Connection {
        /// What was wrong.
        problem: String,
    },
}

impl fmt::Debug for McpServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}
