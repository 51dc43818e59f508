//! HTTP for the crates of agentflow: the client, server-sent events, and the check of addresses
//! that a model or a peer chooses. This crate does not depend on models, tools or runs.
//!
//! - [`client()`] returns a shared `reqwest` client.
//! - [`pinned_client`] returns a client for checked addresses.
//! - [`sse`] parses event streams.
//! - [`retry_after`] reads the wait time that a response requests.
//!
//! Programs use [`AddressGuard`] as `agentflow::tools::AddressGuard`. The other items are for the
//! crates of agentflow and have no stability promise.

mod address_guard;
mod client;
mod client_error;
mod secret_header;
pub mod sse;
mod trusted_roots;
mod url_parts;
mod wait_times;

pub use self::address_guard::AddressGuard;
pub use self::client::{client, is_this_machine, pinned_client};
pub use self::client_error::{ClientError, could_not_connect, innermost_cause};
pub use self::secret_header::secret_header;
pub use self::trusted_roots::TrustedRoots;
pub use self::url_parts::percent_decoded;
pub use self::wait_times::retry_after;
