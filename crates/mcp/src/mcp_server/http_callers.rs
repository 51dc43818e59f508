//! Authentication of HTTP requests: `McpCaller` with its scopes, `McpRefusal` for refused requests,
//! and the hook that returns one of them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};

/// The caller of an HTTP request, as determined by
/// [`McpServer::authenticate`](super::McpServer::authenticate) from the request's headers.
///
/// A middleware around [`McpHttpService`](super::McpHttpService) that authenticates clients itself
/// can insert a caller into the extensions of the request instead. The hook overrides it.
///
/// ```
/// use agentflow::mcp_server::McpCaller;
///
/// let caller = McpCaller::new("accounts").grant(["invoices:read"]).approves();
/// # drop(caller);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct McpCaller {
    name: Arc<str>,
    scopes: Vec<Arc<str>>,
    approves: bool,
}

impl McpCaller {
    /// Creates a caller without additional scopes. Runs that it starts record this name as their
    /// caller ([`StartRun::caller`](agentflow_core::runtime::StartRun::caller)).
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), scopes: Vec::new(), approves: false }
    }

    /// Grants scopes to the caller, in addition to the scopes of the server
    /// ([`McpServer::grant`](super::McpServer::grant)). Default: none.
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Allows the caller to answer the approvals of the runs that it has started: at gates, and
    /// before tool calls. Default: it does not receive them, see
    /// [`McpServer::clients_approve`](super::McpServer::clients_approve).
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

/// The refusal of an HTTP request before its body is read.
///
/// ```
/// use agentflow::mcp_server::McpRefusal;
///
/// let refusal = McpRefusal::unknown("send a token of the team `accounts`");
/// # drop(refusal);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct McpRefusal {
    status: StatusCode,
    challenge: Option<HeaderValue>,
    text: String,
}

impl McpRefusal {
    /// The request is not authenticated. Responds with status 401 and `WWW-Authenticate: Bearer`.
    /// The client receives the text.
    pub fn unknown(text: impl Into<String>) -> Self {
        let challenge = Some(HeaderValue::from_static("Bearer"));
        Self { status: StatusCode::UNAUTHORIZED, challenge, text: text.into() }
    }

    /// The caller is not permitted. Responds with status 403. The client receives the text.
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, challenge: None, text: text.into() }
    }

    /// Sets a different value for `WWW-Authenticate`, such as `Bearer
    /// resource_metadata="https://example.com/.well-known/.."`.
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

/// The hook that determines the caller of a request.
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
