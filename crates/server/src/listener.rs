//! Serves a router on a socket, with limits on connections, until a future ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentflow_front::{ConnectionLimits, serve_connections};
use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tower_service::Service;

use crate::server_options::{ServerOptions, StopSender};

/// Maximum time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a stopping server looks for open requests.
const POLL: Duration = Duration::from_millis(20);

/// Counts a request while it is handled.
struct OpenRequest(Arc<AtomicUsize>);

impl OpenRequest {
    fn begin(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves until `stop` is ready, then waits for open requests up to the limit.
pub(crate) async fn serve_router(
    listener: TcpListener,
    router: Router,
    settings: &ServerOptions,
    stop: impl Future<Output = ()>,
    stop_sender: StopSender,
) {
    let limits = ConnectionLimits { connections: settings.max_connections, head: HEAD_TIMEOUT };
    let open = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&open);
    let serving = serve_connections(listener, limits, move |request: Request<Incoming>| {
        let (mut router, open) = (router.clone(), OpenRequest::begin(&counted));
        async move {
            // An axum router is always ready, so `poll_ready` is not needed.
            let Ok(response) = router.call(request.map(Body::new)).await;
            drop(open);
            response
        }
    });
    let drained = async {
        stop.await;
        // Streams end now. Requests that have begun get their response.
        stop_sender.stop();
        let no_request = async {
            while open.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(POLL).await;
            }
            // The last response is written after its handler has returned.
            tokio::time::sleep(POLL).await;
        };
        let _ = tokio::time::timeout(settings.shutdown_timeout, no_request).await;
    };
    tokio::select! {
        () = serving => {}
        () = drained => {}
    }
}
