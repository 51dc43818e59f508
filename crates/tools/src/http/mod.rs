//! Requests to servers of the public internet, or to named hosts.
//!
//! [`HttpRequest`] is the tool. Its rules (`http_target`) and its bounded exchange (`http_exchange`) also serve the described
//! services, the push notifications of A2A and the logins of MCP.

pub(crate) mod guarded_request;
pub(crate) mod http_address;
pub(crate) mod http_exchange;
mod http_post;
pub(crate) mod http_request;
pub(crate) mod http_target;
pub mod oauth_tokens;

pub use self::http_request::HttpRequest;
