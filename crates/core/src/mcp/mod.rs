//! Servers of the Model Context Protocol: their tools, by names such as `mcp.files.read`, their resources and prompts. The protocol itself is the crate
//! `rmcp`'s; none of its types is public here.
#![doc = include_str!("../docs/mcp.md")]

#[cfg(feature = "mcp-auth")]
mod authorization;
mod bounded_lines;
mod child_server;
mod config_entry;
mod connection;
mod elicited;
mod given_secrets;
mod handshake;
mod heard_answers;
#[cfg(feature = "mcp-http")]
mod http_failures;
#[cfg(feature = "mcp-http")]
mod http_sender;
#[cfg(feature = "mcp-http")]
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

#[cfg(feature = "cli")]
pub(crate) use self::authorization::can_be_logged_in_to;
#[cfg(feature = "mcp-auth")]
pub use self::authorization::{McpAuthorization, McpLoginFolder, McpLogins};
#[cfg(feature = "mcp-server")]
pub(crate) use self::bounded_lines::{BoundedLines, CLOSED};
#[cfg(feature = "mcp-server")]
pub(crate) use self::connection::Ending;
pub use self::mcp_client::{McpClient, McpClientBuilder};
pub use self::mcp_config::McpConfig;
pub use self::mcp_error::McpError;
pub use self::mcp_prompt::{McpPrompt, McpPromptArgument};
pub use self::mcp_resource::{McpContent, McpResource, McpResourceTemplate};
pub use self::server_link::McpHealth;
