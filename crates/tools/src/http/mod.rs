//! Requests to servers of the public internet, or to named hosts.
//!
//! [`HttpRequest`] is the tool. `http_target` checks the address of a request, resolves its host
//! and checks all resolved addresses. `http_exchange` then sends one request to these addresses
//! and reads the answer within limits.
//!
//! Other callers use the same two parts: described services (`api`), push notifications of A2A
//! (`http_post`), logins of MCP (`guarded_request`, `oauth_tokens`), and clients with secrets in
//! their headers (`http_address`).

pub(crate) mod guarded_request;
pub(crate) mod http_address;
pub(crate) mod http_exchange;
mod http_post;
pub(crate) mod http_request;
pub(crate) mod http_target;
pub mod oauth_tokens;

pub use self::http_request::HttpRequest;
