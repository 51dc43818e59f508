//! The Model Context Protocol for agentflow: tools of MCP servers ([`mcp`]), and a runtime as a
//! server ([`mcp_server`]).
//!
//! Programs depend on the crate `agentflow-sdk` and enable its features `mcp`, `mcp-http`,
//! `mcp-auth`, `mcp-server` and `mcp-server-http`. It re-exports these modules.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod mcp;
#[cfg(feature = "server")]
pub mod mcp_server;
