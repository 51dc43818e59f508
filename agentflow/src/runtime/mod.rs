//! What all runs of a program share: models by name, clock, ids, resources, sinks.
//!
//! An owned value and no global: two runtimes in one program know nothing of each other.

mod control;
mod journal;
mod runs;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use serde_json::Value;

pub use self::runs::Recovered;
pub(crate) use self::state::{NodeState, RunState};
use crate::agent::ModelSource;
use crate::context::{Context, RunShared};
use crate::error::Error;
use crate::event::{EventSink, Journal, RunId};
use crate::model::{EnvSecrets, Model, ModelProvider, ModelRef, ModelRefError, SecretProvider};
use crate::path::StepPath;
use crate::resource::Resources;
use crate::store::{Store, StoreError};
use crate::time::{Clock, SystemClock};
use crate::value::NodeValue;
use crate::workflow::spec::Spec;
use crate::workflow::{Inputs, Workflow};

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
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Fn() -> RunId + Send + Sync>,
    resources: Resources,
    sinks: Arc<[Arc<dyn EventSink>]>,
    secrets: Arc<dyn SecretProvider>,
    models: BTreeMap<String, ModelFactory>,
    agents: AgentModels,
    app: BTreeMap<String, Value>,
    store: Option<Arc<dyn Store>>,
    trace_content: bool,
    workflows: BTreeMap<Arc<str>, Arc<Spec>>,
    /// The runs that go on in this process, by their id.
    live: Mutex<HashMap<RunId, Weak<RunShared>>>,
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
        let problem = match self.0.models.get(model.provider()) {
            Some(factory) => match factory(model, &self.0.secrets) {
                Ok(model) => return Ok(model),
                Err(problem) => problem,
            },
            None => match crate::model::built_in(model, &self.0.secrets) {
                Ok(model) => return Ok(model),
                Err(problem) => problem,
            },
        };
        Err(ModelRefError::unusable(model, problem))
    }

    /// A value of the application, as an instruction shows it by `{app:KEY}`.
    pub fn app(&self, key: &str) -> Option<&Value> {
        self.0.app.get(key)
    }

    /// The model that the `#[agent]` of a name has in place of its own.
    pub(crate) fn agent_model(&self, name: &str) -> Option<ModelSource> {
        let AgentModels { all, by_name } = &self.0.agents;
        by_name.get(name).or(all.as_ref()).cloned()
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

    /// Whether the host itself makes the models of a provider.
    #[cfg(feature = "cli")]
    pub(crate) fn makes(&self, provider: &str) -> bool {
        self.0.models.contains_key(provider)
    }

    #[cfg(feature = "cli")]
    pub(crate) fn secrets(&self) -> Arc<dyn SecretProvider> {
        Arc::clone(&self.0.secrets)
    }

    /// Whether spans hold contents.
    pub(crate) fn traces_content(&self) -> bool {
        self.0.trace_content
    }

    /// A context of this runtime that belongs to no run: what an `#[agent]` or a `#[workflow]` is called with from a
    /// program's own code. What is begun with it is a run of its own, kept in memory.
    pub fn context(&self) -> Context {
        let shared = RunShared::new(RunId::new("detached"), self, None);
        Context::new(Arc::new(shared), StepPath::root(), self.resources().clone())
    }

    /// The journal of a new run, when there is a store.
    pub(crate) fn new_journal(&self) -> Option<Journal> {
        self.0.store.as_ref().map(|store| Journal::new(Arc::clone(store), None))
    }

    pub(crate) fn store(&self) -> Option<&Arc<dyn Store>> {
        self.0.store.as_ref()
    }

    fn require_store(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.0.store.clone().ok_or_else(control::no_store)
    }

    /// The workflow of a name: one that the runtime was given, or one that is linked into the program.
    fn workflow_spec(&self, name: &str) -> Result<Arc<Spec>, Error> {
        if let Some(spec) = self.0.workflows.get(name) {
            return Ok(Arc::clone(spec));
        }
        let near = crate::text::nearest(name, self.0.workflows.keys().map(|name| &**name));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Err(Error::Build {
            what: "workflow",
            name: name.into(),
            problem: format!("this program knows no workflow of this name{hint}"),
        })
    }

    fn live_runs(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Weak<RunShared>>> {
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run that goes on in this process.
    fn live(&self, run: &RunId) -> Option<Arc<RunShared>> {
        self.live_runs().get(run)?.upgrade().filter(|shared| !shared.log.is_closed())
    }

    /// A run goes on here from now on.
    pub(crate) fn remember(&self, shared: &Arc<RunShared>) {
        if shared.log.is_durable() {
            self.live_runs().insert(shared.id.clone(), Arc::downgrade(shared));
            self.watch_messages(shared);
        }
    }

    /// A run goes on here no more.
    pub(crate) fn forget(&self, run: &RunId) {
        let mut live = self.live_runs();
        if !live.is_empty() {
            live.remove(run);
        }
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.clock)
    }

    pub(crate) fn new_run_id(&self) -> RunId {
        (self.0.ids)()
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.0.resources
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
            .field("clock", &self.0.clock)
            .field("resources", &self.0.resources)
            .field("sinks", &self.0.sinks.len())
            .field("models", &self.0.models.keys())
            .field("agents", &self.0.agents)
            .field("app", &self.0.app.keys())
            .field("store", &self.0.store)
            .finish_non_exhaustive()
    }
}

/// Describes a [`Runtime`].
#[must_use]
pub struct RuntimeBuilder {
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
    workflows: BTreeMap<Arc<str>, Arc<Spec>>,
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            ids: Arc::new(random_id),
            resources: Resources::default(),
            sinks: Vec::new(),
            secrets: Arc::new(EnvSecrets),
            models: BTreeMap::new(),
            agents: AgentModels::default(),
            app: BTreeMap::new(),
            store: None,
            trace_content: false,
            workflows: BTreeMap::new(),
        }
    }
}

/// 48 bits of milliseconds and 64 random bits in hexadecimal: ids of later runs sort later.
fn random_id() -> RunId {
    let millis = SystemClock.now().as_millis();
    RunId::new(format!("{millis:012x}-{:016x}", fastrand::u64(..)))
}

impl RuntimeBuilder {
    /// Where timestamps come from. Default: the system's clock.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Where the ids of new runs come from. Default: time and chance.
    pub fn run_ids(mut self, ids: impl Fn() -> RunId + Send + Sync + 'static) -> Self {
        self.ids = Arc::new(ids);
        self
    }

    /// Gives all tools of all agents a resource, found by its type.
    pub fn resource<T: Send + Sync + 'static>(mut self, resource: T) -> Self {
        self.resources.insert(resource);
        self
    }

    /// Shows all events of all runs to a sink.
    pub fn sink(mut self, sink: impl EventSink + 'static) -> Self {
        self.sinks.push(Arc::new(sink));
        self
    }

    /// Where keys come from. Default: the environment.
    pub fn secrets(mut self, secrets: impl SecretProvider + 'static) -> Self {
        self.secrets = Arc::new(secrets);
        self
    }

    /// Makes models of a provider of the host's own: `Agent::new("PROVIDER/NAME")` then comes here. A provider that
    /// agentflow knows can be replaced.
    pub fn model_provider<F>(mut self, provider: impl Into<String>, factory: F) -> Self
    where
        F: Fn(&ModelRef, &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, String> + Send + Sync + 'static,
    {
        self.models.insert(provider.into(), Arc::new(factory));
        self
    }

    /// Gives every `#[agent]` this model in place of the one in its attribute: a name, or a model itself. An
    /// [`Agent`](crate::Agent) that a program makes keeps its own.
    ///
    /// [`agent_model`](Self::agent_model) for the agent's name comes before this, and this before the attribute. With
    /// either of them no key of the attribute's model is looked up, so tests need no environment:
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// /// Translate into {language}.
    /// #[agent(model = "anthropic/claude-sonnet-4-5")]
    /// async fn translate(cx: &Context, language: String, text: String) -> agentflow::Result<String>;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> agentflow::Result<()> {
    /// let model = ScriptedModel::new([Turn::text("Guten Tag")]);
    /// let runtime = Runtime::builder().model(model).build();
    /// assert_eq!(translate(&runtime.context(), "German".into(), "Good day".into()).await?, "Guten Tag");
    /// # Ok(())
    /// # }
    /// ```
    pub fn model(mut self, model: impl Into<ModelSource>) -> Self {
        self.agents.all = Some(model.into());
        self
    }

    /// Gives the `#[agent]` of a name this model, whatever its attribute and [`model`](Self::model) say.
    pub fn agent_model(mut self, agent: impl Into<String>, model: impl Into<ModelSource>) -> Self {
        self.agents.by_name.insert(agent.into(), model.into());
        self
    }

    /// Gives the application a value that instructions show by `{app:KEY}`: a string as it is, everything else as JSON.
    /// A second one of the same key replaces the first.
    pub fn app(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.app.insert(key.into(), value.into());
        self
    }

    /// Whether `tracing` spans hold what was said, in the attributes that the GenAI conventions have for it:
    /// `gen_ai.system_instructions`, `gen_ai.input.messages`, `gen_ai.output.messages`, `gen_ai.tool.definitions`, and the
    /// arguments and results of tool calls. Default: no, since contents may be private, and every model call then records
    /// its whole conversation.
    pub fn trace_content(mut self, yes: bool) -> Self {
        self.trace_content = yes;
        self
    }

    /// Where runs are kept, so that they survive their process. Default: nowhere but in memory, for as long as a run
    /// goes on.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Makes a workflow known by its name, so that its runs can be taken up by their id. One of the same name takes the
    /// place of an earlier one, and of one that is linked into the program.
    pub fn workflow<In: Inputs, Out: NodeValue>(mut self, workflow: &Workflow<In, Out>) -> Self {
        self.workflows.insert(workflow.name().into(), Arc::clone(workflow.spec()));
        self
    }

    /// The runtime.
    pub fn build(self) -> Runtime {
        let Self { clock, ids, resources, sinks, secrets, models, agents, app, store, trace_content, workflows } = self;
        let (sinks, live) = (sinks.into(), Mutex::default());
        let inner =
            Inner { clock, ids, resources, sinks, secrets, models, agents, app, store, trace_content, workflows, live };
        Runtime(Arc::new(inner))
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("resources", &self.resources).finish_non_exhaustive()
    }
}
