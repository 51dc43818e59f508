//! Serves the router of `agentwf a2a serve` from a socket, with limits for all connections and for each address, and a time limit
//! for the head of a request. It has no TLS.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tower_service::Service;

use crate::mcp_server::{AcceptedPeer, accept};

/// Serves until the future is dropped, which ends all connections.
pub(super) async fn listen(listener: TcpListener, router: Router, connections: usize, head: Duration) {
    accept(listener, connections, |peer| connection(peer, router.clone(), head)).await;
}

async fn connection(peer: AcceptedPeer, router: Router, head: Duration) {
    let AcceptedPeer { stream, address, pending } = peer;
    let answer = service_fn(move |request: http::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(address));
        let (pending, mut router) = (pending.clone(), router.clone());
        async move {
            pending.asked();
            // A router is always ready.
            let Ok(mut response) = router.call(request).await;
            pending.answered(&mut response);
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(stream), answer);
    // An error is the client's, who has gone away or does not speak HTTP.
    let _ = served.await;
}
