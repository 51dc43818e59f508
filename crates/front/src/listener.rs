//! Serves HTTP/1.1 connections of a socket without TLS. It limits the number of connections in
//! total and for each address, and the time for the head of a request.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::caller_slots::{CallerSlot, CallerSlots};
use crate::peer_address::PeerAddress;

/// Minimum for the limit of idle connections of one address.
const LEAST_PENDING: usize = 16;
/// Pause after a system error, such as too many open files. Other connections may end in the
/// meantime.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits of [`serve_connections`].
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of concurrent connections, at least 1. One address may have a quarter of them
    /// idle, but at least 16. Further idle ones are closed.
    pub connections: usize,
    /// Maximum time for the head of a request.
    pub head: Duration,
}

/// An accepted connection.
struct AcceptedPeer {
    stream: TcpStream,
    address: SocketAddr,
    /// The idle slot that the connection holds.
    pending: IdleSlot,
}

/// The idle slot of a connection. A connection holds a slot until the head of a request has
/// arrived, and again after a refused request. The slots of an address are limited, so that one
/// address cannot occupy all connections with idle ones.
#[derive(Clone)]
struct IdleSlot {
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
    fn asked(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Takes a slot again after a refused request. If the address has no free slot, the connection
    /// is closed.
    fn answered<B>(&self, response: &mut Response<B>) {
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

/// Accepts connections and serves HTTP/1.1 on them, with `answer` for each request, until the future
/// is dropped. Dropping it closes all connections. Requests have the extension [`PeerAddress`].
pub async fn serve_connections<F, B>(
    listener: TcpListener,
    limits: ConnectionLimits,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let connections = limits.connections.clamp(1, Semaphore::MAX_PERMITS);
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
                let peer = AcceptedPeer { stream, address, pending };
                let served = connection(peer, limits.head, answer.clone());
                serving.spawn(async move {
                    // A connection fails because its client disconnected or does not speak HTTP. The
                    // server need not report that.
                    let _ = served.await;
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

async fn connection<F, B>(
    peer: AcceptedPeer,
    head: Duration,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) -> hyper::Result<()>
where
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let AcceptedPeer { stream, address, pending } = peer;
    let answered = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(PeerAddress(address));
        let (pending, answer) = (pending.clone(), answer.clone());
        async move {
            pending.asked();
            let mut response = answer(request).await;
            pending.answered(&mut response);
            Ok::<_, Infallible>(response)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(stream), answered)
        // For WebSockets, which leave HTTP after their handshake.
        .with_upgrades()
        .await
}
