//! Serving the router of `agentwf a2a serve` from a socket: so many connections at once, each with a time limit for the head of a
//! request. It knows no TLS.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service;

use crate::mcp_server::accept;

/// Serves until the future is dropped, which ends all connections.
pub(super) async fn listen(listener: TcpListener, router: Router, connections: usize, head: Duration) {
    accept(listener, connections, |stream| connection(stream, router.clone(), head)).await;
}

async fn connection(stream: TcpStream, router: Router, head: Duration) {
    let answer = service_fn(move |request: http::Request<Incoming>| {
        // A router is always ready.
        router.clone().call(request.map(Body::new))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(stream), answer);
    // An error is the client's, who has gone away or does not speak HTTP.
    let _ = served.await;
}
