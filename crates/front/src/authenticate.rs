//! `Authenticate`, the hook that determines the caller of a request, with its argument
//! `RequestHead` and its error `AuthRefusal`.

use std::net::SocketAddr;

use agentflow_core::Caller;
use async_trait::async_trait;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use crate::peer_address::PeerAddress;

/// Determines the caller of HTTP requests. Called once for each request, before its body is read.
///
/// A closure implements it: `|request: RequestHead| async move { .. }`.
///
/// The server limits the time: by
/// `McpServer::handshake_timeout` for MCP, and by `A2aServer::body_timeout` for A2A. A request whose
/// caller is not known by then is refused with status 503.
///
/// # Cancel safety
/// The future is dropped when the time limit passes or the client disconnects.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// Returns the caller of a request, or [`Caller::anonymous`] for a request that needs no
    /// authentication.
    ///
    /// # Errors
    /// [`AuthRefusal`] if the request must not be served.
    async fn authenticate(&self, request: RequestHead) -> Result<Caller, AuthRefusal>;
}

#[async_trait]
impl<F, C> Authenticate for F
where
    F: Fn(RequestHead) -> C + Send + Sync + 'static,
    C: Future<Output = Result<Caller, AuthRefusal>> + Send + 'static,
{
    async fn authenticate(&self, request: RequestHead) -> Result<Caller, AuthRefusal> {
        self(request).await
    }
}

/// The head of an HTTP request: method, path, headers and the address of the client.
#[derive(Clone, Debug)]
pub struct RequestHead {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    peer: Option<SocketAddr>,
}

impl RequestHead {
    /// Creates the head of a request without headers. Servers create it from a request; this
    /// function is for tests of an [`Authenticate`].
    pub fn new(method: Method, uri: Uri) -> Self {
        Self { method, uri, headers: HeaderMap::new(), peer: None }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: http::HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    pub(crate) fn of(parts: &Parts) -> Self {
        Self {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            headers: parts.headers.clone(),
            peer: parts.extensions.get::<PeerAddress>().map(|peer| peer.0),
        }
    }

    /// Returns the method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the path without the query, still percent-encoded. A router that nests the server
    /// has removed its own prefix.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// Returns the path with the query.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns all headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns a header. Returns `None` if the request does not have it exactly once, or if it is
    /// not visible ASCII text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().ok(),
            _ => None,
        }
    }

    /// Returns the token of the header `Authorization`, if its scheme is `Bearer`.
    pub fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header("authorization")?.split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    }

    /// Returns the address of the client. Behind a proxy, it is the address of the proxy. `None` if
    /// the surrounding HTTP server does not provide it.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }
}

/// The refusal of an HTTP request before its body is read. The client receives the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct AuthRefusal {
    pub(crate) status: StatusCode,
    pub(crate) challenge: Option<HeaderValue>,
    pub(crate) text: String,
}

impl AuthRefusal {
    /// The request is not authenticated. Responds with status 401 and `WWW-Authenticate: Bearer`.
    pub fn unauthenticated(text: impl Into<String>) -> Self {
        let challenge = Some(HeaderValue::from_static("Bearer"));
        Self { status: StatusCode::UNAUTHORIZED, challenge, text: text.into() }
    }

    /// The caller is not permitted to use the server. Responds with status 403.
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, challenge: None, text: text.into() }
    }

    /// The caller cannot be determined now, for example because an identity provider does not
    /// answer. Responds with status 503.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, challenge: None, text: text.into() }
    }

    /// Sets a different value for `WWW-Authenticate`, such as `Bearer
    /// resource_metadata="https://example.com/.well-known/.."`.
    pub fn challenge(mut self, challenge: HeaderValue) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// Returns the status of the response.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the text that the client receives.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

    use super::*;

    #[test]
    fn a_bearer_token_is_read_from_one_header() {
        let head = || RequestHead::new(Method::GET, Uri::from_static("/mcp?x=1"));
        let with = |value: &'static str| {
            head().with_header(AUTHORIZATION, HeaderValue::from_static(value))
        };
        for (sent, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic abc", None),
        ] {
            assert_eq!(with(sent).bearer(), expected, "{sent}");
        }
        let twice =
            with("Bearer a").with_header(AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        assert_eq!((twice.bearer(), head().bearer()), (None, None));
        assert_eq!((head().path(), head().uri().query()), ("/mcp", Some("x=1")));
    }
}
