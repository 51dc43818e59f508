//! `ServerError`: the error of a server that cannot start.

use std::io;
use std::net::SocketAddr;

/// The error of a [`Server`](crate::Server) that cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The runtime has no store, so that runs could not be found by their ids.
    #[error(
        "the runtime of a server needs a store; give it one with `Runtime::builder().store(..)`"
    )]
    NoStore,
    /// Other machines can reach the address, and the server does not authenticate its callers.
    #[error(
        "refusing to serve {address} without authentication, since other machines can reach it; set `Server::authenticate`, or serve a loopback address"
    )]
    #[non_exhaustive]
    NotAuthenticated {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    #[non_exhaustive]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
}
