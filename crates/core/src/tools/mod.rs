//! Tools that are ready to be given to a runtime or an agent. Each is off until a host gives it.
#![doc = include_str!("../docs/tools.md")]

#[cfg(feature = "tool-api")]
mod alert;
#[cfg(feature = "tool-api")]
mod api_access;
#[cfg(feature = "tool-api")]
mod api_description;
#[cfg(feature = "tool-api")]
mod api_error;
#[cfg(feature = "tool-api")]
mod api_exchange;
#[cfg(feature = "tool-api")]
mod api_paging;
#[cfg(feature = "tool-api")]
mod api_request;
#[cfg(feature = "tool-api")]
mod api_tool;
#[cfg(feature = "tool-api")]
mod body_encoding;
mod computing;
mod condition_tool;
#[cfg(all(feature = "documents", feature = "tool-api"))]
mod described_tools;
#[cfg(feature = "tool-api")]
mod description_form;
#[cfg(feature = "tool-api")]
mod graphql_document;
#[cfg(feature = "tool-api")]
mod graphql_tool;
#[cfg(any(feature = "a2a-client", feature = "mcp-auth"))]
mod guarded_request;
#[cfg(feature = "tool-http")]
mod http_exchange;
#[cfg(feature = "a2a-push")]
mod http_post;
#[cfg(feature = "tool-http")]
mod http_request;
#[cfg(feature = "tool-http")]
mod http_target;
#[cfg(feature = "tool-transform")]
mod json_path;
#[cfg(feature = "tool-api")]
mod oauth_access;
#[cfg(any(feature = "mcp-auth", feature = "tool-api"))]
pub(crate) mod oauth_tokens;
#[cfg(feature = "tool-api")]
mod older_schema;
#[cfg(feature = "tool-api")]
mod open_api;
#[cfg(feature = "tool-api")]
mod open_api_operation;
#[cfg(feature = "tool-api")]
mod open_api_schema;
#[cfg(feature = "tool-programs")]
mod programs;
#[cfg(feature = "tool-storage")]
mod storage;
#[cfg(feature = "tool-transform")]
mod transform_tool;
#[cfg(feature = "tool-api")]
mod url_template;
#[cfg(feature = "tool-storage")]
mod writable_folders;

#[cfg(feature = "tool-api")]
pub use self::alert::Alert;
#[cfg(feature = "tool-api")]
pub use self::api_access::ApiAccess;
#[cfg(feature = "tool-api")]
pub use self::api_description::{ApiAuth, ApiParameter, Paging, ParameterPlace};
#[cfg(feature = "tool-api")]
pub use self::api_error::ApiToolError;
#[cfg(feature = "tool-api")]
pub use self::api_tool::ApiTool;
pub use self::computing::{calculate, text};
pub use self::condition_tool::condition;
#[cfg(all(feature = "documents", feature = "tool-api"))]
pub(crate) use self::described_tools::{MOST_BYTES as MOST_DESCRIBED_BYTES, described_tools};
#[cfg(feature = "tool-api")]
pub use self::graphql_tool::GraphqlTool;
#[cfg(feature = "a2a-client")]
pub(crate) use self::guarded_request::guarded_client;
#[cfg(feature = "mcp-auth")]
pub(crate) use self::guarded_request::guarded_request;
#[cfg(feature = "tool-http")]
pub use self::http_request::HttpRequest;
#[cfg(feature = "tool-api")]
pub use self::open_api::OpenApi;
#[cfg(feature = "tool-programs")]
pub use self::programs::Programs;
#[cfg(feature = "tool-storage")]
pub use self::storage::Storage;
#[cfg(feature = "tool-transform")]
pub use self::transform_tool::transform;
#[cfg(feature = "tool-http")]
pub use agentflow_http::AddressGuard;
