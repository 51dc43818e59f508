//! [`RuntimeBuilder`] collects the settings of a runtime. It starts and opens nothing.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::access::{AccessControl, AccessPolicy};
use crate::agent::{AgentModels, ErasedAgent};
use crate::definition::Changes;
use crate::event::{EventSink, RunId};
use crate::executor::{RemoteSteps, StepExecutor};
use crate::future::BoxFuture;
use crate::memory::Memory;
use crate::middleware::{self, Middleware};
use crate::model::{Model, ModelRef, ModelSource, SecretProvider, full_name};
use crate::resource::{ResourceKey, Resources};
use crate::run::{Host, ResourceFactory, RunBeginning};
use crate::runtime::Runtime;
use crate::runtime::catalogue::catalogue_entry::Origin;
use crate::runtime::catalogue::lookup::{self, Given};
use crate::runtime::catalogue::name_arguments::GivenAgent;
use crate::store::Store;
use crate::time::Clock;
use crate::tool::{
    FindTool, IntoTools, Replacement, Replacements, ToolList, ToolRef, ToolsetRef, unused_resources,
};
use crate::value::NodeValue;
use crate::workflow::{Inputs, Workflow};

/// Builder for a [`Runtime`].
///
/// ```
/// use agentflow::middleware::token_budget;
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
///
/// let runtime = Runtime::builder()
///     .store(MemoryStore::new())
///     .model("openai/gpt-5-mini")
///     .with(token_budget(100_000))
///     .max_llm_calls(50)
///     .grant(["orders:read"])
///     .build();
/// # drop(runtime);
/// ```
#[must_use]
#[derive(Default)]
pub struct RuntimeBuilder {
    pub(crate) host: Host,
    sinks: Vec<Arc<dyn EventSink>>,
    middleware: Vec<Arc<dyn Middleware>>,
    agents: AgentModels,
    pub(crate) given: Given,
    #[cfg(feature = "documents")]
    pub(crate) documents: Vec<crate::document::Document>,
    #[cfg(feature = "documents")]
    pub(crate) folders: Vec<std::path::PathBuf>,
    /// Entries of configurations that cannot be used.
    pub(crate) problems: Vec<crate::runtime::builder::configuration::ConfigProblem>,
}

impl RuntimeBuilder {
    /// Sets the source of timestamps. Default: the system clock.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.host.clock = Arc::new(clock);
        self
    }

    /// Sets the source of ids for new runs. Default: time and random bits.
    pub fn run_ids(mut self, ids: impl Fn() -> RunId + Send + Sync + 'static) -> Self {
        self.host.ids = Some(Arc::new(ids));
        self
    }

    /// Sets the source of randomness, which returns 64 random bits per call. It is used for the
    /// delay of retried model calls and for ids of new runs. Default: a generator that is seeded
    /// anew in each process.
    pub fn random(mut self, bits: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.host.random_bits = Arc::new(bits);
        self
    }

    /// Adds a resource for all tools of all agents, identified by its type.
    #[doc(alias = "deps")]
    #[doc(alias = "dependency_injection")]
    pub fn resource<T: Send + Sync + 'static>(mut self, resource: T) -> Self {
        self.host.resources.insert(resource);
        self
    }

    /// Adds a resource that is created for each run, such as the database of a tenant. `make` is
    /// called when a run starts without a resource of this type, and again when the run is resumed,
    /// so the resource is available after a restart too. It receives the [start data](RunBeginning)
    /// of the run. It takes precedence over the runtime's own resource of the same type, and nested
    /// calls use it too. If two factories have the same type, the last one is used.
    ///
    /// The value is dropped when the run has ended, even if its handle still exists;
    /// [`close_resource`](Self::close_resource) can close it before. A [`Context`](crate::Context)
    /// that outlives the run keeps the value.
    ///
    /// If `make` fails, the run is not started. A run to be resumed is then reported in
    /// [`Recovered::left`](crate::runtime::Recovered::left).
    ///
    /// ```
    /// use agentflow::prelude::*;
    ///
    /// struct Stock(String);
    ///
    /// /// Where the goods are.
    /// #[tool]
    /// async fn warehouse(stock: Inject<Stock>) -> String {
    ///     stock.0.clone()
    /// }
    ///
    /// #[workflow]
    /// async fn deliver(cx: &Context) -> Result<String> {
    ///     let from = warehouse(cx.inject()?).await;
    ///     Ok(from)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder()
    ///     .run_resource(|began| match began.tags().get("tenant") {
    ///         Some(tenant) => Ok(Stock(format!("the stock of {tenant}"))),
    ///         None => Err("it has no tag `tenant`"),
    ///     })
    ///     .build();
    /// let run = runtime.start(deliver::workflow(), ()).tag("tenant", "acme").await?;
    /// assert_eq!(run.result().await?, "the stock of acme");
    /// let error = runtime.start(deliver::workflow(), ()).await.unwrap_err();
    /// assert!(error.to_string().ends_with("could not be made: it has no tag `tenant`"), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_resource<T, E>(
        mut self,
        make: impl Fn(&RunBeginning) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self
    where
        T: Send + Sync + 'static,
        E: fmt::Display,
    {
        self.host.factories.add(factory(None, make));
        self
    }

    /// Adds a resource that the runs of a session share, such as a browser or a sandbox. `make` is
    /// called for the first run of a session. The value is kept until no run of the session has
    /// used it for the duration `keep`. It belongs to this process: after a restart and in other
    /// processes, it is created anew. The value is removed at once if its session is
    /// [deleted](crate::runtime::Sessions::delete) or the runtime is
    /// [drained](crate::Runtime::drain). If more than 1,000 sessions are idle, the value of the
    /// session that is idle longest is removed. A run without a session has its own value, as with
    /// [`run_resource`](Self::run_resource), which also describes errors and precedence. Two
    /// callers never share a value.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use agentflow::prelude::*;
    ///
    /// struct Browser;
    ///
    /// impl Browser {
    ///     async fn quit(&self) {}
    /// }
    ///
    /// let runtime = Runtime::builder()
    ///     .session_resource(Duration::from_secs(600), |_| Ok::<_, String>(Browser))
    ///     .close_resource(|browser: Arc<Browser>| async move { browser.quit().await })
    ///     .build();
    /// # let _ = runtime;
    /// # use std::sync::Arc;
    /// ```
    pub fn session_resource<T, E>(
        mut self,
        keep: Duration,
        make: impl Fn(&RunBeginning) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self
    where
        T: Send + Sync + 'static,
        E: fmt::Display,
    {
        self.host.factories.add(factory(Some(keep), make));
        self
    }

    /// Sets a function that closes each value of a type that [`run_resource`](Self::run_resource)
    /// or [`session_resource`](Self::session_resource) created. The value of a run is closed after
    /// the run has ended, successfully or not, and before its result is returned. For a run that
    /// could not start, is dropped, or is stopped by [draining](crate::Runtime::drain), it is
    /// closed on another task, for which draining waits. Closing is abandoned after 10 seconds. A
    /// value that was passed to a run with `.resource(value)` belongs to the program: it is dropped
    /// at the end of the run, and not closed.
    #[doc(alias = "LifespanPlugin")]
    pub fn close_resource<T, F>(
        mut self,
        close: impl Fn(Arc<T>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let close = move |resources: &Resources| {
            let closing: BoxFuture<'static, ()> = Box::pin(close(resources.get::<T>()?));
            Some(closing)
        };
        self.host.factories.close_with(ResourceKey::of::<T>(), Arc::new(close));
        self
    }

    /// Sets the long-term memory of all agents and workflows: see [`memory`](crate::memory). It is
    /// the resource `dyn Memory`; use [`run_resource`](Self::run_resource) with an
    /// `Arc<dyn Memory>` for a separate memory per run, such as one per tenant.
    pub fn memory(mut self, memory: impl Memory) -> Self {
        self.host.resources.insert_shared::<dyn Memory>(Arc::new(memory));
        self
    }

    /// Adds a sink, which receives all events of all runs.
    pub fn sink(mut self, sink: impl EventSink + 'static) -> Self {
        self.sinks.push(Arc::new(sink));
        self
    }

    /// Records the arguments of tool calls that are a node of a workflow by themselves. Such a call
    /// then has `tool.started` and an end event below the node, like any other call, and
    /// [`redact`](crate::middleware::redact) applies to them. Views of the run, such as
    /// `AgentEvents`, then contain the call. Calls that a resumed run has recorded before are not
    /// changed. Default: off; only the events of the node are recorded, without arguments.
    ///
    /// ```
    /// use agentflow::event::EventKind;
    /// use agentflow::prelude::*;
    ///
    /// /// Take money.
    /// #[tool]
    /// async fn charge(cents: u32) -> String {
    ///     format!("receipt of {cents}")
    /// }
    ///
    /// #[workflow]
    /// async fn paid_order(cents: u32) -> Result<String> {
    ///     let receipt = charge(cents).await;
    ///     Ok(receipt)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let run = Runtime::builder().record_calls(true).build().start(paid_order::workflow(), 500).await?;
    /// run.result().await?;
    /// let call = run.recorded().into_iter().find_map(|event| match event.kind {
    ///     EventKind::ToolStarted { call, .. } => Some(call),
    ///     _ => None,
    /// });
    /// assert_eq!(call.unwrap().arguments, r#"{"cents":500}"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn record_calls(mut self, records: bool) -> Self {
        self.host.records_calls = records;
        self
    }

    /// Sets the rule for resuming a run whose workflow or agent has changed since it started.
    /// Default: [`Changes::AcceptCompatible`].
    pub fn changes(mut self, changes: Changes) -> Self {
        self.host.set_part(changes);
        self
    }

    /// Sets the access control, which is asked before a caller starts, reads or controls a run
    /// through [`Runtime::for_caller`] or a server. Default: every caller may do everything.
    pub fn access_control(mut self, access: impl AccessControl) -> Self {
        self.host.set_part(AccessPolicy(Arc::new(access)));
        self
    }

    /// Sets the source of API keys and other secrets. Default: environment variables.
    pub fn secrets(mut self, secrets: impl SecretProvider + 'static) -> Self {
        self.host.secrets = Arc::new(secrets);
        self
    }

    /// Registers a factory for models of a provider: `Agent::new("PROVIDER/NAME")` then calls it. A
    /// built-in provider can be replaced.
    #[track_caller]
    pub fn model_provider<F>(mut self, provider: impl Into<String>, factory: F) -> Self
    where
        F: Fn(&ModelRef, &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, String>
            + Send
            + Sync
            + 'static,
    {
        let provider = full_name(&provider.into()).to_owned();
        self.given.providers.push((provider.as_str().into(), Origin::given(Location::caller())));
        self.host.models.insert(provider, Arc::new(factory));
        self
    }

    /// Maps model names without a provider to a provider, by prefix: in the example,
    /// `Agent::new("acme-large")` means `acme/acme-large`. The longest matching prefix is used,
    /// before those of built-in providers. Model names in `#[agent(model = ..)]`, in documents and
    /// in settings must still contain their provider.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder()
    ///     .model_provider("acme", |model, _| Ok(Arc::new(ScriptedModel::new([Turn::text(model.model())]))))
    ///     .model_prefixes("acme", ["acme-"])
    ///     .build();
    /// assert_eq!(Agent::new("acme-large").runtime(&runtime).run("Hi").await?.output(), "acme-large");
    /// # Ok(())
    /// # }
    /// ```
    pub fn model_prefixes<P: Into<String>>(
        mut self,
        provider: impl Into<String>,
        prefixes: impl IntoIterator<Item = P>,
    ) -> Self {
        let provider = provider.into();
        self.host
            .model_prefixes
            .extend(prefixes.into_iter().map(|prefix| (prefix.into(), provider.clone())));
        self
    }

    /// Sets the model of every `#[agent]`, replacing the one in its attribute: a name, or a model.
    /// It does not affect an [`Agent`](crate::Agent) that a program builds.
    ///
    /// [`agent_model`](Self::agent_model) takes precedence over this setting, and this setting over
    /// the attribute. With either of them the API key of the attribute's model is not needed, so
    /// tests do not depend on the environment:
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// /// Translate into {language}.
    /// #[agent(model = "anthropic/claude-sonnet-4-5")]
    /// async fn translate(cx: &Context, language: String, text: String) -> Result<String>;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
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

    /// Sets the model of the `#[agent]` with this name. It takes precedence over its attribute and
    /// over [`model`](Self::model).
    pub fn agent_model(mut self, agent: impl Into<String>, model: impl Into<ModelSource>) -> Self {
        self.agents.by_name.insert(agent.into(), model.into());
        self
    }

    /// Sets a value of the application, which instructions insert with `{app:KEY}`: a string as it
    /// is, any other value as JSON. A second value with the same key replaces the first.
    pub fn app(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.host.app.insert(key.into(), value.into());
        self
    }

    /// Enables message contents in `tracing` spans, in the attributes of the GenAI conventions:
    /// `gen_ai.system_instructions`, `gen_ai.input.messages`, `gen_ai.output.messages`,
    /// `gen_ai.tool.definitions`, and the arguments and results of tool calls. Default: off, since
    /// contents may be private, and each span of a model call would contain the whole conversation.
    pub fn trace_content(mut self, yes: bool) -> Self {
        self.host.trace_content = yes;
        self
    }

    /// Adds middleware for all agents of all runs. It is called inside the middleware that was
    /// added before and outside the middleware of an agent: see [`middleware`](crate::middleware).
    ///
    /// ```
    /// use agentflow::middleware::token_budget;
    /// use agentflow::prelude::*;
    ///
    /// let runtime = Runtime::builder().with(token_budget(50_000)).build();
    /// # let _ = runtime;
    /// ```
    #[doc(alias = "use")]
    pub fn with(mut self, middleware: impl Middleware + 'static) -> Self {
        if let Some(redactor) = middleware.redactor() {
            self.host.redactor = Some(match self.host.redactor.take() {
                Some(before) => before.and(redactor),
                None => redactor,
            });
        }
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Replaces tools, agents, workflows and people by name, in all runs of this runtime. For
    /// tests: pass an `agentflow_testing::Mocks`. A second call replaces the first. Default:
    /// nothing is replaced. Resources that only replaced tools need may be missing.
    pub fn replace(mut self, replacement: impl Replacement + 'static) -> Self {
        let replacements = Replacements::new(replacement);
        self.host.set_part(unused_resources(&replacements));
        self.host.set_part(replacements);
        self
    }

    /// Sets the maximum number of model calls of a workflow run and everything it starts (default:
    /// 500). [`StartRun::max_llm_calls`](crate::runtime::StartRun::max_llm_calls) lowers it for a
    /// single run. For runs of agents see
    /// [`Limits::max_llm_calls`](crate::agent::Limits::max_llm_calls).
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.host.max_llm_calls = calls;
        self
    }

    /// Sets the maximum size in bytes of a workflow step's output, as JSON. Default: 16 MiB. A step
    /// with a larger output fails with `too_large`. Store large data elsewhere and return a
    /// reference to it.
    pub fn max_output_bytes(mut self, bytes: usize) -> Self {
        self.host.max_output_bytes = bytes;
        self
    }

    /// Sets the maximum nesting depth of agents and workflows. A top-level run has depth 1, an
    /// agent in a tool of an agent 2, a workflow in that agent's tool 3. A deeper call fails with
    /// [`Error::NestingLimit`](crate::Error), which also ends the enclosing agents. Default: 16. 0
    /// counts as 1.
    ///
    /// All levels are polled on the same stack. In a build without optimizations a level uses up to
    /// 50 KiB of it, in addition to the bodies of tools and steps. A much higher limit needs a
    /// larger `thread_stack_size` of the tokio runtime.
    pub fn max_nesting(mut self, depth: u32) -> Self {
        self.host.max_nesting = depth.max(1);
        self
    }

    /// Grants scopes to workflows and to `#[agent]`s in all runs;
    /// [`StartRun::grant`](crate::runtime::StartRun::grant) grants scopes to a single run. A step
    /// or a model may then call a `#[tool]` that requires them. Without the scope, such a call
    /// fails its step with the kind `unauthorized`, or returns this error to the model. Nested
    /// calls inherit the grants of the enclosing step or tool. The grants are recorded when a run
    /// starts: resuming it in a runtime with other grants does not change them. For an
    /// [`Agent`](crate::Agent) that a program builds, use
    /// [`AgentSettings::grant`](crate::agent::AgentSettings::grant). Default: none.
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        let more = scopes.into_iter().map(Into::into);
        self.host.scopes = self.host.scopes.iter().cloned().chain(more).collect();
        self
    }

    /// Sets the store in which runs are persisted, so that they survive the process. Default: no
    /// store; a run is kept in memory while it is executed.
    #[doc(alias = "checkpointer")]
    pub fn store(mut self, store: impl Store) -> Self {
        self.host.set_store(Arc::new(store));
        self
    }

    /// Dispatches the steps of workflows to an executor: see [`executor`](crate::executor).
    /// Default: steps are executed as function calls, in the task of their run.
    pub fn executor(mut self, executor: impl StepExecutor + 'static) -> Self {
        self.host.set_part(RemoteSteps(Arc::new(executor)));
        self
    }

    /// Registers a workflow under its name, so that its runs can be started and resumed by name. A
    /// `#[workflow]` does not need this. Another workflow with the same name, registered or linked
    /// into the program, is an error when the name is used, and a problem of the
    /// [`CatalogueReader::snapshot`](crate::runtime::CatalogueReader::snapshot).
    #[track_caller]
    pub fn workflow<In: Inputs, Out: NodeValue>(mut self, workflow: &Workflow<In, Out>) -> Self {
        self.given.workflows.push((Arc::clone(workflow.spec()), Origin::given(Location::caller())));
        self
    }

    /// Registers the workflow of a graph under its name, so that its runs can be started and
    /// resumed by name. The nodes of the graph refer to tools, agents and workflows of this
    /// runtime. The tools of a [toolset](Self::toolset) are fetched before the workflow is started
    /// or resumed. A node uses the version of the tool that the toolset has when the node starts,
    /// and fails if the tool was removed. If a toolset cannot be fetched, the run starts
    /// nevertheless, and each node that calls one of its tools fetches it again: only these nodes
    /// fail. The run keeps this plan: it can be resumed whether or not the toolset is available
    /// again, independent of [`changes`](Self::changes). A run that started with the tools of a
    /// toolset is resumed only when they can be fetched.
    ///
    /// Errors in the graph are reported together, when the name is used and as a problem of the
    /// [`CatalogueReader::snapshot`](crate::runtime::CatalogueReader::snapshot).
    #[cfg(feature = "dynamic")]
    #[track_caller]
    pub fn graph(mut self, graph: crate::workflow::Graph) -> Self {
        let graph = crate::runtime::catalogue::graphs::RegisteredGraph::new(graph);
        self.given.graphs.push((graph, Origin::given(Location::caller())));
        self
    }

    /// Registers an agent under its name, so that its runs can be started by name, resumed by id
    /// and [recovered](crate::Runtime::recover). An `#[agent]` does not need this. If it is
    /// registered as `judge::agent(..)` with other options, these apply when a run is resumed.
    /// Another agent with the same name, registered or linked into the program, is an error when
    /// the name is used, and a problem of the
    /// [`CatalogueReader::snapshot`](crate::runtime::CatalogueReader::snapshot).
    #[track_caller]
    pub fn agent(mut self, agent: impl GivenAgent) -> Self {
        self.given
            .agents
            .push((ErasedAgent::new(agent.given()), Origin::given(Location::caller())));
        self
    }

    /// Registers tools under their names, in addition to those that are linked into the program.
    /// Accepts the same values as [`Agent::tools`](crate::Agent::tools). The tools are not added to
    /// any agent. Another tool with the same name is an error when the name is used, and a problem
    /// of the [`CatalogueReader::snapshot`](crate::runtime::CatalogueReader::snapshot).
    #[track_caller]
    #[doc(alias = "register_tool")]
    pub fn tools(mut self, tools: impl IntoTools) -> Self {
        let origin = Origin::given(Location::caller());
        let ToolList { tools, toolsets } = tools.into_tools();
        let tools = tools.into_iter().map(ToolRef::with_wire_name);
        self.given.toolsets.extend(toolsets.into_iter().map(|toolset| (toolset, origin.clone())));
        self.given.tools.extend(tools.map(|tool| (tool, origin.clone())));
        self
    }

    /// Registers a toolset, whose tools have names such as `files.read`. They are fetched when one
    /// of them, or the [`CatalogueReader::snapshot`](crate::runtime::CatalogueReader::snapshot), is
    /// requested. The tools are not added to any agent.
    #[track_caller]
    pub fn toolset(mut self, toolset: impl Into<ToolsetRef>) -> Self {
        self.given.toolsets.push((toolset.into(), Origin::given(Location::caller())));
        self
    }

    /// Registers a JSON Schema under a name, under which it is listed in the
    /// [`CatalogueReader::snapshot`](crate::runtime::CatalogueReader::snapshot).
    #[track_caller]
    pub fn schema(mut self, name: impl Into<Arc<str>>, schema: impl Into<Value>) -> Self {
        self.given.schemas.push(((name.into(), schema.into()), Origin::given(Location::caller())));
        self
    }

    /// Marks the runtime as one without registered items, for better error messages.
    #[cfg(feature = "dynamic")]
    #[doc(hidden)]
    pub fn linked_alone(mut self) -> Self {
        self.given.is_linked_alone = true;
        self
    }

    /// Builds the runtime.
    pub fn build(self) -> Runtime {
        #[cfg(feature = "documents")]
        let documents = crate::runtime::documents::set::DocumentSet::new(
            self.given,
            self.documents,
            self.folders,
        );
        #[cfg(not(feature = "documents"))]
        let given = self.given;
        let Self { mut host, sinks, middleware, agents, .. } = self;
        host.sinks = sinks.into();
        set_name_lookups(&mut host);
        host.set_part(middleware::RuntimeMiddleware::new(middleware));
        host.set_part(agents);
        host.set_part(crate::runtime::builder::configuration::ConfigProblems(self.problems.into()));
        #[cfg(feature = "documents")]
        documents.put_into(&mut host);
        #[cfg(feature = "documents")]
        crate::runtime::documents::stored_items::StoredItems::default().put_into(&mut host);
        #[cfg(not(feature = "documents"))]
        host.set_part(crate::runtime::catalogue::registered_items::RegisteredItems::new(given));
        Runtime(Arc::new(host))
    }
}

/// Creates a factory of values for runs, or for sessions if `keep` is set.
fn factory<T, E>(
    keep: Option<Duration>,
    make: impl Fn(&RunBeginning) -> Result<T, E> + Send + Sync + 'static,
) -> ResourceFactory
where
    T: Send + Sync + 'static,
    E: fmt::Display,
{
    let make = move |began: &RunBeginning, resources: &mut Resources| {
        resources.insert(make(began).map_err(|error| error.to_string())?);
        Ok(())
    };
    ResourceFactory { key: ResourceKey::of::<T>(), keep, make: Arc::new(make) }
}

/// Sets the functions of a host that need lookup by name: resuming a run, checking an answer,
/// compensating a call.
pub(crate) fn set_name_lookups(host: &mut Host) {
    host.check_answer = lookup::checked;
    host.resume = |host, run| {
        let runtime = Runtime(Arc::clone(host));
        Box::pin(async move { runtime.run(run).resume().await.map(drop) })
    };
    host.set_part(FindTool(|host, name| {
        Box::pin(async move { Runtime(Arc::clone(host)).catalogue().tool(name).await })
    }));
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("host", &self.host).finish_non_exhaustive()
    }
}
