//! `HttpFront`: the checks that each request passes before a protocol handles it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agentflow_core::Caller;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::allowed_origins;
use crate::authenticate::{AuthRefusal, Authenticate, RequestHead};
use crate::caller_slots::{CallerSlot, CallerSlots};
use crate::host_header::{named_host, without_port};
use crate::peer_address::PeerAddress;

/// Hosts that are always allowed.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Settings of a front.
#[derive(Clone)]
pub struct FrontSettings {
    /// Allowed hosts in addition to `localhost` and the loopback addresses. An entry without a port
    /// allows every port.
    pub hosts: Vec<String>,
    /// Allowed origins of web pages, with `:*` for every port.
    pub origins: Vec<String>,
    /// Allows requests from pages that the server itself serves.
    pub own_pages: bool,
    /// Determines the callers.
    pub authenticate: Option<Arc<dyn Authenticate>>,
    /// Maximum time to determine a caller.
    pub authenticate_timeout: Duration,
    /// Maximum size of a body in bytes.
    pub max_body: usize,
    /// Maximum time to read a body.
    pub body_timeout: Duration,
    /// Maximum number of concurrent requests, without open streams.
    pub max_requests: usize,
    /// The same for one caller.
    pub max_requests_of_caller: usize,
    /// Maximum number of concurrent streams.
    pub max_streams: usize,
    /// The same for one caller.
    pub max_streams_of_caller: usize,
}

impl fmt::Debug for FrontSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontSettings")
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .field("authenticates", &self.authenticate.is_some())
            .finish_non_exhaustive()
    }
}

/// The response to a request that is refused before a protocol handles it. Boxed, because it is
/// large.
pub type Rejection = Box<Response<Bytes>>;

/// A slot among all requests of a server. Dropping it frees the slot.
#[derive(Debug)]
pub struct RequestSlot {
    _permit: OwnedSemaphorePermit,
}

/// Slots of an open stream. Dropping it frees them.
#[derive(Debug)]
pub struct StreamSlot {
    _permit: OwnedSemaphorePermit,
    _own: Option<CallerSlot>,
}

/// Checks requests to a server: host, origin, authentication, size and time of the body, and the
/// number of concurrent requests and streams, in total and for each caller.
#[derive(Debug)]
pub struct HttpFront {
    settings: FrontSettings,
    requests: Arc<Semaphore>,
    requests_of: Arc<CallerSlots>,
    streams: Arc<Semaphore>,
    streams_of: Arc<CallerSlots>,
}

impl HttpFront {
    /// Creates a front.
    pub fn new(settings: FrontSettings) -> Self {
        let permits = |most: usize| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Self {
            requests: permits(settings.max_requests),
            requests_of: CallerSlots::new(settings.max_requests_of_caller),
            streams: permits(settings.max_streams),
            streams_of: CallerSlots::new(settings.max_streams_of_caller),
            settings,
        }
    }

    /// Returns `true` if the server authenticates its callers.
    pub fn authenticates(&self) -> bool {
        self.settings.authenticate.is_some()
    }

    /// Checks the host and the origin of a request. Returns the host with its port, in lower case.
    ///
    /// # Errors
    /// 400 if the request does not name exactly one host. 403 if it is not a host of this server,
    /// or the origin is not allowed.
    pub fn check_address(&self, parts: &Parts) -> Result<String, Rejection> {
        let Some(host) = named_host(parts) else {
            return Err(rejection(
                StatusCode::BAD_REQUEST,
                "the request does not name one host, in the header `Host`",
            ));
        };
        if !self.is_own_host(&host) {
            let problem = "the header `Host` does not name a host of this server";
            return Err(rejection(StatusCode::FORBIDDEN, problem));
        }
        // A request has one origin. A second one could hide the first from a proxy.
        let mut origins = parts.headers.get_all(header::ORIGIN).iter();
        let origin = match (origins.next(), origins.next()) {
            (None, _) => return Ok(host),
            (Some(origin), None) => origin.to_str().unwrap_or_default(),
            _ => "",
        };
        // The host was checked above, so a page of another server cannot have this origin.
        let is_own_page = || {
            let authority = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            self.settings.own_pages
                && authority.is_some_and(|authority| authority.eq_ignore_ascii_case(&host))
        };
        match allowed_origins::is_allowed(origin, &self.settings.origins) || is_own_page() {
            true => Ok(host),
            false => Err(rejection(
                StatusCode::FORBIDDEN,
                "pages of this origin may not send requests to this server",
            )),
        }
    }

    fn is_own_host(&self, host: &str) -> bool {
        let name = without_port(host);
        if LOOPBACK.contains(&name) {
            return true;
        }
        self.settings.hosts.iter().any(|allowed| {
            // An IPv6 address may be given without brackets.
            let bare = name.trim_start_matches('[').trim_end_matches(']');
            allowed.eq_ignore_ascii_case(host)
                || allowed.eq_ignore_ascii_case(name)
                || allowed.eq_ignore_ascii_case(bare)
        })
    }

    /// Returns the caller of a request, or `None` if the server does not authenticate callers.
    ///
    /// # Errors
    /// The response of the refusal. 503 if the caller is not known in time.
    pub async fn caller(&self, parts: &Parts) -> Result<Option<Caller>, Rejection> {
        let Some(authenticate) = &self.settings.authenticate else { return Ok(None) };
        let called = authenticate.authenticate(RequestHead::of(parts));
        match tokio::time::timeout(self.settings.authenticate_timeout, called).await {
            Ok(Ok(caller)) => Ok(Some(caller)),
            Ok(Err(refusal)) => Err(refused(refusal)),
            Err(_) => Err(busy(
                StatusCode::SERVICE_UNAVAILABLE,
                "authentication timed out; try again later",
            )),
        }
    }

    /// Takes a slot among all requests. Call it first, so that it also limits authentication.
    ///
    /// # Errors
    /// 503 if all slots are taken.
    pub fn request_slot(&self) -> Result<RequestSlot, Rejection> {
        match Arc::clone(&self.requests).try_acquire_owned() {
            Ok(permit) => Ok(RequestSlot { _permit: permit }),
            Err(_) => {
                let problem = "too many requests at once; try again later";
                Err(busy(StatusCode::SERVICE_UNAVAILABLE, problem))
            }
        }
    }

    /// Takes a slot among the requests of a caller. Call it after [`caller`](Self::caller), so that
    /// one caller cannot use the slots of another. Without a known caller, the limit applies to each
    /// address of a client, if the HTTP server provides it; otherwise there is no limit.
    ///
    /// # Errors
    /// 429 if the caller has taken its share.
    pub fn caller_slot(
        &self,
        parts: &Parts,
        caller: Option<&Caller>,
    ) -> Result<Option<CallerSlot>, Rejection> {
        self.own_slot(&self.requests_of, parts, caller).map_err(|()| {
            let problem = "too many requests of this caller at once; try again later";
            busy(StatusCode::TOO_MANY_REQUESTS, problem)
        })
    }

    /// Takes the slots of a stream, as for a request. `remedy`
    /// is the advice for the client.
    ///
    /// # Errors
    /// 503 if all slots are taken, 429 if the caller has taken its share.
    pub fn stream_slot(
        &self,
        parts: &Parts,
        caller: Option<&Caller>,
        remedy: &str,
    ) -> Result<StreamSlot, Rejection> {
        let own = self.own_slot(&self.streams_of, parts, caller).map_err(|()| {
            let problem = format!("too many streams of this caller at once; {remedy}");
            busy(StatusCode::TOO_MANY_REQUESTS, &problem)
        })?;
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            let problem = format!("too many streams at once; {remedy}");
            return Err(busy(StatusCode::SERVICE_UNAVAILABLE, &problem));
        };
        Ok(StreamSlot { _permit: permit, _own: own })
    }

    /// Takes a slot of the caller, or of the address. Fails if all are taken.
    fn own_slot(
        &self,
        slots: &Arc<CallerSlots>,
        parts: &Parts,
        caller: Option<&Caller>,
    ) -> Result<Option<CallerSlot>, ()> {
        let key = match caller.filter(|caller| !caller.is_anonymous()) {
            Some(caller) => format!("caller {caller}"),
            None => match parts.extensions.get::<PeerAddress>() {
                Some(PeerAddress(peer)) => format!("address {}", address(*peer)),
                None => return Ok(None),
            },
        };
        slots.take(&key).map(Some).ok_or(())
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// 413 if it is too large, 408 if it does not arrive in time, 400 if it ends early.
    pub async fn body<B>(&self, parts: &Parts, body: B) -> Result<Bytes, Rejection>
    where
        B: Body,
        B::Error: Into<BoxError>,
    {
        let most = self.settings.max_body;
        let too_large = || {
            let problem = format!("the body has more than {most} bytes");
            rejection(StatusCode::PAYLOAD_TOO_LARGE, problem)
        };
        // A declared length that is too large is refused early. `Limited` counts the actual bytes.
        let declared = parts.headers.get(header::CONTENT_LENGTH);
        let declared = declared.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if declared.is_some_and(|length| length > most as u64) {
            return Err(too_large());
        }
        let read = Limited::new(body, most).collect();
        match tokio::time::timeout(self.settings.body_timeout, read).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
                Err(too_large())
            }
            Ok(Err(_)) => Err(rejection(StatusCode::BAD_REQUEST, "the body could not be read")),
            Err(_) => {
                let limit = self.settings.body_timeout;
                let problem = format!("the body did not arrive within {limit:?}");
                Err(rejection(StatusCode::REQUEST_TIMEOUT, problem))
            }
        }
    }
}

/// Returns the address without the port, and an IPv4 address in its IPv4 form.
fn address(peer: SocketAddr) -> String {
    peer.ip().to_canonical().to_string()
}

fn refused(refusal: AuthRefusal) -> Rejection {
    let AuthRefusal { status, challenge, text } = refusal;
    let mut response = rejection(status, text);
    if let Some(challenge) = challenge {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Creates a response to a request that may succeed later.
fn busy(status: StatusCode, problem: &str) -> Rejection {
    let mut response = rejection(status, problem.to_owned());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Creates a response with a text.
pub fn rejection(status: StatusCode, problem: impl Into<Bytes>) -> Rejection {
    let mut response = Box::new(Response::new(problem.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
