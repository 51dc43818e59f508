//! `Runtime`: the host of runs. It starts, resumes and controls them by id and holds what all runs of a program share:
//! resources, models, store, middleware.
//!
//! It is the only room that knows both agents and workflows. A runtime is an owned value: two in one program share
//! nothing. Only the default one is shared by the whole process.

mod added_tools;
mod agents;
mod attempts;
mod boot;
mod catalogue;
mod catalogue_entry;
mod changes;
mod compensations;
mod config;
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
#[cfg(feature = "a2a-client")]
mod endpoints;
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
#[cfg(feature = "cli")]
mod other_documents;
pub(crate) mod processed_request;
mod reading;
mod retention;
mod run_notes;
mod runtime_builder;
mod start_run;
mod undo_report;
mod undoing_runs;
mod unknown_toolsets;
mod workflow_runs;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use self::attempts::AttemptReport;
pub use self::boot::{BootError, BootPhase};
pub use self::catalogue_entry::{Catalogue, CatalogueEntry, EntryKind, Origin};
pub use self::config::{
    A2aAgentSettings, AlertSettings, ApiToolSettings, ConfigError, ConfigProblem, HttpRequestSettings,
    McpServerSettings, ProviderSettings, RuntimeConfig, StorageSettings, ToolSettings,
};
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
#[cfg(feature = "a2a-push")]
pub(crate) use self::run_notes::owner_of_notes;
pub use self::runtime_builder::RuntimeBuilder;
pub use self::start_run::StartRun;
pub use self::undo_report::{CompensationReport, UndoReport, UndoStatus};
pub use self::workflow_runs::Recovered;
use crate::context::Context;
pub use crate::definition::Changes;
#[cfg(feature = "cli")]
use crate::event::RunId;
use crate::model::{Model, ModelProvider, ModelRefError, ModelSource};
use crate::run::Host;
pub use crate::run::RunBeginning;
use crate::store::{Store, StoreError};

/// Starts runs, finds them by their id, and holds what they share: models, resources, middleware, sinks, the store.
///
/// A program makes one with [`builder`](Self::builder) and hands it to its agents and workflows. Cloning is one
/// reference count.
///
/// | to | call |
/// | --- | --- |
/// | start a workflow | [`start`](Self::start), [`start_named`](Self::start_named); with an id, tags, limits and more: [`StartRun`] |
/// | run an agent | [`Agent::runtime`](crate::Agent::runtime), then [`Agent::run`](crate::Agent::run) or [`start`](crate::Agent::start) |
/// | continue after a restart | [`recover`](Self::recover) for all runs, [`resume`](Self::resume) for one |
/// | follow a run by its id | [`attach`](Self::attach), [`events`](Self::events), [`output`](Self::output) |
/// | operate a run by its id | [`pause`](Self::pause), [`unpause`](Self::unpause), [`cancel`](Self::cancel), [`retry`](Self::retry), [`approve`](Self::approve), [`answer`](Self::answer) |
/// | execute a step of another runtime's run | [`execute_step`](Self::execute_step) |
/// | end a program without interrupting its runs | [`drain`](Self::drain) |
/// | look at sessions, continue them elsewhere, remove them | [`sessions`](Self::sessions), [`session_history`](Self::session_history), [`export_session`](Self::export_session), [`delete_session`](Self::delete_session) |
/// | see and change what is remembered of a user | [`memory_of`](Self::memory_of), [`remember_session`](Self::remember_session) |
/// | remove runs that have ended | [`delete`](Self::delete), [`purge`](Self::purge) |
/// | see what is known by name | [`catalogue`](Self::catalogue), [`tool`](Self::tool), [`tools_with_scopes`](Self::tools_with_scopes), [`workflow_graph`](Self::workflow_graph), [`agent_outline`](Self::agent_outline) |
/// | add tools while it is used | [`add_tools`](Self::add_tools) |
/// | see what a run would do | [`dry_run`](Self::dry_run) |
/// | look at runs | [`runs`](Self::runs), [`inspect`](Self::inspect), [`journal`](Self::journal) |
/// | call an `#[agent]` or `#[workflow]` function | [`context`](Self::context) |
///
/// Without a store, runs live in memory and end with the process; what finds runs by their id then reports an error.
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
/// // Anybody who knows the id can answer, also from another process that uses the same store.
/// # while runtime.inspect(run.run_id()).await?.run.pause_reason.is_none() { tokio::task::yield_now().await; }
/// runtime.approve(run.run_id(), "approval", Approval::granted(), "ada").await?;
/// assert_eq!(run.result().await?, "published: Hello.");
/// # Ok(())
/// # }
/// ```
///
/// `Runtime::default()` is what agents, workflows and contexts have that were given none: one value of the process,
/// with the defaults of [`RuntimeBuilder`]. It has no store and no sink, so nothing passes through it from one run to
/// another.
#[derive(Clone)]
#[doc(alias = "ToolService")]
#[doc(alias = "AIAssistant")]
#[doc(alias = "AgentManager")]
#[doc(alias = "RunService")]
#[doc(alias = "WorkflowEngine")]
#[doc(alias = "PyFlowPlatform")]
pub struct Runtime(Arc<Host>);

impl Runtime {
    /// A runtime to be described.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// The model of a name such as `openai-chat/gpt-5-mini`; one that is given itself is given back.
    ///
    /// # Errors
    /// When the name is not understood, no adapter of that wire format is known, or it cannot be set up (no key, say).
    pub fn model(&self, model: impl Into<ModelSource>) -> Result<Arc<dyn Model>, ModelRefError> {
        self.0.open(&model.into())
    }

    /// A value of the application, as an instruction shows it by `{app:KEY}`.
    pub fn app(&self, key: &str) -> Option<&Value> {
        self.0.app.get(key)
    }

    /// The providers that models can be named by, ordered by name: those of this build and the host's own. Each key is
    /// asked for and none is shown.
    pub async fn model_providers(&self) -> Vec<ModelProvider> {
        let mut providers = crate::model::built_in_providers(&self.0.secrets).await;
        providers.retain(|provider| !self.0.models.contains_key(&*provider.name));
        providers.extend(self.0.models.keys().map(|name| ModelProvider::of_host(name)));
        providers.sort_by(|a, b| a.name.cmp(&b.name));
        providers
    }

    /// Whether this process executes a run.
    #[cfg(feature = "cli")]
    pub(crate) fn executes(&self, run: &RunId) -> bool {
        self.0.live.as_ref().is_some_and(|live| live.get(run).is_some())
    }

    /// Whether the host itself makes the models of a provider.
    #[cfg(feature = "cli")]
    pub(crate) fn makes(&self, provider: &str) -> bool {
        self.0.models.contains_key(provider)
    }

    /// A context of this runtime that belongs to no run: what an `#[agent]` or a `#[workflow]` is called with from a
    /// program's own code. What is begun with it is a run of its own: of an `#[agent]` with a store it is kept there and can be
    /// recovered, of a `#[workflow]` in memory, since [`start`](Self::start) keeps one.
    pub fn context(&self) -> Context {
        Context::of_host(&self.0)
    }

    /// The same runtime over another store.
    #[must_use]
    pub fn with_store(&self, store: impl Store) -> Self {
        self.with_opened_store(Arc::new(store))
    }

    pub(crate) fn with_opened_store(&self, store: Arc<dyn Store>) -> Self {
        let mut host = Host::clone(&self.0);
        host.set_store(store);
        // The runtime of the process has no part of that.
        runtime_builder::knows_names(&mut host);
        Self(Arc::new(host))
    }

    /// The same runtime with one more sink.
    #[cfg(feature = "cli")]
    pub(crate) fn with_sink(&self, sink: impl crate::event::EventSink + 'static) -> Self {
        let mut host = Host::clone(&self.0);
        let sink: Arc<dyn crate::event::EventSink> = Arc::new(sink);
        host.sinks = host.sinks.iter().cloned().chain([sink]).collect();
        runtime_builder::knows_names(&mut host);
        Self(Arc::new(host))
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.0
    }

    pub(crate) fn store(&self) -> Option<&Arc<dyn Store>> {
        self.0.store.as_ref()
    }

    fn require_store(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.0.require_store()
    }
}

impl Context {
    /// The runtime of the run: agents and workflows that are begun here use it.
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
