//! Serves the router of `agentwf a2a serve` on a socket. Limits the connections in total and per
//! address, and the time for the head of a request. Has no TLS.

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

use agentflow_mcp::mcp_server::{AcceptedPeer, accept};

/// Serves until the future is dropped. Dropping it closes all connections.
pub(super) async fn listen(
    listener: TcpListener,
    router: Router,
    connections: usize,
    head: Duration,
) {
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
            // An axum router is always ready, so `poll_ready` is not needed.
            let Ok(mut response) = router.call(request).await;
            pending.answered(&mut response);
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(stream), answer);
    // An error means that the client disconnected or does not speak HTTP.
    let _ = served.await;
}
