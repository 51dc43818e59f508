//! What all runs of a program share: models by name, clock, ids, resources, sinks.
//!
//! An owned value and no global: two runtimes in one program know nothing of each other.

mod builder;
mod control;
mod inspect;
mod journal;
pub(crate) mod live;
pub(crate) mod requests;
mod runs;
mod state;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use self::builder::RuntimeBuilder;
pub use self::inspect::{NodeReport, NodeStatus, RunReport};
use self::live::LiveRuns;
pub use self::runs::Recovered;
pub(crate) use self::state::RunState;
use crate::agent::ModelSource;
use crate::context::{Context, RunShared};
use crate::error::Error;
use crate::event::{EventSink, Journal, RunId};
use crate::middleware::{Middleware, Redactor};
use crate::model::{Model, ModelProvider, ModelRef, ModelRefError, SecretProvider};
use crate::path::StepPath;
use crate::resource::Resources;
use crate::store::{Store, StoreError};
use crate::time::Clock;
use crate::workflow::Graph;
use crate::workflow::expansion::linked;
use crate::workflow::spec::Spec;

/// What all runs of a program share. Cloning is one reference count; `Runtime::default()` is what an agent has that was
/// given none.
///
/// ```
/// use agentflow::{JsonlSink, Runtime};
///
/// let runtime = Runtime::builder().sink(JsonlSink::new(std::io::sink())).build();
/// # let _ = runtime;
/// ```
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    settings: Settings,
    sinks: Arc<[Arc<dyn EventSink>]>,
    live: Option<Arc<LiveRuns>>,
}

/// What a builder describes.
#[derive(Clone)]
struct Settings {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Fn() -> RunId + Send + Sync>,
    resources: Resources,
    sinks: Vec<Arc<dyn EventSink>>,
    secrets: Arc<dyn SecretProvider>,
    models: BTreeMap<String, ModelFactory>,
    agents: AgentModels,
    app: BTreeMap<String, Value>,
    store: Option<Arc<dyn Store>>,
    trace_content: bool,
    middleware: Arc<[Arc<dyn Middleware>]>,
    redactor: Option<Redactor>,
    max_llm_calls: u32,
    max_output_bytes: usize,
    max_nesting: u32,
    workflows: BTreeMap<Arc<str>, Arc<Spec>>,
}

/// The models that `#[agent]`s have in place of their own.
#[derive(Clone, Debug, Default)]
struct AgentModels {
    all: Option<ModelSource>,
    by_name: BTreeMap<String, ModelSource>,
}

type ModelFactory = Arc<dyn Fn(&ModelRef, &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, String> + Send + Sync>;

impl Runtime {
    /// A runtime to be described.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// The model of a name such as `openai-chat/gpt-5-mini`.
    ///
    /// # Errors
    /// When no adapter of that wire format is known, or it cannot be set up (no key, say).
    pub fn model(&self, model: &ModelRef) -> Result<Arc<dyn Model>, ModelRefError> {
        let problem = match self.0.settings.models.get(model.provider()) {
            Some(factory) => match factory(model, &self.0.settings.secrets) {
                Ok(model) => return Ok(model),
                Err(problem) => problem,
            },
            None => match crate::model::built_in(model, &self.0.settings.secrets) {
                Ok(model) => return Ok(model),
                Err(problem) => problem,
            },
        };
        Err(ModelRefError::unusable(model, problem))
    }

    /// A value of the application, as an instruction shows it by `{app:KEY}`.
    pub fn app(&self, key: &str) -> Option<&Value> {
        self.0.settings.app.get(key)
    }

    /// The model that the `#[agent]` of a name has in place of its own.
    pub(crate) fn agent_model(&self, name: &str) -> Option<ModelSource> {
        let AgentModels { all, by_name } = &self.0.settings.agents;
        by_name.get(name).or(all.as_ref()).cloned()
    }

    /// The providers that models can be named by, ordered by name: those of this build and the host's own. Each key is
    /// asked for and none is shown.
    pub async fn model_providers(&self) -> Vec<ModelProvider> {
        let mut providers = crate::model::built_in_providers(&self.0.settings.secrets).await;
        providers.retain(|provider| !self.0.settings.models.contains_key(&*provider.name));
        providers.extend(self.0.settings.models.keys().map(|name| ModelProvider::of_host(name)));
        providers.sort_by(|a, b| a.name.cmp(&b.name));
        providers
    }

    /// Whether the host itself makes the models of a provider.
    #[cfg(feature = "cli")]
    pub(crate) fn makes(&self, provider: &str) -> bool {
        self.0.settings.models.contains_key(provider)
    }

    #[cfg(feature = "cli")]
    pub(crate) fn secrets(&self) -> Arc<dyn SecretProvider> {
        Arc::clone(&self.0.settings.secrets)
    }

    /// Whether spans hold contents.
    pub(crate) fn traces_content(&self) -> bool {
        self.0.settings.trace_content
    }

    /// What stands around all agents, the outermost first.
    pub(crate) fn middleware(&self) -> &Arc<[Arc<dyn Middleware>]> {
        &self.0.settings.middleware
    }

    pub(crate) fn redactor(&self) -> Option<Redactor> {
        self.0.settings.redactor.clone()
    }

    pub(crate) fn max_output_bytes(&self) -> usize {
        self.0.settings.max_output_bytes
    }

    pub(crate) fn max_llm_calls(&self) -> u32 {
        self.0.settings.max_llm_calls
    }

    pub(crate) fn max_nesting(&self) -> u32 {
        self.0.settings.max_nesting
    }

    /// A context of this runtime that belongs to no run: what an `#[agent]` or a `#[workflow]` is called with from a
    /// program's own code. What is begun with it is a run of its own, kept in memory.
    pub fn context(&self) -> Context {
        let shared = RunShared::new(RunId::new("detached"), self, None);
        Context::new(Arc::new(shared), StepPath::root(), self.resources().clone())
    }

    /// The same runtime over another store.
    #[must_use]
    pub fn with_store(&self, store: impl Store) -> Self {
        let mut settings = self.0.settings.clone();
        settings.store = Some(Arc::new(store));
        Self::new(settings)
    }

    fn new(settings: Settings) -> Self {
        let sinks = settings.sinks.as_slice().into();
        let live = settings.store.as_ref().map(LiveRuns::of);
        Self(Arc::new(Inner { settings, sinks, live }))
    }

    /// The journal of a new run, when there is a store.
    pub(crate) fn new_journal(&self) -> Option<Journal> {
        self.0.settings.store.as_ref().map(|store| Journal::new(Arc::clone(store), None))
    }

    pub(crate) fn store(&self) -> Option<&Arc<dyn Store>> {
        self.0.settings.store.as_ref()
    }

    fn require_store(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.0.settings.store.clone().ok_or_else(control::no_store)
    }

    /// The workflow of a name: one that the runtime was given, or one that is linked into the program.
    fn workflow_spec(&self, name: &str) -> Result<Arc<Spec>, Error> {
        if let Some(spec) = self.0.settings.workflows.get(name) {
            return Ok(Arc::clone(spec));
        }
        let linked = linked()?;
        if let Some(linked) = linked.get(name) {
            return Ok((linked.spec)());
        }
        let known = self.0.settings.workflows.keys().map(|name| &**name).chain(linked.keys().copied());
        let near = crate::text::nearest(name, known).map(ToOwned::to_owned);
        Err(Error::UnknownWorkflow { name: name.into(), near })
    }

    /// The workflows that this runtime knows, ordered by name: those it was given, and those linked into the program.
    ///
    /// # Errors
    /// When two linked workflows have one name.
    pub fn workflows(&self) -> Result<Vec<Graph>, Error> {
        let linked = linked()?.into_iter().map(|(name, linked)| (Arc::from(name), (linked.spec)()));
        let mut all: BTreeMap<Arc<str>, Arc<Spec>> = linked.collect();
        all.extend(self.0.settings.workflows.iter().map(|(name, spec)| (Arc::clone(name), Arc::clone(spec))));
        Ok(all.values().map(|spec| Graph::of(spec)).collect())
    }

    /// The description of a workflow that this runtime knows.
    ///
    /// # Errors
    /// When it knows none of this name.
    pub fn workflow_graph(&self, name: &str) -> Result<Graph, Error> {
        Ok(Graph::of(&*self.workflow_spec(name)?))
    }

    /// The runs of the store that are executed in this process, through whichever runtime.
    pub(crate) fn live(&self) -> Option<&Arc<LiveRuns>> {
        self.0.live.as_ref()
    }

    /// A run with a store is executed here from now on: it is found by its id until it is forgotten.
    pub(crate) fn remember(&self, shared: &Arc<RunShared>) {
        if let Some(live) = self.live().filter(|_| shared.log.is_durable()) {
            live.add(shared);
        }
    }

    /// A run is no longer executed here.
    pub(crate) fn forget(&self, shared: &RunShared) {
        if let Some(live) = self.live().filter(|_| shared.log.is_durable()) {
            live.remove(shared);
        }
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.settings.clock)
    }

    pub(crate) fn new_run_id(&self) -> RunId {
        (self.0.settings.ids)()
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.0.settings.resources
    }

    pub(crate) fn sinks(&self) -> Arc<[Arc<dyn EventSink>]> {
        Arc::clone(&self.0.sinks)
    }
}

impl Default for Runtime {
    fn default() -> Self {
        static DEFAULT: OnceLock<Runtime> = OnceLock::new();
        DEFAULT.get_or_init(|| Self::builder().build()).clone()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("clock", &self.0.settings.clock)
            .field("resources", &self.0.settings.resources)
            .field("sinks", &self.0.sinks.len())
            .field("models", &self.0.settings.models.keys())
            .field("agents", &self.0.settings.agents)
            .field("app", &self.0.settings.app.keys())
            .field("store", &self.0.settings.store)
            .finish_non_exhaustive()
    }
}
