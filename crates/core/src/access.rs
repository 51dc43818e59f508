//! Access control: [`AccessControl`] decides which caller may start, read and control which runs, and
//! read and write which stored documents.
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
use crate::store::{RunFilter, RunRecord, StoreError};

/// A question to an [`AccessControl`]: may this caller do this?
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    caller: &'a Caller,
    action: AccessAction,
    name: &'a str,
    run: Option<&'a RunRecord>,
}

impl<'a> AccessRequest<'a> {
    /// Creates the request to start a run of this agent or workflow.
    pub fn start(caller: &'a Caller, name: &'a str) -> Self {
        Self { caller, action: AccessAction::Start, name, run: None }
    }

    /// Creates the request for an action on a run.
    pub fn on_run(caller: &'a Caller, action: AccessAction, run: &'a RunRecord) -> Self {
        Self { caller, action, name: &run.name, run: Some(run) }
    }

    /// Creates the request for an action on a stored document. The document may not exist.
    pub fn on_document(caller: &'a Caller, action: AccessAction, name: &'a str) -> Self {
        Self { caller, action, name, run: None }
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

    /// Returns the name of the agent, the workflow or the stored document.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the run. `None` for [`AccessAction::Start`] and for actions on documents.
    pub fn run(&self) -> Option<&'a RunRecord> {
        self.run
    }

    /// Returns `true` if the run was started by the caller that asks.
    pub fn is_own_run(&self) -> bool {
        self.run.is_some_and(|run| run.caller.as_deref() == Some(self.caller.name()))
    }
}

/// Decides which caller may start, read and control which runs, and read and write which stored
/// documents. Registered with
/// [`RuntimeBuilder::access_control`](crate::runtime::RuntimeBuilder::access_control). Without one,
/// every caller may do everything.
///
/// A caller without [`AccessAction::Read`] gets the same error for a denied run as for a run that
/// does not exist. The same holds for documents and [`AccessAction::ReadDocument`].
///
/// ```
/// use agentflow::access::{AccessAction, AccessControl, AccessRequest};
/// use agentflow::prelude::*;
/// use agentflow::store::{MemoryStore, RunFilter};
///
/// /// Callers see their own runs. Operators see and control all runs.
/// struct OwnRuns;
///
/// #[agentflow::async_trait]
/// impl AccessControl for OwnRuns {
///     async fn allows(&self, request: AccessRequest<'_>) -> bool {
///         match request.action() {
///             AccessAction::Start => !request.caller().is_anonymous(),
///             _ => request.is_own_run() || request.caller().has_role("operator"),
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

    async fn allows(&self, request: AccessRequest<'_>) -> bool {
        match &self.policy {
            Some(policy) => policy.0.allows(request).await,
            None => true,
        }
    }

    /// Checks the start of an agent or a workflow.
    ///
    /// # Errors
    /// [`Error::AccessDenied`].
    pub(crate) async fn check_start(&self, name: &str) -> Result<()> {
        match self.allows(AccessRequest::start(&self.caller, name)).await {
            true => Ok(()),
            false => Err(self.denied(AccessAction::Start, name)),
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
        let is_allowed = action == AccessAction::Read
            || self.allows(AccessRequest::on_run(&self.caller, action, run)).await;
        match is_allowed {
            true => Ok(()),
            false => Err(self.denied(action, &run.name)),
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
