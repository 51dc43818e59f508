//! Client of the Model Context Protocol (MCP). It makes the tools of MCP servers available under
//! names such as `mcp.files.read`, and gives programs access to the servers' resources and prompts.
//!
//! [`McpClient`] is the handle to one server. It owns a connection, opens it on first use, and
//! opens a new one when it ends. The crate `rmcp` implements the protocol. Tools are listed through
//! a toolset and called as ordinary tools. Lists of resources and prompts are cached. Questions of
//! a server during a call are put to a person. [`McpConfig`] reads server definitions from files
//! such as `.mcp.json`. `McpAuthorization` logs in to servers with OAuth 2.1. No type of `rmcp` is
//! part of the public interface.
#![doc = include_str!("../docs/mcp.md")]

#[cfg(feature = "auth")]
mod authorization;
mod bounded_lines;
mod child_server;
mod config_entry;
mod connection;
mod elicited;
mod given_secrets;
mod handshake;
mod heard_answers;
#[cfg(feature = "http")]
mod http_failures;
#[cfg(feature = "http")]
mod http_sender;
#[cfg(feature = "http")]
mod http_transport;
mod json_comments;
mod kept_list;
mod list_versions;
mod masked_messages;
mod mcp_answer;
mod mcp_client;
mod mcp_config;
mod mcp_error;
mod mcp_prompt;
mod mcp_resource;
mod mcp_settings;
mod mirrored_call;
mod mirrored_tool;
mod open_questions;
mod progress_routes;
mod prompt_tools;
mod resource_tools;
mod server_link;
mod server_list;
mod server_reads;
mod stray_lines;

#[cfg(feature = "auth")]
#[doc(hidden)]
pub use self::authorization::check_login_address;
#[cfg(feature = "auth")]
pub use self::authorization::{McpAuthorization, McpLoginFolder, McpLogins};
#[cfg(feature = "server")]
pub(crate) use self::bounded_lines::{BoundedLines, CLOSED};
#[cfg(feature = "server")]
pub(crate) use self::connection::Ending;
pub use self::mcp_client::{McpClient, McpClientBuilder};
pub use self::mcp_config::McpConfig;
pub use self::mcp_error::McpError;
pub use self::mcp_prompt::{McpPrompt, McpPromptArgument};
pub use self::mcp_resource::{McpContent, McpResource, McpResourceTemplate};
pub use self::server_link::McpHealth;
