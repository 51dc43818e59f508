//! `McpHttpService`: an MCP server as a `tower` service over streamable HTTP, based on `rmcp`'s
//! transport. Clients of older revisions get sessions, up to a limit. All other requests are served
//! without state. It does not bind a socket; `http_listener.rs` does.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::http_sessions::{HttpSessions, SessionProblem};
use super::server_settings::Shared;
use super::service::{ClientChannel, Service};
use crate::mcp::Ending;
use agentflow_core::Caller;
use agentflow_front::{FrontSettings, HttpFront, Rejection, rejection};

/// Header with the id of the session.
const SESSION: &str = "mcp-session-id";
/// Header with the method of the request.
const METHOD: &str = "mcp-method";
/// Header with the name of the called tool, among others.
const TOOL: &str = "mcp-name";
/// Header with the protocol revision.
const REVISION: &str = "mcp-protocol-version";
/// First revision without sessions. Revisions are dates, so they can be compared as strings.
const WITHOUT_SESSIONS: &[u8] = b"2026-07-28";
/// A header value that is not the id of any session.
const NO_SESSION: HeaderValue = HeaderValue::from_static("none");

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An MCP server over streamable HTTP, as a `tower` service for any HTTP server. With axum:
/// `Router::new().route_service("/mcp", service)`. Created by
/// [`McpServer::http_service`](super::McpServer::http_service). Cloning is cheap.
///
/// The service checks `Host` and `Origin`, calls the hook of
/// [`authenticate`](super::McpServer::authenticate), and limits the size of request bodies and the
/// time to read them. The surrounding HTTP server must limit the number of connections and the time
/// for the head of a request; [`McpServer::serve_http`](super::McpServer::serve_http) does both.
/// Sessions end when the last clone is dropped.
#[derive(Clone)]
pub struct McpHttpService {
    shared: Arc<Shared>,
    front: Arc<HttpFront>,
    /// Serves requests without a session.
    inner: StreamableHttpService<Service, NeverSessionManager>,
    sessions: Option<SessionService>,
}

/// Serves requests of sessions.
#[derive(Clone)]
struct SessionService {
    sessions: HttpSessions,
    inner: StreamableHttpService<Service, HttpSessions>,
    _ends: Arc<EndSessionsGuard>,
}

/// Ends all sessions when the last clone of the service is dropped.
struct EndSessionsGuard(HttpSessions);

impl Drop for EndSessionsGuard {
    fn drop(&mut self) {
        self.0.end_all();
    }
}

impl McpHttpService {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let settings = &shared.settings;
        let front = Arc::new(HttpFront::new(FrontSettings {
            hosts: settings.http.hosts.clone(),
            origins: settings.http.origins.clone(),
            own_pages: false,
            authenticate: settings.http.authenticate.clone(),
            authenticate_timeout: settings.handshake,
            max_body: settings.max_message,
            body_timeout: settings.handshake,
            // Calls and sessions have separate limits, in total and for each caller.
            max_requests: usize::MAX,
            max_requests_of_caller: usize::MAX,
            max_streams: usize::MAX,
            max_streams_of_caller: usize::MAX,
        }));
        // The front checks the host and the origin.
        let config = StreamableHttpServerConfig::default()
            .with_max_request_body_bytes(settings.max_message)
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let make = |reach| {
            let of_call = Arc::clone(&shared);
            move || Ok(Service::new(Arc::clone(&of_call), Ending::default(), reach))
        };
        let sessions = (settings.http.max_sessions > 0).then(|| {
            let mut config = config.clone().with_legacy_session_mode(true);
            // Clients of revisions before 2025-11-25 treat an event without a message as an error.
            config.sse_retry = None;
            let sessions = HttpSessions::new(&settings.http);
            let inner = StreamableHttpService::new(
                make(ClientChannel::Session),
                Arc::new(sessions.clone()),
                config,
            );
            SessionService { inner, _ends: Arc::new(EndSessionsGuard(sessions.clone())), sessions }
        });
        let config = config.with_legacy_session_mode(false);
        let inner = StreamableHttpService::new(
            make(ClientChannel::Request),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        Self { shared, front, inner, sessions }
    }

    /// Checks and authenticates a request, and reads its body.
    async fn admit<B>(&self, head: &mut Parts, body: B) -> Result<Bytes, Rejection>
    where
        B: Body,
        B::Error: Into<BoxError>,
    {
        self.front.check_address(head)?;
        if let Some(caller) = self.front.caller(head).await? {
            head.extensions.insert(caller);
        } else if self.shared.runtime.controls_access() {
            // A middleware may have authenticated the caller.
            head.extensions.get_or_insert_with(Caller::anonymous);
        }
        self.front.body(head, body).await
    }

    /// Authenticates, limits and answers a request.
    pub(super) async fn answer<B>(self, request: Request<B>) -> Response<McpHttpBody>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let (mut head, body) = request.into_parts();
        let body = match self.admit(&mut head, body).await {
            Ok(body) => body,
            Err(rejection) => return rejection.map(McpHttpBody::new),
        };
        let in_session = self.sessions.as_ref().filter(|of| of.takes(&mut head, &body));
        let session = head.headers.get(SESSION).filter(|id| **id != NO_SESSION).cloned();
        // `rmcp` would accept this request without a check for the session.
        if in_session.is_some() && session.is_none() && head.method == Method::DELETE {
            return plain(StatusCode::NOT_FOUND, SessionProblem::Ended.to_string());
        }
        let is_delete = head.method == Method::DELETE;
        // `rmcp` compares the parameter headers with the schema that was listed last, so the tool
        // must have been listed.
        let is_call = head.headers.get(METHOD).is_some_and(|method| method == "tools/call");
        if let Some(name) = head.headers.get(TOOL).filter(|_| is_call) {
            drop(self.shared.offer(name.to_str().unwrap_or_default()).await);
        }
        let kind = head
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        let is_json = kind
            .split(';')
            .next()
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
        let request = Request::from_parts(head, Full::new(body.clone()));
        let response = match in_session {
            Some(of) => {
                let response = of.inner.handle(request).await;
                // `rmcp` reports a session that ended during the request as an internal error.
                if response.status() == StatusCode::INTERNAL_SERVER_ERROR
                    && session.is_some_and(|id| of.has_ended(&id))
                {
                    return plain(StatusCode::NOT_FOUND, SessionProblem::Ended.to_string());
                }
                response
            }
            None => self.inner.handle(request).await,
        };
        match response.status() {
            StatusCode::ACCEPTED if is_delete => plain(StatusCode::NO_CONTENT, ""),
            // `rmcp` uses this status also for a body that it cannot parse.
            StatusCode::UNSUPPORTED_MEDIA_TYPE if is_json => unread(&body),
            _ => response.map(McpHttpBody),
        }
    }
}

impl SessionService {
    /// Returns `true` if the session of a request has ended since the request was accepted.
    fn has_ended(&self, id: &HeaderValue) -> bool {
        id.to_str().is_ok_and(|id| !self.sessions.is_open(id))
    }

    /// Returns `true` if the request belongs to a session or opens one. The session of another
    /// caller is treated as unknown.
    fn takes(&self, head: &mut Parts, body: &[u8]) -> bool {
        // Newer revisions have no sessions. A client may still send the header.
        if head
            .headers
            .get(REVISION)
            .is_some_and(|revision| revision.as_bytes() >= WITHOUT_SESSIONS)
        {
            head.headers.remove(SESSION);
        }
        match head.headers.get(SESSION) {
            Some(id) => {
                let has = id
                    .to_str()
                    .is_ok_and(|id| self.sessions.has(id, head.extensions.get::<Caller>()));
                if !has {
                    // `rmcp` then answers that the session does not exist.
                    head.headers.insert(SESSION, NO_SESSION);
                }
                true
            }
            None if head.method == Method::POST && is_initialize(body) => {
                match self.sessions.room(head.extensions.get()) {
                    Some(room) => {
                        head.extensions.insert(room);
                        true
                    }
                    None => {
                        tracing::warn!(
                            "no room for a further session; its client is served without one"
                        );
                        false
                    }
                }
            }
            None => false,
        }
    }
}

/// Returns `true` if the message is the request that opens a session.
fn is_initialize(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Message<'m> {
        #[serde(borrow)]
        method: Option<Cow<'m, str>>,
    }
    let message: Option<Message<'_>> = serde_json::from_slice(body).ok();
    message.is_some_and(|message| message.method.as_deref() == Some("initialize"))
}

/// Creates the response to a body that is not a JSON-RPC message.
fn unread(body: &[u8]) -> Response<McpHttpBody> {
    let (code, problem) = match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Err(error) => (-32700, format!("the body is not JSON: {error}")),
        Ok(_) => (
            -32600,
            "the body is not one message of JSON-RPC 2.0; several at once are not read".to_owned(),
        ),
    };
    let error = serde_json::json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": problem}});
    let mut response = plain(StatusCode::BAD_REQUEST, error.to_string());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Creates a plain text response.
pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<McpHttpBody> {
    rejection(status, text).map(McpHttpBody::new)
}

impl<B> tower_service::Service<Request<B>> for McpHttpService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<McpHttpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

impl fmt::Debug for McpHttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHttpService")
            .field("name", &self.shared.settings.name)
            .finish_non_exhaustive()
    }
}

/// The body of a response of [`McpHttpService`]. Dropping an unfinished body cancels the call that
/// it answers, unless the call belongs to a session.
pub struct McpHttpBody(BoxBody<Bytes, Infallible>);

impl McpHttpBody {
    fn new(text: Bytes) -> Self {
        Self(Full::new(text).boxed())
    }
}

impl Body for McpHttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl fmt::Debug for McpHttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("McpHttpBody")
    }
}
