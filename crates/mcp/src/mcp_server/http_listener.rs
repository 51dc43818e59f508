//! Serves HTTP/1.1 connections of a socket without TLS. It limits the number of connections in
//! total and for each address, and the time for the head of a request. Only [`PATH`] is served.

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
use agentflow_http::{CallerSlot, CallerSlots};

/// Path of the server.
pub(super) const PATH: &str = "/mcp";
/// Maximum time for the head of a request.
pub(super) const LONGEST_HEAD: Duration = Duration::from_secs(10);
/// Minimum for the limit of idle connections of one address.
const LEAST_PENDING: usize = 16;
/// Pause after a system error, such as too many open files. Other connections may end in the
/// meantime.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts and serves connections until the future is dropped, which closes all connections.
pub(super) async fn listen(
    listener: TcpListener,
    service: McpHttpService,
    connections: usize,
    head: Duration,
) {
    // A connection fails because its client disconnected or does not speak HTTP. The server need
    // not report that.
    accept(listener, connections, |peer| drop_error(connection(peer, service.clone(), head))).await;
}

async fn drop_error(connection: impl Future<Output = hyper::Result<()>>) {
    let _ = connection.await;
}

/// An accepted connection.
#[allow(missing_debug_implementations, reason = "it holds a socket")]
#[doc(hidden)]
pub struct AcceptedPeer {
    /// The connection.
    pub stream: TcpStream,
    /// The address of the client.
    pub address: SocketAddr,
    /// The idle slot that the connection holds.
    pub pending: IdleSlot,
}

/// The idle slot of a connection. A connection holds a slot until the head of a request has
/// arrived, and again after a refused request. The slots of an address are limited, so that one
/// address cannot occupy all connections with idle ones.
#[allow(missing_debug_implementations, reason = "it holds a slot")]
#[derive(Clone)]
#[doc(hidden)]
pub struct IdleSlot {
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

    /// Releases the slot, because the head of a request has arrived.
    pub fn asked(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Takes a slot again after a refused request. If the address has no free slot, the connection
    /// is closed.
    pub fn answered<B>(&self, response: &mut http::Response<B>) {
        if response.status().is_client_error() {
            let slot = self.slots.take(&self.network);
            if slot.is_none() {
                response
                    .headers_mut()
                    .insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            *self.held.lock().unwrap_or_else(PoisonError::into_inner) = slot;
        }
    }
}

/// Returns the IPv4 address, or the /64 network of the IPv6 address.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        // A client usually controls a whole /64 network.
        IpAddr::V6(address) => format!("{:x?}", &address.segments()[..4]),
    }
}

/// Accepts connections and serves at most `connections` of them at once, until the future is
/// dropped. Dropping it closes all connections. One address may have a quarter of them idle.
/// Further idle ones are closed.
pub async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    connections: usize,
    serve: impl Fn(AcceptedPeer) -> F,
) {
    let slots = Arc::new(Semaphore::new(connections));
    let pending_of = CallerSlots::new((connections / 4).max(LEAST_PENDING));
    let mut serving = JoinSet::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        // Removes finished connections from the set, which would grow otherwise.
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
            // This connection failed before it was accepted. The socket is fine.
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(
    peer: AcceptedPeer,
    service: McpHttpService,
    head: Duration,
) -> hyper::Result<()> {
    let AcceptedPeer { stream, pending, .. } = peer;
    let answer = service_fn(move |request: http::Request<Incoming>| {
        let (service, pending) = (service.clone(), pending.clone());
        async move {
            pending.asked();
            let mut response = match request.uri().path() {
                PATH => service.answer(request).await,
                _ => plain(
                    StatusCode::NOT_FOUND,
                    HeaderMap::new(),
                    format!("the server is at {PATH}"),
                ),
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
