//! Access control: [`AccessControl`] decides which caller may start, read and control which runs, call
//! which tools, and use which sessions, memories and stored documents.
//!
//! The runtime asks it, and not the routes of a server: a program binds the runtime to the caller of
//! a request with [`Runtime::for_caller`](crate::Runtime::for_caller), and each method of the
//! returned [`CallerRuntime`](crate::runtime::CallerRuntime) asks first. The servers for MCP and A2A
//! do the same.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use crate::access_action::AccessAction;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::event::ApprovalRequest;
use crate::store::{RunFilter, RunRecord, SessionFilter, SessionRecord, StoreError};

/// A question to an [`AccessControl`]: may this caller do this?
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    caller: &'a Caller,
    action: AccessAction,
    target: AccessTarget<'a>,
}

/// The subject of a request.
#[derive(Clone, Copy, Debug)]
enum AccessTarget<'a> {
    /// An agent, a workflow, a tool or a stored document, by its name.
    Named(&'a str),
    Run(&'a RunRecord),
    Session(&'a SessionRecord),
    /// The memories of a user.
    Memory(&'a str),
}

impl<'a> AccessRequest<'a> {
    fn new(caller: &'a Caller, action: AccessAction, target: AccessTarget<'a>) -> Self {
        Self { caller, action, target }
    }

    /// Creates the request to start a run of this agent or workflow.
    pub fn start(caller: &'a Caller, name: &'a str) -> Self {
        Self::new(caller, AccessAction::Start, AccessTarget::Named(name))
    }

    /// Creates the request to call this tool outside of a run.
    pub fn call_tool(caller: &'a Caller, name: &'a str) -> Self {
        Self::new(caller, AccessAction::CallTool, AccessTarget::Named(name))
    }

    /// Creates the request for an action on a run.
    pub fn on_run(caller: &'a Caller, action: AccessAction, run: &'a RunRecord) -> Self {
        Self::new(caller, action, AccessTarget::Run(run))
    }

    /// Creates the request for an action on a session.
    pub fn on_session(
        caller: &'a Caller,
        action: AccessAction,
        session: &'a SessionRecord,
    ) -> Self {
        Self::new(caller, action, AccessTarget::Session(session))
    }

    /// Creates the request for an action on the memories of a user.
    pub fn on_memory(caller: &'a Caller, action: AccessAction, user: &'a str) -> Self {
        Self::new(caller, action, AccessTarget::Memory(user))
    }

    /// Creates the request for an action on a stored document. The document may not exist.
    pub fn on_document(caller: &'a Caller, action: AccessAction, name: &'a str) -> Self {
        Self::new(caller, action, AccessTarget::Named(name))
    }

    /// Returns the caller that asks. [`RunRecord::caller`] is the name of the caller that started the
    /// run.
    pub fn caller(&self) -> &'a Caller {
        self.caller
    }

    /// Returns the action.
    pub fn action(&self) -> AccessAction {
        self.action
    }

    /// Returns the name of the agent, workflow, tool or stored document. For a session its id, for
    /// memories their user.
    pub fn name(&self) -> &'a str {
        match self.target {
            AccessTarget::Named(name) | AccessTarget::Memory(name) => name,
            AccessTarget::Run(run) => &run.name,
            AccessTarget::Session(session) => &session.id,
        }
    }

    /// Returns the run. `None` for [`AccessAction::Start`], and for a request that is not about a run.
    pub fn run(&self) -> Option<&'a RunRecord> {
        match self.target {
            AccessTarget::Run(run) => Some(run),
            _ => None,
        }
    }

    /// Returns the session. `None` for a request that is not about a session.
    pub fn session(&self) -> Option<&'a SessionRecord> {
        match self.target {
            AccessTarget::Session(session) => Some(session),
            _ => None,
        }
    }

    /// Returns `true` if the run was started by the caller that asks. `false` for a request that is
    /// not about a run.
    pub fn is_own_run(&self) -> bool {
        self.run().is_some() && self.is_own()
    }

    /// Returns `true` if the run, the session or the memories belong to the caller that asks. Agents,
    /// workflows and tools belong to no caller.
    pub fn is_own(&self) -> bool {
        let owner = match self.target {
            AccessTarget::Named(_) => None,
            AccessTarget::Run(run) => run.caller.as_deref(),
            AccessTarget::Session(session) => session.caller.as_deref(),
            AccessTarget::Memory(user) => Some(user),
        };
        owner == Some(self.caller.name())
    }
}

/// Decides which caller may start, read and control which runs, call which tools, and use which
/// sessions, memories and stored documents. Registered with
/// [`RuntimeBuilder::access_control`](crate::runtime::RuntimeBuilder::access_control). Without one,
/// every caller may do everything.
///
/// A caller without [`AccessAction::Read`] gets the same error for a denied run as for a run that
/// does not exist. The same applies to sessions and [`AccessAction::ReadSession`], and to stored
/// documents and [`AccessAction::ReadDocument`]. If a caller may not read the memories of a user, the
/// user seems to have none.
///
/// ```
/// use agentflow::access::{AccessAction, AccessControl, AccessRequest};
/// use agentflow::prelude::*;
/// use agentflow::store::{MemoryStore, RunFilter};
///
/// /// Callers see their own runs, sessions and memories. Operators see and control all of them.
/// struct OwnRuns;
///
/// #[agentflow::async_trait]
/// impl AccessControl for OwnRuns {
///     async fn allows(&self, request: AccessRequest<'_>) -> bool {
///         match request.action() {
///             AccessAction::Start | AccessAction::CallTool => !request.caller().is_anonymous(),
///             _ => request.is_own() || request.caller().has_role("operator"),
///         }
///     }
/// }
///
/// #[workflow]
/// async fn twice(n: i64) -> Result<i64> {
///     let result = n * 2;
///     Ok(result)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).access_control(OwnRuns).build();
/// let id = runtime.for_caller("ada").start(twice::workflow(), 4).await?.run_id().clone();
/// assert!(runtime.for_caller("ada").run(&id).record().await.is_ok());
/// assert!(runtime.for_caller("bob").run(&id).record().await.is_err());
/// assert!(runtime.for_caller("bob").runs().list(RunFilter::new()).await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait AccessControl: Send + Sync + 'static {
    /// Returns `true` if the request is allowed. Called before the action, for each run of a list
    /// and for each action. An implementation that cannot decide, for example because a directory
    /// does not answer, returns `false`.
    ///
    /// # Cancel safety
    /// The future is dropped with the future of the action.
    async fn allows(&self, request: AccessRequest<'_>) -> bool;

    /// Restricts the filter of a list to runs that the caller may read, so that the store reads
    /// fewer runs. Each run of the list is still checked with [`allows`](Self::allows). Default:
    /// returns the filter unchanged.
    fn narrow(&self, caller: &Caller, filter: RunFilter) -> RunFilter {
        let _ = caller;
        filter
    }

    /// Restricts the filter of a list of sessions, as [`narrow`](Self::narrow) does for runs. Default:
    /// returns the filter unchanged.
    fn narrow_sessions(&self, caller: &Caller, filter: SessionFilter) -> SessionFilter {
        let _ = caller;
        filter
    }
}

/// The access control of a runtime.
#[derive(Clone)]
pub(crate) struct AccessPolicy(pub(crate) Arc<dyn AccessControl>);

/// A caller, and the access control that decides about it.
#[derive(Clone)]
pub(crate) struct ActingCaller {
    caller: Arc<Caller>,
    policy: Option<AccessPolicy>,
}

impl ActingCaller {
    pub(crate) fn new(caller: Caller, policy: Option<AccessPolicy>) -> Self {
        Self { caller: Arc::new(caller), policy }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns `true` if the runtime has an access control.
    pub(crate) fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    async fn allows(&self, request: AccessRequest<'_>) -> bool {
        match &self.policy {
            Some(policy) => policy.0.allows(request).await,
            None => true,
        }
    }

    /// Checks that the roles and users of a question allow the caller to answer it.
    ///
    /// # Errors
    /// [`Error::AccessDenied`].
    pub(crate) fn check_answer(&self, run: &RunRecord, question: &ApprovalRequest) -> Result<()> {
        match question.may_be_answered_by(&self.caller) {
            true => Ok(()),
            false => Err(self.denied(AccessAction::Answer, &run.name)),
        }
    }

    /// Checks the start of an agent or a workflow.
    ///
    /// # Errors
    /// [`Error::AccessDenied`].
    pub(crate) async fn check_start(&self, name: &str) -> Result<()> {
        self.require(AccessRequest::start(&self.caller, name)).await
    }

    /// Checks the call of a tool outside of a run.
    ///
    /// # Errors
    /// [`Error::AccessDenied`].
    pub(crate) async fn check_call(&self, tool: &str) -> Result<()> {
        self.require(AccessRequest::call_tool(&self.caller, tool)).await
    }

    /// Returns `true` if the caller may do this with the memories of a user.
    pub(crate) async fn allows_memory(&self, action: AccessAction, user: &str) -> bool {
        self.allows(AccessRequest::on_memory(&self.caller, action, user)).await
    }

    /// Checks a change of the memories of a user.
    ///
    /// # Errors
    /// [`Error::AccessDenied`].
    pub(crate) async fn check_memory_change(&self, user: &str) -> Result<()> {
        self.require(AccessRequest::on_memory(&self.caller, AccessAction::ChangeMemory, user)).await
    }

    /// Returns `true` if the caller may read a session.
    pub(crate) async fn may_read_session(&self, session: &SessionRecord) -> bool {
        let request = AccessRequest::on_session(&self.caller, AccessAction::ReadSession, session);
        self.allows(request).await
    }

    /// Checks an action on a session.
    ///
    /// # Errors
    /// The error of a session that does not exist, if the caller may not read the session. Otherwise
    /// [`Error::AccessDenied`].
    pub(crate) async fn check_session(
        &self,
        action: AccessAction,
        session: &SessionRecord,
    ) -> Result<()> {
        if !self.may_read_session(session).await {
            return Err(StoreError::no_session(&session.id).into());
        }
        match action {
            AccessAction::ReadSession => Ok(()),
            _ => self.require(AccessRequest::on_session(&self.caller, action, session)).await,
        }
    }

    async fn require(&self, request: AccessRequest<'_>) -> Result<()> {
        match self.allows(request).await {
            true => Ok(()),
            false => Err(self.denied(request.action(), request.name())),
        }
    }

    /// Returns `true` if the caller may read a run.
    pub(crate) async fn may_read(&self, run: &RunRecord) -> bool {
        self.allows(AccessRequest::on_run(&self.caller, AccessAction::Read, run)).await
    }

    /// Checks an action on a run.
    ///
    /// # Errors
    /// The error of a run that does not exist, if the caller may not read the run. Otherwise
    /// [`Error::AccessDenied`].
    pub(crate) async fn check(&self, action: AccessAction, run: &RunRecord) -> Result<()> {
        if !self.may_read(run).await {
            return Err(StoreError::not_found(&run.run_id).into());
        }
        match action {
            AccessAction::Read => Ok(()),
            _ => self.require(AccessRequest::on_run(&self.caller, action, run)).await,
        }
    }

    /// Returns `true` if the caller may read a stored document.
    #[cfg(feature = "documents")]
    pub(crate) async fn may_read_document(&self, name: &str) -> bool {
        let action = AccessAction::ReadDocument;
        self.allows(AccessRequest::on_document(&self.caller, action, name)).await
    }

    /// Checks that the caller may read and write a stored document, which may not exist.
    ///
    /// # Errors
    /// [`Error::AccessDenied`].
    #[cfg(feature = "documents")]
    pub(crate) async fn check_document_write(&self, name: &str) -> Result<()> {
        let action = AccessAction::WriteDocument;
        let is_allowed = self.may_read_document(name).await
            && self.allows(AccessRequest::on_document(&self.caller, action, name)).await;
        match is_allowed {
            true => Ok(()),
            false => Err(self.denied(action, name)),
        }
    }

    pub(crate) fn narrow(&self, filter: RunFilter) -> RunFilter {
        match &self.policy {
            Some(policy) => policy.0.narrow(&self.caller, filter),
            None => filter,
        }
    }

    pub(crate) fn narrow_sessions(&self, filter: SessionFilter) -> SessionFilter {
        match &self.policy {
            Some(policy) => policy.0.narrow_sessions(&self.caller, filter),
            None => filter,
        }
    }

    fn denied(&self, action: AccessAction, name: &str) -> Error {
        Error::AccessDenied {
            caller: Arc::clone(self.caller.shared_name()),
            action,
            name: name.into(),
        }
    }
}

impl fmt::Debug for ActingCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActingCaller").field(&self.caller).finish()
    }
}
