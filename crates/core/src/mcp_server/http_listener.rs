//! Serves HTTP/1.1 connections of a socket, with limits for all connections and for each address, and a time limit for the head
//! of a request. It has no TLS, and serves only [`PATH`].

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::http_service::{McpHttpService, plain};
use crate::caller_slots::{CallerSlot, CallerSlots};

/// Where the server is.
pub(super) const PATH: &str = "/mcp";
/// The longest that the head of a request may take.
pub(super) const LONGEST_HEAD: Duration = Duration::from_secs(10);
/// Lower bound for the number of idle connections that one address may have.
const LEAST_PENDING: usize = 16;
/// The pause after an error of the machine, such as too many open files, in which others may end.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until the future is dropped, which ends all connections.
pub(super) async fn listen(listener: TcpListener, service: McpHttpService, connections: usize, head: Duration) {
    // An error is the client's, who has gone away or does not speak HTTP.
    accept(listener, connections, |peer| drop_error(connection(peer, service.clone(), head))).await;
}

async fn drop_error(connection: impl Future<Output = hyper::Result<()>>) {
    let _ = connection.await;
}

/// A connection that was accepted.
pub(crate) struct AcceptedPeer {
    pub(crate) stream: TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) pending: IdleSlot,
}

/// Counts a connection as idle until the head of a request has arrived, and again after a refused request, so that one address
/// cannot occupy all connections with idle ones.
#[derive(Clone)]
pub(crate) struct IdleSlot {
    slots: Arc<CallerSlots>,
    network: Arc<str>,
    held: Arc<Mutex<Option<CallerSlot>>>,
}

impl IdleSlot {
    fn take(slots: &Arc<CallerSlots>, address: IpAddr) -> Option<Self> {
        let network: Arc<str> = network(address).into();
        let held = Arc::new(Mutex::new(Some(slots.take(&network)?)));
        Some(Self { slots: Arc::clone(slots), network, held })
    }

    /// Ends the idle time: the head of a request has arrived.
    pub(crate) fn asked(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Counts the connection as idle again after a refusal, and closes it if its address has too many idle connections.
    pub(crate) fn answered<B>(&self, response: &mut http::Response<B>) {
        if response.status().is_client_error() {
            let slot = self.slots.take(&self.network);
            if slot.is_none() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            *self.held.lock().unwrap_or_else(PoisonError::into_inner) = slot;
        }
    }
}

/// Returns the IPv4 address, or the IPv6 network of 64 bits.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        // A network has a prefix of 64 bits at least.
        IpAddr::V6(address) => format!("{:x?}", &address.segments()[..4]),
    }
}

/// Accepts and serves at most `connections` at once, until the future is dropped, which ends all of them. One address may have a
/// quarter of them idle; a further one is closed.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    connections: usize,
    serve: impl Fn(AcceptedPeer) -> F,
) {
    let slots = Arc::new(Semaphore::new(connections));
    let pending_of = CallerSlots::new((connections / 4).max(LEAST_PENDING));
    let mut serving = JoinSet::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        while serving.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, address)) => {
                let Some(pending) = IdleSlot::take(&pending_of, address.ip()) else {
                    tracing::debug!(%address, "too many connections of this address are idle; one is closed");
                    continue;
                };
                let served = serve(AcceptedPeer { stream, address, pending });
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

async fn connection(peer: AcceptedPeer, service: McpHttpService, head: Duration) -> hyper::Result<()> {
    let AcceptedPeer { stream, pending, .. } = peer;
    let answer = service_fn(move |request: http::Request<Incoming>| {
        let (service, pending) = (service.clone(), pending.clone());
        async move {
            pending.asked();
            let mut response = match request.uri().path() {
                PATH => service.answer(request).await,
                _ => plain(StatusCode::NOT_FOUND, HeaderMap::new(), format!("the server is at {PATH}")),
            };
            pending.answered(&mut response);
            Ok::<_, Infallible>(response)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}
