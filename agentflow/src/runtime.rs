//! What all runs of a program share: models by name, clock, ids, resources, sinks.
//!
//! An owned value and no global: two runtimes in one program know nothing of each other.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::agent::ModelSource;
use crate::context::{Context, RunShared};
use crate::event::{EventSink, Journal, RunId};
use crate::model::{EnvSecrets, Model, ModelRef, ModelRefError, SecretProvider};
use crate::path::StepPath;
use crate::resource::Resources;
use crate::store::Store;
use crate::time::{Clock, SystemClock};

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

    /// Where runs are kept, so that they survive their process. Default: nowhere but in memory, for as long as a run
    /// goes on.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// The runtime.
    pub fn build(self) -> Runtime {
        let Self { clock, ids, resources, sinks, secrets, models, agents, app, store } = self;
        Runtime(Arc::new(Inner { clock, ids, resources, sinks: sinks.into(), secrets, models, agents, app, store }))
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("resources", &self.resources).finish_non_exhaustive()
    }
}
