//! The caller of a request, and the authentication hook of the host that identifies it.

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;

/// Name of the caller if the server has no authentication hook.
pub(super) const ANYBODY: &str = "anonymous";

/// The caller of a request, with the permissions of its runs. A task belongs to the caller that
/// started it; for other callers the task does not exist.
///
/// ```
/// use agentflow::a2a_server::{A2aCaller, A2aRefusal, A2aServer};
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
///
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let server = A2aServer::from_runtime(&runtime).auth(|headers| match headers.get("x-team") {
///     Some(team) if team == "sales" => Ok(A2aCaller::new("sales").scopes(["orders:read"])),
///     Some(_) => Err(A2aRefusal::Forbidden),
///     None => Err(A2aRefusal::Unknown { challenge: "Bearer".to_owned() }),
/// });
/// # drop(server);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aCaller {
    pub(super) name: Arc<str>,
    pub(super) scopes: Vec<Arc<str>>,
    pub(super) approves: bool,
}

impl A2aCaller {
    /// Creates a caller without scopes. The name is recorded as the
    /// [caller](agentflow_core::store::RunRecord::caller) of its runs.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), scopes: Vec::new(), approves: false }
    }

    /// Grants scopes to the runs of the caller's tasks, in addition to the scopes of the server and
    /// the runtime. Default: none.
    #[must_use]
    pub fn scopes<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Allows the caller to answer approvals in its tasks: at gates, and before tool calls.
    /// Default: the caller does not see these approvals (see
    /// [`A2aServer::clients_approve`](super::A2aServer::clients_approve)).
    #[must_use]
    pub fn approves(mut self) -> Self {
        self.approves = true;
        self
    }
}

/// Reason for which a request is refused before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum A2aRefusal {
    /// The request is not authenticated. Responds with 401 and this `WWW-Authenticate` challenge,
    /// such as `Bearer`.
    Unknown {
        /// Value of the header `WWW-Authenticate`.
        challenge: String,
    },
    /// The caller is not allowed to use the server. Responds with 403.
    Forbidden,
}

impl A2aRefusal {
    /// Returns the refusal that requests a bearer token.
    pub fn bearer() -> Self {
        Self::Unknown { challenge: "Bearer".to_owned() }
    }
}

type Hook = dyn Fn(&HeaderMap) -> Result<A2aCaller, A2aRefusal> + Send + Sync;

/// The host's function that identifies the caller of a request by its headers.
#[derive(Clone)]
pub(super) struct AuthHook(Arc<Hook>);

impl AuthHook {
    pub(super) fn new(
        hook: impl Fn(&HeaderMap) -> Result<A2aCaller, A2aRefusal> + Send + Sync + 'static,
    ) -> Self {
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
