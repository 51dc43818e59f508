//! Who a client is, and the function of the host that says so. It reads no header itself.

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;

/// The name of every client of a server without an auth hook.
pub(super) const ANYBODY: &str = "anonymous";

/// Who sends a request, and what its runs may do. A task belongs to the caller that began it: for any other one it does not
/// exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aCaller {
    pub(super) name: Arc<str>,
    pub(super) scopes: Vec<Arc<str>>,
    pub(super) approves: bool,
}

impl A2aCaller {
    /// A caller without scopes. The name is recorded as the [caller](crate::store::RunRecord::caller) of its runs.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), scopes: Vec::new(), approves: false }
    }

    /// Adds scopes, which the runs of its tasks are granted beside those of the server and the runtime. Default: none.
    #[must_use]
    pub fn scopes<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Lets it answer the approvals of its own tasks: at gates, and before calls of tools. Default: it is not shown them, as
    /// [`A2aServer::clients_approve`](super::A2aServer::clients_approve) says.
    #[must_use]
    pub fn approves(mut self) -> Self {
        self.approves = true;
        self
    }
}

/// Why a request is refused before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum A2aRefusal {
    /// Nobody knows who sends it: 401, with this value of the header `WWW-Authenticate`, such as `Bearer`.
    Unknown {
        /// How the client may say who it is.
        challenge: String,
    },
    /// Whoever sends it may not: 403.
    Forbidden,
}

impl A2aRefusal {
    /// The client says who it is with a bearer token.
    pub fn bearer() -> Self {
        Self::Unknown { challenge: "Bearer".to_owned() }
    }
}

type Hook = dyn Fn(&HeaderMap) -> Result<A2aCaller, A2aRefusal> + Send + Sync;

/// Finds out who sends a request, by its headers.
#[derive(Clone)]
pub(super) struct AuthHook(Arc<Hook>);

impl AuthHook {
    pub(super) fn new(hook: impl Fn(&HeaderMap) -> Result<A2aCaller, A2aRefusal> + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<A2aCaller, A2aRefusal> {
        (self.0)(headers)
    }
}

impl fmt::Debug for AuthHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthHook")
    }
}
