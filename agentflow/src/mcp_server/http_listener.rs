//! Serving connections of HTTP/1.1 from a socket, so many at once, each with a time limit for the head of a request. It
//! knows no TLS and no path but [`PATH`].

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::http_service::{McpHttpService, plain};

/// Where the server is.
pub(super) const PATH: &str = "/mcp";
/// The pause after an error of the machine, such as too many open files, in which others may end.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until the future is dropped, which ends all connections.
pub(super) async fn listen(listener: TcpListener, service: McpHttpService, connections: usize, head: Duration) {
    // An error is the client's, who has gone away or does not speak HTTP.
    accept(listener, connections, |stream| drop_error(connection(stream, service.clone(), head))).await;
}

async fn drop_error(connection: impl Future<Output = hyper::Result<()>>) {
    let _ = connection.await;
}

/// Has each connection served, so many at once, until the future is dropped, which ends all of them.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    connections: usize,
    serve: impl Fn(TcpStream) -> F,
) {
    let slots = Arc::new(Semaphore::new(connections));
    let mut serving = JoinSet::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        while serving.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = serve(stream);
                serving.spawn(async move {
                    served.await;
                    drop(slot);
                });
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(stream: TcpStream, service: McpHttpService, head: Duration) -> hyper::Result<()> {
    let answer = service_fn(move |request: http::Request<Incoming>| {
        let service = service.clone();
        async move {
            let response = match request.uri().path() {
                PATH => service.answer(request).await,
                _ => plain(StatusCode::NOT_FOUND, HeaderMap::new(), format!("the server is at {PATH}")),
            };
            Ok::<_, Infallible>(response)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}
