//! `Caller`: the principal on whose behalf a run is started or controlled, and `CallerClaims`, the
//! recorded form of its roles, groups and scopes.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Name of [`Caller::anonymous`].
const ANONYMOUS: &str = "anonymous";

/// The principal on whose behalf a run is started or controlled: a user, a service or another
/// agent, with its roles, groups and scopes.
///
/// A server creates it from a request that it has authenticated; see `agentflow::front`. A program
/// that authenticates its users itself creates it with [`new`](Self::new). Pass it to
/// [`StartRun::caller`](crate::runtime::StartRun::caller) or
/// [`RunRequest::caller`](crate::agent::RunRequest::caller): it is recorded with the run and
/// returned by [`Context::caller`](crate::Context::caller).
///
/// The type implements `Serialize` and not `Deserialize`, so that the body of a request cannot
/// become a caller by mistake. Two callers are equal if all their parts are.
///
/// ```
/// use agentflow::Caller;
///
/// let ada = Caller::new("ada").with_roles(["editor"]).with_groups(["news"]).with_scopes(["publish"]);
/// assert_eq!(ada.name(), "ada");
/// assert!(ada.has_role("editor") && ada.is_in_group("news") && ada.has_scope("publish"));
/// assert!(!ada.is_anonymous() && !ada.may_approve());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[doc(alias = "Principal")]
#[doc(alias = "User")]
#[doc(alias = "Identity")]
#[must_use]
pub struct Caller {
    name: Arc<str>,
    #[serde(flatten)]
    claims: CallerClaims,
}

/// Roles, groups and scopes of a [`Caller`] as they are recorded in
/// [`run.started`](crate::event::RunStarted::caller_claims). All lists are empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallerClaims {
    /// Roles, such as `editor`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<Arc<str>>,
    /// Groups that the caller belongs to, such as a team.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<Arc<str>>,
    /// Permissions of the caller. Its runs are granted them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes: BTreeSet<Arc<str>>,
}

impl CallerClaims {
    /// Returns `true` if there are no roles, groups and scopes.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.groups.is_empty() && self.scopes.is_empty()
    }
}

impl Caller {
    /// Scope with which a caller may answer the approvals of the runs that it started through a protocol
    /// server: at gates, and before tool calls. It is not granted to runs.
    pub const APPROVES: &'static str = "approve-own-runs";

    /// Creates a caller without roles, groups and scopes. The name identifies it: runs, sessions
    /// and memories belong to the caller with the same name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), claims: CallerClaims::default() }
    }

    /// Creates the caller of requests that need no authentication. Its name is `anonymous`. All
    /// anonymous requests are the same caller, and share its runs.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS)
    }

    /// Adds roles. Default: none.
    pub fn with_roles<S: Into<Arc<str>>>(mut self, roles: impl IntoIterator<Item = S>) -> Self {
        self.claims.roles.extend(roles.into_iter().map(Into::into));
        self
    }

    /// Adds groups. Default: none.
    pub fn with_groups<S: Into<Arc<str>>>(mut self, groups: impl IntoIterator<Item = S>) -> Self {
        self.claims.groups.extend(groups.into_iter().map(Into::into));
        self
    }

    /// Adds scopes. The runs of the caller are granted them, in addition to the scopes of the
    /// runtime and the server. Default: none.
    pub fn with_scopes<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.claims.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Adds the scope [`APPROVES`](Self::APPROVES). Without it, a protocol server does not show a
    /// client the approvals of its runs, because the client would approve its own request.
    pub fn approves(self) -> Self {
        self.with_scopes([Self::APPROVES])
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the roles in alphabetical order.
    pub fn roles(&self) -> &BTreeSet<Arc<str>> {
        &self.claims.roles
    }

    /// Returns the groups in alphabetical order.
    pub fn groups(&self) -> &BTreeSet<Arc<str>> {
        &self.claims.groups
    }

    /// Returns the scopes in alphabetical order.
    pub fn scopes(&self) -> &BTreeSet<Arc<str>> {
        &self.claims.scopes
    }

    /// Returns `true` if the caller has this role.
    pub fn has_role(&self, role: &str) -> bool {
        self.claims.roles.contains(role)
    }

    /// Returns `true` if the caller belongs to this group.
    pub fn is_in_group(&self, group: &str) -> bool {
        self.claims.groups.contains(group)
    }

    /// Returns `true` if the caller has this scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.claims.scopes.contains(scope)
    }

    /// Returns `true` if the caller has one of these roles or is one of these users, or if there are
    /// neither roles nor users.
    pub(crate) fn is_one_of(&self, roles: &BTreeSet<Arc<str>>, users: &BTreeSet<Arc<str>>) -> bool {
        roles.is_empty() && users.is_empty()
            || users.contains(self.name())
            || roles.iter().any(|role| self.has_role(role))
    }

    /// Returns `true` if the caller has the name of [`anonymous`](Self::anonymous).
    pub fn is_anonymous(&self) -> bool {
        *self.name == *ANONYMOUS
    }

    /// Returns `true` if the caller has the scope [`APPROVES`](Self::APPROVES).
    pub fn may_approve(&self) -> bool {
        self.has_scope(Self::APPROVES)
    }

    /// Returns the scopes that a run of this caller is granted.
    pub(crate) fn granted_scopes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.claims.scopes.iter().filter(|scope| ***scope != *Self::APPROVES)
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn claims(&self) -> &CallerClaims {
        &self.claims
    }

    /// Restores a recorded caller.
    pub(crate) fn recorded(name: Option<&Arc<str>>, claims: &CallerClaims) -> Option<Self> {
        name.map(|name| Self { name: Arc::clone(name), claims: claims.clone() })
    }
}

/// Creates a caller with this name, as [`Caller::new`].
impl From<&str> for Caller {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// Creates a caller with this name, as [`Caller::new`].
impl From<String> for Caller {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

/// Creates a caller with this name, as [`Caller::new`].
impl From<Arc<str>> for Caller {
    fn from(name: Arc<str>) -> Self {
        Self::new(name)
    }
}

impl From<&Caller> for Caller {
    fn from(caller: &Caller) -> Self {
        caller.clone()
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("name", &self.name)
            .field("roles", &self.claims.roles)
            .field("groups", &self.claims.groups)
            .field("scopes", &self.claims.scopes)
            .finish()
    }
}
