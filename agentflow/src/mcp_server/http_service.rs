//! `McpHttpService`: a server as a tower service over streamable HTTP. The transport is `rmcp`'s, without sessions: each
//! request stands for itself, so that a client can leave nothing behind. It binds no socket; `http_listener.rs` does.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::server_settings::{HttpSettings, Shared};
use super::service::Service;
use crate::mcp::Ending;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A server over streamable HTTP as a service of `tower`, for any server of HTTP: with axum it is
/// `Router::new().route_service("/mcp", service)`. [`McpServer::http_service`](super::McpServer::http_service) makes it.
/// Cloning is cheap.
///
/// It checks `Host` and `Origin`, asks the hook of [`authenticate`](super::McpServer::authenticate) and reads bodies with a
/// limit of bytes and of time. Connections, and the time for the head of a request, belong to the server around it;
/// [`McpServer::serve_http`](super::McpServer::serve_http) limits both.
#[derive(Clone)]
pub struct McpHttpService {
    shared: Arc<Shared>,
    inner: StreamableHttpService<Service, NeverSessionManager>,
}

impl McpHttpService {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let settings = &shared.settings;
        let HttpSettings { hosts, origins, .. } = &settings.http;
        let mut config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_max_request_body_bytes(settings.max_message)
            .enforce_origin_validation()
            .with_allowed_origins(origins.iter().cloned());
        config.allowed_hosts.extend(hosts.iter().cloned());
        let of_call = Arc::clone(&shared);
        let make = move || Ok(Service::new(Arc::clone(&of_call), Ending::default()));
        let inner = StreamableHttpService::new(make, Arc::new(NeverSessionManager::default()), config);
        Self { shared, inner }
    }

    /// The answer to a request: of the hook, of the limits, or of the protocol.
    pub(super) async fn answer<B>(self, request: Request<B>) -> Response<McpHttpBody>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let settings = &self.shared.settings;
        let (mut head, body) = request.into_parts();
        if let Some(authenticate) = &settings.http.authenticate {
            let checked = tokio::time::timeout(settings.handshake, authenticate.caller(head.headers.clone())).await;
            match checked {
                Ok(Ok(caller)) => {
                    head.extensions.insert(caller);
                }
                Ok(Err(refusal)) => {
                    let (status, headers, text) = refusal.into_parts();
                    return plain(status, headers, text);
                }
                Err(_) => {
                    let text = "who calls could not be checked in time; try again later";
                    return plain(StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new(), text);
                }
            }
        }
        let most = settings.max_message;
        let body = Limited::new(body, most).collect();
        let body = match tokio::time::timeout(settings.handshake, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
                let text = format!("the body has more than {most} bytes");
                return plain(StatusCode::PAYLOAD_TOO_LARGE, HeaderMap::new(), text);
            }
            Ok(Err(_)) => return plain(StatusCode::BAD_REQUEST, HeaderMap::new(), "the body could not be read"),
            Err(_) => {
                let text = format!("the body did not arrive within {:?}", settings.handshake);
                return plain(StatusCode::REQUEST_TIMEOUT, HeaderMap::new(), text);
            }
        };
        self.inner.handle(Request::from_parts(head, Full::new(body))).await.map(McpHttpBody)
    }
}

/// A response of text.
pub(super) fn plain(status: StatusCode, headers: HeaderMap, text: impl Into<Bytes>) -> Response<McpHttpBody> {
    let mut response = Response::new(McpHttpBody(Full::new(text.into()).boxed()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain"));
    response
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
        f.debug_struct("McpHttpService").field("name", &self.shared.settings.name).finish_non_exhaustive()
    }
}

/// The body of a response of [`McpHttpService`]. Dropping it before its end cancels the call that it answers.
pub struct McpHttpBody(BoxBody<Bytes, Infallible>);

impl Body for McpHttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
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
