//! A server for the agents and workflows of a runtime: a REST API with event streams.
//!
//! Programs depend on the crate `agentflow-sdk` and enable its feature `server`. It re-exports this
//! crate as `agentflow::server`.
#![doc = include_str!("docs/server.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// `server.rs` holds the settings and builds the router. A request passes `request_guard.rs` (host,
// origin, caller, limits, body), then the handler of its operation in `api/`. An operation is a row
// of a table (`operation.rs`), from which both the router and the OpenAPI document (`open_api.rs`)
// are built. `resources/` has the JSON forms of runs, nodes and questions, and `stream/` follows a
// run by server-sent events or a WebSocket. `page/` is the web page, which uses the API alone.
// `listener.rs` serves a socket.

mod api;
mod api_error;
mod continue_run;
mod cross_origin;
mod extract;
mod idempotency_key;
mod listener;
mod open_api;
mod operation;
mod page;
mod problem;
mod request_guard;
mod resources;
mod server;
mod server_error;
mod server_options;
mod stream;

pub use self::problem::{MistakeResource, ProblemDocument};
pub use self::server::Server;
pub use self::server_error::ServerError;
