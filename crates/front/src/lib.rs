//! Authentication of HTTP requests to the servers of this library: [`Authenticate`] determines the
//! caller of a request, and [`BearerToken`] does so by a token.
//!
//! [`McpServer::authenticate`] and [`A2aServer::authenticate`] take the same implementation. Without
//! one, every client that can connect may call.
//!
//! ```
//! use agentflow::Caller;
//! use agentflow::front::{Authenticate, AuthRefusal, RequestHead};
//!
//! /// Trusts the proxy in front of the server, which sets the header.
//! struct ProxyUser;
//!
//! #[agentflow::async_trait]
//! impl Authenticate for ProxyUser {
//!     async fn authenticate(&self, request: RequestHead) -> Result<Caller, AuthRefusal> {
//!         match request.header("x-user") {
//!             Some("mallory") => Err(AuthRefusal::forbidden("this account is closed")),
//!             Some(user) => Ok(Caller::new(user).with_scopes(["invoices"])),
//!             None => Err(AuthRefusal::unauthenticated("log in first")),
//!         }
//!     }
//! }
//! # let runtime = agentflow::Runtime::builder().build();
//! let server = agentflow::mcp_server::McpServer::from_runtime(&runtime).authenticate(ProxyUser);
//! # drop(server);
//! ```
//!
//! [`McpServer::authenticate`]: https://docs.rs/agentflow-sdk/latest/agentflow/mcp_server/struct.McpServer.html#method.authenticate
//! [`A2aServer::authenticate`]: https://docs.rs/agentflow-sdk/latest/agentflow/a2a_server/struct.A2aServer.html#method.authenticate

// The other items are for the servers in the crates of agentflow and have no stability promise.
// A request passes `http_front.rs`: its host and origin (`host_header.rs`, `allowed_origins.rs`),
// its caller (`authenticate.rs`), the slots of the caller (`caller_slots.rs`), and its body.
// `listener.rs` accepts the connections.

mod allowed_origins;
mod authenticate;
mod bearer_token;
mod caller_slots;
mod host_header;
mod http_front;
#[cfg(feature = "listener")]
mod listener;
mod peer_address;

pub use self::authenticate::{AuthRefusal, Authenticate, RequestHead};
pub use self::bearer_token::BearerToken;
#[doc(hidden)]
pub use self::caller_slots::{CallerPermit, CallerPermits, CallerSlot, CallerSlots};
#[doc(hidden)]
pub use self::http_front::{
    FrontSettings, HttpFront, Rejection, RequestSlot, StreamSlot, rejection,
};
#[cfg(feature = "listener")]
#[doc(hidden)]
pub use self::listener::{ConnectionLimits, serve_connections};
#[doc(hidden)]
pub use self::peer_address::PeerAddress;
