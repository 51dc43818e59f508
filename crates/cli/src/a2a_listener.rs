//! Serves the router of `agentwf a2a serve` on a socket. Limits the connections in total and per
//! address, and the time for the head of a request. Has no TLS.

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tower_service::Service;

use agentflow_front::{ConnectionLimits, serve_connections};

/// Serves until the future is dropped. Dropping it closes all connections.
pub(super) async fn listen(listener: TcpListener, router: Router, limits: ConnectionLimits) {
    serve_connections(listener, limits, move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move {
            // An axum router is always ready, so `poll_ready` is not needed.
            let Ok(response) = router.call(request.map(Body::new)).await;
            response
        }
    })
    .await;
}
