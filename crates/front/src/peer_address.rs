//! `PeerAddress`: the address of a client, as an extension of its requests.

use std::net::SocketAddr;

/// Address of the client that sent a request, in the extensions of the request.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub SocketAddr);
