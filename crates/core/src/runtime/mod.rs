//! The runtime: the host of runs. [`Runtime`] starts runs, and provides the resources, models,
//! middleware, sinks and the store that the runs of a program share. It is the only module that
//! depends on both agents and workflows.
//!
//! [`RuntimeBuilder`] creates a runtime. The methods of [`Runtime`] start work, and return handles
//! that borrow the runtime: [`RunRef`] for a run by its id, [`Runs`],
//! [`Sessions`], [`Documents`], [`Memories`], [`PersistentState`], and [`CatalogueReader`] for the
//! named items.
//!
//! `builder` collects settings and items. `catalogue` keeps the items as a snapshot that can be
//! replaced while runs are executed. `execution` starts and resumes runs. `runs` and `sessions`
//! read and control them through the store. `documents` reloads and versions documents. `lifecycle`
//! checks and drains a runtime.
//!
//! A runtime is an owned value: two runtimes in a program share nothing. Only the default runtime
//! is shared by the process.

mod builder;
mod caller_memory;
mod caller_runtime;
mod caller_sessions;
mod catalogue;
#[cfg(feature = "documents")]
pub(crate) mod documents;
mod execution;
mod lifecycle;
mod memories;
mod persistent_state;
pub(crate) mod reference_codes;
mod runs;
mod sessions;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use serde_json::Value;

pub use self::builder::configuration::ConfigProblem;
use self::builder::configuration::ConfigProblems;
pub use self::builder::runtime_builder::RuntimeBuilder;
use self::builder::runtime_builder::set_name_lookups;
pub use self::caller_memory::CallerMemory;
pub use self::caller_runtime::CallerRuntime;
pub use self::caller_sessions::CallerSessions;
use self::catalogue::added_tools::add_tools;
pub use self::catalogue::catalogue_entry::{Catalogue, CatalogueEntry, EntryKind, Origin};
pub use self::catalogue::name_arguments::{AgentName, GivenAgent, WorkflowName};
#[doc(hidden)]
pub use self::catalogue::name_arguments::{RuntimeParts, ToolAddresses};
pub use self::catalogue::reader::CatalogueReader;
#[cfg(feature = "documents")]
pub use self::documents::caller_documents::CallerDocuments;
#[cfg(feature = "documents")]
pub use self::documents::documents_error::DocumentsError;
#[cfg(feature = "documents")]
pub use self::documents::documents_handle::Documents;
#[cfg(feature = "documents")]
pub use self::documents::reload::{DocumentWatch, Reloaded};
#[cfg(feature = "documents")]
pub use self::documents::save::{PutDocument, RemoveDocument};
#[doc(hidden)]
pub use self::execution::start::ProcessedRequest;
pub use self::execution::start::Recovered;
pub use self::execution::start_run::StartRun;
pub use self::execution::worker::Worker;
pub use self::lifecycle::boot::{BootError, BootPhase};
pub use self::lifecycle::drain::Drained;
pub use self::lifecycle::health::Health;
pub use self::memories::Memories;
pub use self::persistent_state::PersistentState;
pub use self::runs::attempts::AttemptReport;
pub use self::runs::compensation_report::{CompensationReport, UndoReport, UndoStatus};
pub use self::runs::inspect::{CallReport, ControlReport, NodeReport, NodeStatus, RunReport};
pub use self::runs::open_questions::OpenQuestion;
#[doc(hidden)]
pub use self::runs::retention::owner_of_notes;
pub use self::runs::retention::{Deleted, Purge};
pub use self::runs::run_graph::{ItemCounts, RunGraph, RunGraphNode};
pub use self::runs::run_list::{CallerRuns, Runs};
pub use self::runs::run_ref::RunRef;
pub use self::sessions::Sessions;
use crate::access::AccessPolicy;
use crate::caller::Caller;
use crate::context::Context;
pub use crate::definition::Changes;
use crate::error::Result;
#[cfg(doc)]
use crate::error::{Error, RegistryError};
use crate::event::{EventSink, RunId};
use crate::future::BoxFuture;
use crate::model::{Model, ModelRefError, ModelSource};
use crate::run::Host;
pub use crate::run::RunBeginning;
use crate::store::{Store, StoreError};
use crate::tool::IntoTools;

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
/// | continue after a restart | [`recover`](Self::recover) for all runs, [`RunRef::resume`] for one |
/// | execute runs that other processes queued or left | [`worker`](Self::worker) |
/// | follow a run by its id | [`run`](Self::run), then [`attach`](RunRef::attach), [`events`](RunRef::events), [`output`](RunRef::output) |
/// | operate a run by its id | [`run`](Self::run), then [`pause`](RunRef::pause), [`cancel`](RunRef::cancel), [`retry`](RunRef::retry), [`approve`](RunRef::approve), [`answer`](RunRef::answer) |
/// | act for a caller, under access control | [`for_caller`](Self::for_caller) |
/// | inspect a run | [`run`](Self::run), then [`inspect`](RunRef::inspect), [`journal`](RunRef::journal) |
/// | list runs, open questions and usage, and remove old runs | [`runs`](Self::runs) |
/// | execute a step of another runtime's run | [`execute_step`](Self::execute_step) |
/// | end a program without interrupting its runs | [`drain`](Self::drain) |
/// | list, read, export and remove sessions | [`sessions`](Self::sessions) |
/// | read and change the memory of a user | [`memories`](Self::memories) |
/// | read and change the state of users and of the application | [`persistent_state`](Self::persistent_state) |
/// | look up named items, and preview runs | [`catalogue`](Self::catalogue) |
/// | call a tool outside of a run | [`invoke`](Self::invoke) |
/// | read, check, save and reload documents | `documents` (feature `documents`) |
/// | add tools while it is used | [`add_tools`](Self::add_tools) |
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
/// # while runtime.run(run.run_id()).inspect().await?.run.pause_reason.is_none() { tokio::task::yield_now().await; }
/// runtime.run(run.run_id()).approve("approval", Approval::granted(), "ada").await?;
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

    /// Returns a context of this runtime that does not belong to a run. Application code uses it to
    /// call an `#[agent]` or `#[workflow]` function. Each call is then a top-level run: an
    /// `#[agent]` with a store is stored and can be recovered; a `#[workflow]` runs in memory, use
    /// [`start`](Self::start) to store it.
    pub fn context(&self) -> Context {
        Context::of_host(&self.0)
    }

    /// Returns access to a run in the runtime's store by its id, to control, follow, read and
    /// resume it. Accesses nothing by itself.
    pub fn run<'a>(&'a self, run: &'a RunId) -> RunRef<'a> {
        RunRef::new(self, run)
    }

    /// Returns access to all runs in the runtime's store: lists, open questions, usage and removal.
    pub fn runs(&self) -> Runs<'_> {
        Runs(self)
    }

    /// Returns access to the sessions in the runtime's store.
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions(self)
    }

    /// Returns access to the named items: tools, toolsets, agents, workflows, model providers and
    /// schemas, registered or linked into the program.
    pub fn catalogue(&self) -> CatalogueReader<'_> {
        CatalogueReader(self)
    }

    /// Returns access to the documents: reads, checks and reloads them, and saves them in the store.
    #[cfg(feature = "documents")]
    pub fn documents(&self) -> Documents<'_> {
        Documents(self)
    }

    /// Returns access to the long-term memory of users.
    pub fn memories(&self) -> Memories<'_> {
        Memories(self)
    }

    /// Returns access to the state of users and of the application, which outlives runs.
    #[doc(alias = "lasting_state")]
    pub fn persistent_state(&self) -> PersistentState<'_> {
        PersistentState(self)
    }

    /// Returns the part of this runtime that a caller may use. The methods of the runtime itself are
    /// for the program, and ask no access control.
    pub fn for_caller(&self, caller: impl Into<Caller>) -> CallerRuntime {
        CallerRuntime::new(self, Some(&caller.into()))
    }

    /// Returns the runtime of a caller, or of the program if there is no caller.
    #[doc(hidden)]
    pub fn for_optional_caller(&self, caller: Option<&Caller>) -> CallerRuntime {
        CallerRuntime::new(self, caller)
    }

    /// Returns `true` if the runtime has an access control.
    #[doc(hidden)]
    pub fn controls_access(&self) -> bool {
        self.host().part::<AccessPolicy>().is_some()
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
        // Documents of the other store are unknown here.
        #[cfg(feature = "documents")]
        documents::stored_items::StoredItems::default().put_into(&mut host);
        // The default runtime of the process is built without these functions.
        set_name_lookups(&mut host);
        Self(Arc::new(host))
    }

    /// Returns the runtime with an additional sink.
    #[doc(hidden)]
    pub fn with_sink(&self, sink: impl EventSink + 'static) -> Self {
        let mut host = Host::clone(&self.0);
        let sink: Arc<dyn EventSink> = Arc::new(sink);
        host.sinks = host.sinks.iter().cloned().chain([sink]).collect();
        set_name_lookups(&mut host);
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

    /// Registers more tools and toolsets under their names, like
    /// [`RuntimeBuilder::tools`](crate::runtime::RuntimeBuilder::tools) before the runtime is
    /// built. [`CatalogueReader::tool`](crate::runtime::CatalogueReader::tool),
    /// [`invoke`](Self::invoke), graphs, documents and servers of this runtime and of its clones
    /// find them afterwards. Existing agents keep the tools that they have. Either all tools are
    /// added or none. A tool that is registered already is skipped.
    ///
    /// # Cancel safety
    /// Dropping the future adds either no tools or all of them.
    ///
    /// ```
    /// use agentflow::message::ToolCall;
    /// use agentflow::prelude::*;
    /// use agentflow::tool::FnTool;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().build();
    /// let ping = FnTool::new("ping", "Answer.", |_cx, (): ()| async { Ok::<_, agentflow::Error>("pong") });
    /// runtime.add_tools(ping).await?;
    /// assert_eq!(runtime.invoke(&ToolCall::new("1", "ping", "{}"), &[]).await?.text(), "pong");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RegistryError::NameTaken`] or [`RegistryError::WireName`] if another tool or toolset has
    /// the name; the error of an invalid tool; [`Error::Build`] for [`Runtime::default`], which is
    /// shared by the whole process.
    #[track_caller]
    #[doc(alias = "register_tool")]
    pub fn add_tools(&self, tools: impl IntoTools) -> BoxFuture<'_, Result<()>> {
        let origin = Origin::given(Location::caller());
        let list = tools.into_tools();
        Box::pin(async move { add_tools(self, list, &origin).await })
    }

    /// Performs the checks of [`boot`](crate::runtime::RuntimeBuilder::boot) now, in all phases:
    /// the entries of the configuration; the store, by listing a run; the tools of all toolsets;
    /// the folders of documents; all names; and the models of agents with their API keys. Use it
    /// for the health check of a service and for diagnosis.
    ///
    /// Fetches the tools of each MCP server and the card of each A2A agent, also if they were
    /// fetched before. A lost connection is reopened. For other toolsets,
    /// [`Toolset::check`](crate::tool::Toolset::check) is called. Documents are those that were
    /// loaded last: a document with an error when it was
    /// [reloaded](crate::runtime::Documents::reload) is a problem until it is loaded successfully.
    /// The checks take as long as the slowest store and toolset.
    ///
    /// # Cancel safety
    /// Dropping the future stops the checks.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::runtime::BootPhase;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let agent = Agent::new("no-such-provider/model").name("writer");
    /// let health = Runtime::builder().agent(&agent).build().health().await;
    /// assert!(!health.is_well());
    /// assert!(health.problem_of(BootPhase::Models).is_some());
    /// assert!(health.to_string().starts_with("configuration: well\nstore: well\n"), "{health}");
    /// # }
    /// ```
    pub async fn health(&self) -> Health {
        Health::check(self).await
    }

    /// Returns the configuration entries that cannot be used. Problems of MCP servers are not
    /// included: their toolsets report them.
    #[doc(hidden)]
    pub fn problems_of_configuration(&self) -> &[ConfigProblem] {
        self.host().part::<ConfigProblems>().map_or(&[], |problems| &problems.0)
    }

    /// Returns the runtime with another rule for runs whose workflow or agent has changed. Use it
    /// to resume runs that an operator has reviewed.
    #[must_use]
    pub fn with_changes(&self, changes: Changes) -> Self {
        let mut host = Host::clone(self.host());
        host.set_part(changes);
        Self(Arc::new(host))
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
