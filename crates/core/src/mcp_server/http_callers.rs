//! Who calls over HTTP: `McpCaller` with its scopes, `McpRefusal` for whom may not, and the hook that tells them apart. It
//! knows no keys itself.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};

/// Who calls a server over HTTP, as [`McpServer::authenticate`](super::McpServer::authenticate) found from the headers.
///
/// A service around [`McpHttpService`](super::McpHttpService) that has checked its clients itself can put one into the
/// extensions of a request instead; a hook replaces it.
#[derive(Clone, Debug)]
#[must_use]
pub struct McpCaller {
    name: Arc<str>,
    scopes: Vec<Arc<str>>,
    approves: bool,
}

impl McpCaller {
    /// A caller without scopes of its own. Runs that it starts have this name as their
    /// caller ([`StartRun::caller`](crate::runtime::StartRun::caller)).
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), scopes: Vec::new(), approves: false }
    }

    /// Grants it scopes, beside those of the server ([`McpServer::grant`](super::McpServer::grant)). Default: none.
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Lets it answer the approvals of the runs that it has begun: at gates, and before calls of tools. Default: it is not
    /// asked, as [`McpServer::clients_approve`](super::McpServer::clients_approve) says.
    pub fn approves(mut self) -> Self {
        self.approves = true;
        self
    }

    pub(super) fn may_approve(&self) -> bool {
        self.approves
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn scopes(&self) -> &[Arc<str>] {
        &self.scopes
    }
}

/// Why a request over HTTP is refused before it is read.
#[derive(Clone, Debug)]
#[must_use]
pub struct McpRefusal {
    status: StatusCode,
    challenge: Option<HeaderValue>,
    text: String,
}

impl McpRefusal {
    /// Nobody known: status 401, with `WWW-Authenticate: Bearer`. The client reads the text.
    pub fn unknown(text: impl Into<String>) -> Self {
        let challenge = Some(HeaderValue::from_static("Bearer"));
        Self { status: StatusCode::UNAUTHORIZED, challenge, text: text.into() }
    }

    /// Somebody known who may not: status 403. The client reads the text.
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, challenge: None, text: text.into() }
    }

    /// Sends this as `WWW-Authenticate` instead, such as `Bearer resource_metadata="https://example.com/.well-known/.."`.
    pub fn challenge(mut self, challenge: HeaderValue) -> Self {
        self.challenge = Some(challenge);
        self
    }

    pub(super) fn into_parts(self) -> (StatusCode, HeaderMap, String) {
        let headers = self.challenge.map(|challenge| (header::WWW_AUTHENTICATE, challenge));
        (self.status, headers.into_iter().collect(), self.text)
    }
}

type Checked = Pin<Box<dyn Future<Output = Result<McpCaller, McpRefusal>> + Send>>;

/// The hook that finds the caller of a request.
#[derive(Clone)]
pub(super) struct Authenticate(Arc<dyn Fn(HeaderMap) -> Checked + Send + Sync>);

impl Authenticate {
    pub(super) fn new<F, C>(check: F) -> Self
    where
        F: Fn(HeaderMap) -> C + Send + Sync + 'static,
        C: Future<Output = Result<McpCaller, McpRefusal>> + Send + 'static,
    {
        Self(Arc::new(move |headers| Box::pin(check(headers))))
    }

    pub(super) async fn caller(&self, headers: HeaderMap) -> Result<McpCaller, McpRefusal> {
        self.0(headers).await
    }
}

impl fmt::Debug for Authenticate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticate")
    }
}
