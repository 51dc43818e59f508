//! The runtime: the host of runs. [`Runtime`] starts, resumes and controls runs by id, and provides
//! the resources, models, middleware, sinks and the store that the runs of a program share. It is
//! the only module that depends on both agents and workflows.
//!
//! [`RuntimeBuilder`] creates a runtime; `RuntimeConfig`, in a crate above the core, holds settings from a file and the
//! environment. The items that a runtime knows by name (tools, toolsets, agents, workflows,
//! documents) are in `Given`, a snapshot that can be replaced while runs are executed. `catalogue`
//! looks up single items, `listing` returns all of them as a [`Catalogue`].
//!
//! `start_run` and `workflow_runs` start and resume runs of workflows, `agents` runs of agents.
//! `queued_start` stores runs for other processes, which a `Worker` executes.
//! `control`, `inspect`, `inbox` and `reading` work with runs by id, through the store.
//!
//! A runtime is an owned value: two runtimes in a program share nothing. Only the default runtime
//! is shared by the process.

mod added_tools;
mod agents;
mod attempts;
mod boot;
mod catalogue;
mod catalogue_entry;
mod changes;
mod compensations;
mod config_problem;
mod configured;
mod control;
#[cfg(feature = "documents")]
mod document_builder;
#[cfg(feature = "documents")]
mod document_reload;
#[cfg(feature = "documents")]
mod document_set;
#[cfg(feature = "documents")]
mod document_versions;
#[cfg(feature = "documents")]
mod document_watch;
mod drain;
mod execute_step;
#[cfg(feature = "documents")]
mod given_documents;
mod given_now;
#[cfg(feature = "dynamic")]
mod given_pipelines;
#[cfg(feature = "dynamic")]
mod graphs;
mod health;
mod inbox;
#[cfg(feature = "documents")]
pub(crate) mod included_start;
mod inspect;
mod known_by_name;
mod known_sessions;
mod lasting_state;
mod listing;
mod memories;
mod opened;
#[cfg(feature = "documents")]
mod other_documents;
pub(crate) mod processed_request;
mod queued_start;
mod reading;
pub(crate) mod reference_codes;
mod retention;
mod run_notes;
mod runtime_builder;
mod start_run;
mod tool_addresses;
mod undo_report;
mod undoing_runs;
mod unknown_toolsets;
mod worker;
mod workflow_runs;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use self::attempts::AttemptReport;
pub use self::boot::{BootError, BootPhase};
pub use self::catalogue_entry::{Catalogue, CatalogueEntry, EntryKind, Origin};
pub use self::config_problem::ConfigProblem;
#[cfg(feature = "documents")]
pub use self::document_reload::Reloaded;
#[cfg(feature = "documents")]
pub use self::document_watch::DocumentWatch;
pub use self::drain::Drained;
pub use self::health::Health;
pub use self::inbox::OpenQuestion;
pub use self::inspect::{CallReport, NodeReport, NodeStatus, RunReport};
pub use self::known_by_name::{AgentName, GivenAgent, WorkflowName};
pub use self::retention::{Deleted, Purge};
#[doc(hidden)]
pub use self::run_notes::owner_of_notes;
pub use self::runtime_builder::RuntimeBuilder;
pub use self::start_run::StartRun;
#[doc(hidden)]
pub use self::tool_addresses::{RuntimeParts, ToolAddresses};
pub use self::undo_report::{CompensationReport, UndoReport, UndoStatus};
pub use self::worker::Worker;
pub use self::workflow_runs::Recovered;
use crate::context::Context;
pub use crate::definition::Changes;
use crate::event::RunId;
use crate::model::{Model, ModelProvider, ModelRefError, ModelSource};
use crate::run::Host;
pub use crate::run::RunBeginning;
use crate::store::{Store, StoreError};

/// Starts runs, finds them by id, and provides the models, resources, middleware, sinks and the
/// store that they share.
///
/// A program creates a runtime with [`builder`](Self::builder) and passes it to its agents and
/// workflows. Cloning increments a reference count.
///
/// | to | call |
/// | --- | --- |
/// | start a workflow | [`start`](Self::start), [`start_named`](Self::start_named); with an id, tags, limits and more: [`StartRun`] |
/// | run an agent | [`Agent::runtime`](crate::Agent::runtime), then [`Agent::run`](crate::Agent::run) or [`start`](crate::Agent::start) |
/// | continue after a restart | [`recover`](Self::recover) for all runs, [`resume`](Self::resume) for one |
/// | execute runs that other processes queued or left | [`worker`](Self::worker) |
/// | follow a run by its id | [`attach`](Self::attach), [`events`](Self::events), [`output`](Self::output) |
/// | operate a run by its id | [`pause`](Self::pause), [`unpause`](Self::unpause), [`cancel`](Self::cancel), [`retry`](Self::retry), [`approve`](Self::approve), [`answer`](Self::answer) |
/// | execute a step of another runtime's run | [`execute_step`](Self::execute_step) |
/// | end a program without interrupting its runs | [`drain`](Self::drain) |
/// | list, export and remove sessions | [`sessions`](Self::sessions), [`session_history`](Self::session_history), [`export_session`](Self::export_session), [`delete_session`](Self::delete_session) |
/// | read and change the memory of a user | [`memory_of`](Self::memory_of), [`remember_session`](Self::remember_session) |
/// | remove runs that have ended | [`delete`](Self::delete), [`purge`](Self::purge) |
/// | look up named items | [`catalogue`](Self::catalogue), [`tool`](Self::tool), [`tools_with_scopes`](Self::tools_with_scopes), [`workflow_graph`](Self::workflow_graph), [`agent_outline`](Self::agent_outline) |
/// | add tools while it is used | [`add_tools`](Self::add_tools) |
/// | preview a run | [`dry_run`](Self::dry_run) |
/// | inspect runs | [`runs`](Self::runs), [`inspect`](Self::inspect), [`journal`](Self::journal) |
/// | call an `#[agent]` or `#[workflow]` function | [`context`](Self::context) |
///
/// Without a store, runs are kept in memory and end with the process. Functions that find runs by
/// id then return an error.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
///
/// #[workflow]
/// async fn publish(text: String) -> Result<String> {
///     let approval = gate!("publish?", text).await?;
///     let published = match approval {
///         Approval::Granted { .. } => format!("published: {text}"),
///         Approval::Denied { .. } => "not published".to_owned(),
///     };
///     Ok(published)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let run = runtime.start(publish::workflow(), "Hello.".to_owned()).await?;
/// // Any process that uses the same store can answer, with the id of the run.
/// # while runtime.inspect(run.run_id()).await?.run.pause_reason.is_none() { tokio::task::yield_now().await; }
/// runtime.approve(run.run_id(), "approval", Approval::granted(), "ada").await?;
/// assert_eq!(run.result().await?, "published: Hello.");
/// # Ok(())
/// # }
/// ```
///
/// `Runtime::default()` is used by agents, workflows and contexts without a runtime. It is a single
/// value of the process, with the defaults of [`RuntimeBuilder`]. It has no store and no sinks, so
/// runs cannot influence each other through it.
#[derive(Clone)]
#[doc(alias = "ToolService")]
#[doc(alias = "AIAssistant")]
#[doc(alias = "AgentManager")]
#[doc(alias = "RunService")]
#[doc(alias = "WorkflowEngine")]
#[doc(alias = "PyFlowPlatform")]
pub struct Runtime(Arc<Host>);

impl Runtime {
    /// Returns a builder with default settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Resolves a model name such as `openai-chat/gpt-5-mini`. A model that is passed directly is
    /// returned unchanged.
    ///
    /// # Errors
    /// If the name is invalid, its provider is unknown, or the model cannot be created, for example
    /// because there is no API key.
    pub fn model(&self, model: impl Into<ModelSource>) -> Result<Arc<dyn Model>, ModelRefError> {
        self.0.open(&model.into())
    }

    /// Returns a value of the application, which instructions insert with `{app:KEY}`.
    pub fn app(&self, key: &str) -> Option<&Value> {
        self.0.app.get(key)
    }

    /// Returns the providers that model names can use, ordered by name: the built-in ones and the
    /// ones of this runtime. It checks if their API keys are set, without revealing them.
    pub async fn model_providers(&self) -> Vec<ModelProvider> {
        let mut providers = crate::model::built_in_providers(&self.0.secrets).await;
        providers.retain(|provider| !self.0.models.contains_key(&*provider.name));
        providers.extend(self.0.models.keys().map(|name| ModelProvider::of_host(name)));
        providers.sort_by(|a, b| a.name.cmp(&b.name));
        providers
    }

    /// `true` if this process executes a run.
    #[doc(hidden)]
    pub fn executes(&self, run: &RunId) -> bool {
        self.0.live.as_ref().is_some_and(|live| live.get(run).is_some())
    }

    /// `true` if the provider was registered with this runtime.
    #[doc(hidden)]
    pub fn makes(&self, provider: &str) -> bool {
        self.0.models.contains_key(provider)
    }

    /// Returns a context of this runtime that does not belong to a run. Application code uses it to
    /// call an `#[agent]` or `#[workflow]` function. Each call is then a top-level run: an
    /// `#[agent]` with a store is stored and can be recovered; a `#[workflow]` runs in memory, use
    /// [`start`](Self::start) to store it.
    pub fn context(&self) -> Context {
        Context::of_host(&self.0)
    }

    /// Returns the runtime with another store.
    #[must_use]
    pub fn with_store(&self, store: impl Store) -> Self {
        self.with_opened_store(Arc::new(store))
    }

    /// Returns a runtime with another store.
    #[doc(hidden)]
    pub fn with_opened_store(&self, store: Arc<dyn Store>) -> Self {
        let mut host = Host::clone(&self.0);
        host.set_store(store);
        // The default runtime of the process is built without these functions.
        runtime_builder::set_name_lookups(&mut host);
        Self(Arc::new(host))
    }

    /// Returns the runtime with an additional sink.
    #[doc(hidden)]
    pub fn with_sink(&self, sink: impl crate::event::EventSink + 'static) -> Self {
        let mut host = Host::clone(&self.0);
        let sink: Arc<dyn crate::event::EventSink> = Arc::new(sink);
        host.sinks = host.sinks.iter().cloned().chain([sink]).collect();
        runtime_builder::set_name_lookups(&mut host);
        Self(Arc::new(host))
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.0
    }

    /// Returns the store, if the runtime has one.
    #[doc(hidden)]
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.0.store.as_ref()
    }

    fn require_store(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.0.require_store()
    }
}

impl Context {
    /// Returns the runtime of the run. Agents and workflows that are started with this context use
    /// it.
    pub fn runtime(&self) -> Runtime {
        Runtime(Arc::clone(self.host()))
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self(Arc::clone(Host::of_process()))
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Runtime").field(&self.0).finish()
    }
}
