//! `CallerRuntime`: a runtime that acts for one caller and asks the access control.

use std::sync::Arc;

use crate::access::{AccessAction, AccessPolicy, ActingCaller};
use crate::agent::RunRequest;
use crate::caller::Caller;
use crate::error::Result;
use crate::event::RunId;
use crate::message::{ToolCall, ToolResult};
use crate::run::RunHandle;
use crate::runtime::Runtime;
use crate::runtime::caller_memory::CallerMemory;
use crate::runtime::caller_sessions::CallerSessions;
use crate::runtime::catalogue::name_arguments::{AgentName, WorkflowName};
#[cfg(feature = "documents")]
use crate::runtime::documents::caller_documents::CallerDocuments;
use crate::runtime::execution::start_run::StartRun;
use crate::runtime::runs::run_list::CallerRuns;
use crate::runtime::runs::run_ref::RunRef;
use crate::value::Encoded;
use crate::workflow::{IntoInputs, IntoNamedInputs, IntoWorkflow};

/// The part of a [`Runtime`] that a caller may use, returned by [`Runtime::for_caller`]: it starts
/// runs, reads and controls them by their ids, calls tools, and reads and changes sessions and
/// memories.
///
/// Each method asks the [`AccessControl`](crate::access::AccessControl) of the runtime, also the
/// control methods of the handles that it returns. The caller is recorded with each run that it
/// starts, and as the operator of each control request, also if another name is passed to `by`.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
///
/// #[workflow]
/// async fn double_for_ada(n: i64) -> Result<i64> {
///     let twice = n * 2;
///     Ok(twice)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let ada = runtime.for_caller("ada");
/// let run = ada.start(double_for_ada::workflow(), 4).await?;
/// assert_eq!(ada.run(run.run_id()).record().await?.caller.as_deref(), Some("ada"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CallerRuntime {
    runtime: Runtime,
    acting: Option<ActingCaller>,
}

impl CallerRuntime {
    /// Creates the runtime of a caller, or of the program if there is no caller.
    pub(super) fn new(runtime: &Runtime, caller: Option<&Caller>) -> Self {
        let policy = runtime.host().part::<AccessPolicy>().cloned();
        let acting = caller.map(|caller| ActingCaller::new(caller.clone(), policy));
        Self { runtime: runtime.clone(), acting }
    }

    /// Returns access to a run by its id, as [`Runtime::run`].
    pub fn run<'a>(&'a self, run: &'a RunId) -> RunRef<'a> {
        self.runtime.run(run).of_caller(self.acting.as_ref())
    }

    /// Returns access to the runs that the caller may read.
    pub fn runs(&self) -> CallerRuns<'_> {
        CallerRuns::new(&self.runtime, self.acting.as_ref())
    }

    /// Returns access to the sessions that the caller may read, as [`Runtime::sessions`].
    pub fn sessions(&self) -> CallerSessions<'_> {
        CallerSessions::new(&self.runtime, self.acting.as_ref())
    }

    /// Returns access to the stored documents that the caller may read and write.
    #[cfg(feature = "documents")]
    pub fn documents(&self) -> CallerDocuments<'_> {
        CallerDocuments::new(&self.runtime, self.acting.as_ref())
    }

    /// Returns the memories of a user, as [`Memories::user`](crate::runtime::Memories::user).
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) if the runtime has no memory.
    pub fn memory(&self, user: impl Into<Arc<str>>) -> Result<CallerMemory> {
        Ok(CallerMemory::new(self.runtime.memories().user(user)?, self.acting.clone()))
    }

    /// Calls a tool outside of any run, as [`Runtime::invoke`]. The call is also granted the scopes of
    /// the caller.
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied), whether the tool exists or not, and as
    /// [`Runtime::invoke`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the tool.
    pub async fn invoke(&self, call: &ToolCall, scopes: &[Arc<str>]) -> Result<ToolResult> {
        self.check_call(&call.name).await?;
        let mut granted = scopes.to_vec();
        if let Some(acting) = &self.acting {
            granted.extend(acting.caller().granted_scopes().cloned());
        }
        self.runtime.invoke(call, &granted).await
    }

    /// Asks the access control for the call of a tool outside of a run.
    #[doc(hidden)]
    pub async fn check_call(&self, tool: &str) -> Result<()> {
        match &self.acting {
            Some(acting) => acting.check_call(tool).await,
            None => Ok(()),
        }
    }

    /// Starts a run of a workflow, as [`Runtime::start`].
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied), and as [`Runtime::start`].
    pub fn start<W: IntoWorkflow>(
        &self,
        workflow: W,
        input: impl IntoInputs<W::In>,
    ) -> StartRun<'_, W::Out> {
        self.runtime.start(workflow, input).of_caller(self.acting.as_ref())
    }

    /// Starts a run of a workflow by its name, as [`Runtime::start_named`].
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied), whether the workflow exists or not, and
    /// as [`Runtime::start_named`].
    pub fn start_named(
        &self,
        name: impl WorkflowName,
        input: impl IntoNamedInputs,
    ) -> StartRun<'_, Encoded> {
        self.runtime.start_named(name, input).of_caller(self.acting.as_ref())
    }

    /// Starts an agent by its name, as [`Runtime::start_agent`]. A request with a session that exists
    /// also needs [`AccessAction::ContinueSession`].
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied), whether the agent exists or not, and as
    /// [`Runtime::start_agent`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start_agent(
        &self,
        name: impl AgentName,
        request: impl Into<RunRequest>,
    ) -> Result<RunHandle<Encoded>> {
        let (name, request) = (name.as_name().to_owned(), request.into());
        let request = self.request(&name, request).await?;
        let run = self.runtime.start_agent(name.as_str(), request).await?;
        Ok(run.of_caller(self.acting.as_ref()))
    }

    /// Starts an agent by its name with arguments, as the method of [`Runtime`].
    #[doc(hidden)]
    pub async fn start_agent_with(
        &self,
        name: &str,
        arguments: &str,
        request: RunRequest,
    ) -> Result<RunHandle<Encoded>> {
        let request = self.request(name, request).await?;
        let run = self.runtime.start_agent_with(name, arguments, request).await?;
        Ok(run.of_caller(self.acting.as_ref()))
    }

    /// Asks the access control, and makes the caller the caller of the run.
    async fn request(&self, name: &str, request: RunRequest) -> Result<RunRequest> {
        let Some(acting) = &self.acting else { return Ok(request) };
        acting.check_start(name).await?;
        // A session with a new id does not exist yet.
        if acting.has_policy()
            && let Some(id) = request.session.as_ref().and_then(|session| session.id.as_deref())
            && let Some(session) = self.runtime.sessions().find(id).await?
        {
            acting.check_session(AccessAction::ContinueSession, &session).await?;
        }
        Ok(request.caller(acting.caller()))
    }
}
