//! `RuntimeBuilder`: describes a runtime part by part. It starts and opens nothing.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Runtime;
use super::catalogue::{self, Given};
use super::catalogue_entry::Origin;
use super::known_by_name::GivenAgent;
use crate::agent::{AgentModels, ErasedAgent};
use crate::definition::Changes;
use crate::event::{EventSink, RunId};
use crate::executor::{StepExecutor, StepsElsewhere};
use crate::future::BoxFuture;
use crate::memory::Memory;
use crate::middleware::{self, Middleware};
use crate::model::{Model, ModelRef, ModelSource, SecretProvider, full_name};
use crate::resource::{ResourceKey, Resources};
use crate::run::{Host, ResourceFactory, RunBeginning};
use crate::store::Store;
use crate::time::Clock;
use crate::tool::{FindTool, IntoTools, Replacement, Replacements, ToolList, ToolRef, ToolsetRef, unused_resources};
use crate::value::NodeValue;
use crate::workflow::{Inputs, Workflow};

/// Describes a [`Runtime`].
#[must_use]
#[derive(Default)]
pub struct RuntimeBuilder {
    pub(super) host: Host,
    sinks: Vec<Arc<dyn EventSink>>,
    middleware: Vec<Arc<dyn Middleware>>,
    agents: AgentModels,
    pub(super) given: Given,
    #[cfg(feature = "documents")]
    pub(super) documents: Vec<crate::document::Document>,
    #[cfg(feature = "documents")]
    pub(super) folders: Vec<std::path::PathBuf>,
    /// Entries of configurations that cannot be used.
    pub(super) problems: Vec<super::config::ConfigProblem>,
}

impl RuntimeBuilder {
    /// Where timestamps come from. Default: the system's clock.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.host.clock = Arc::new(clock);
        self
    }

    /// Where the ids of new runs come from. Default: time and chance.
    pub fn run_ids(mut self, ids: impl Fn() -> RunId + Send + Sync + 'static) -> Self {
        self.host.ids = Some(Arc::new(ids));
        self
    }

    /// Where chance comes from: 64 random bits each time. The waits before retried model calls and the ids of new runs
    /// are made of them. Default: a generator that each process seeds anew.
    pub fn random(mut self, bits: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.host.random_bits = Arc::new(bits);
        self
    }

    /// Gives all tools of all agents a resource, found by its type.
    #[doc(alias = "deps")]
    #[doc(alias = "dependency_injection")]
    pub fn resource<T: Send + Sync + 'static>(mut self, resource: T) -> Self {
        self.host.resources.insert(resource);
        self
    }

    /// Gives each run a resource of its own, such as the database of its tenant: `make` is called when a run begins that
    /// was given none of this type, and again when the run is resumed, with what the run [began](RunBeginning) with. So it
    /// is there after a restart, too. It comes before the runtime's own resource of the type; what is nested in a run has
    /// that of its run. Of two for one type the last one counts.
    ///
    /// The value is dropped when the run has ended, also while its handle is kept; [`close_resource`](Self::close_resource)
    /// closes it before. A [`Context`](crate::Context) that is kept beyond the run keeps the value, too.
    ///
    /// An error of `make` ends the start, before anything of the run was done; such a run is not resumed and is in
    /// [`Recovered::left`](super::Recovered::left).
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
    pub fn run_resource<T, E>(mut self, make: impl Fn(&RunBeginning) -> Result<T, E> + Send + Sync + 'static) -> Self
    where
        T: Send + Sync + 'static,
        E: fmt::Display,
    {
        self.host.factories.add(factory(None, make));
        self
    }

    /// Gives the runs of each session a resource that they share, such as a browser or a sandbox: `make` is called for the
    /// first run of a session, and the value is kept until no run of the session has used it for the time `keep`. It
    /// belongs to this process: after a restart, and in another process, it is made anew. A session that is
    /// [deleted](Runtime::delete_session) and a runtime that is [drained](Runtime::drain) lose it at once; beyond 1,000
    /// idle sessions, the session that is idle longest does. Each run without a session has its own value, as with
    /// [`run_resource`](Self::run_resource), which also describes errors and precedence. Two callers never share a value.
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

    /// Closes each value of a type that [`run_resource`](Self::run_resource) or
    /// [`session_resource`](Self::session_resource) made. The value of a run is closed when the run has ended, well or not,
    /// and before its result is there; a run that could not begin, is dropped or is left by
    /// [draining](Runtime::drain) has it closed on another task, for which draining waits. After 10 seconds, closing
    /// is given up. A value that a run was given with `.resource(value)` belongs to the program: it is dropped with the
    /// end of the run, and not closed.
    #[doc(alias = "LifespanPlugin")]
    pub fn close_resource<T, F>(mut self, close: impl Fn(Arc<T>) -> F + Send + Sync + 'static) -> Self
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

    /// Gives all agents and workflows a long-term memory: see [`memory`](crate::memory). It is the resource `dyn Memory`, so
    /// [`run_resource`](Self::run_resource) with an `Arc<dyn Memory>` gives each run another one, such as that of its tenant.
    pub fn memory(mut self, memory: impl Memory) -> Self {
        self.host.resources.insert_shared::<dyn Memory>(Arc::new(memory));
        self
    }

    /// Shows all events of all runs to a sink.
    pub fn sink(mut self, sink: impl EventSink + 'static) -> Self {
        self.sinks.push(Arc::new(sink));
        self
    }

    /// Records the arguments of each tool call that is all of a workflow's node: the call has `tool.started` and its end below
    /// the node, as any other call, and [`redact`](crate::middleware::redact) takes secrets out of them. Views of the run, such
    /// as `AgentEvents`, then show the call. A run that is resumed keeps the calls that it has. Default: the events of the
    /// node are those of the call, without the arguments.
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
    /// async fn order(cents: u32) -> Result<String> {
    ///     let receipt = charge(cents).await;
    ///     Ok(receipt)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let run = Runtime::builder().record_calls(true).build().start(order::workflow(), 500).await?;
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

    /// What is done with a run whose workflow or agent has changed since it began. Default:
    /// [`Changes::AcceptCompatible`].
    pub fn changes(mut self, changes: Changes) -> Self {
        self.host.set_part(changes);
        self
    }

    /// Where keys come from. Default: the environment.
    pub fn secrets(mut self, secrets: impl SecretProvider + 'static) -> Self {
        self.host.secrets = Arc::new(secrets);
        self
    }

    /// Makes models of a provider of the host's own: `Agent::new("PROVIDER/NAME")` then comes here. A provider that
    /// agentflow knows can be replaced.
    #[track_caller]
    pub fn model_provider<F>(mut self, provider: impl Into<String>, factory: F) -> Self
    where
        F: Fn(&ModelRef, &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, String> + Send + Sync + 'static,
    {
        let provider = full_name(&provider.into()).to_owned();
        self.given.providers.push((provider.as_str().into(), Origin::given(Location::caller())));
        self.host.models.insert(provider, Arc::new(factory));
        self
    }

    /// Looks up models whose bare names begin with one of these at a provider: `Agent::new("acme-large")` then means
    /// `acme/acme-large`. The longest prefix counts, and comes before those of the providers that agentflow knows. The names of
    /// models in `#[agent(model = ..)]`, in documents and in settings name their provider all the same.
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
        self.host.model_prefixes.extend(prefixes.into_iter().map(|prefix| (prefix.into(), provider.clone())));
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

    /// Gives the `#[agent]` of a name this model, whatever its attribute and [`model`](Self::model) say.
    pub fn agent_model(mut self, agent: impl Into<String>, model: impl Into<ModelSource>) -> Self {
        self.agents.by_name.insert(agent.into(), model.into());
        self
    }

    /// Gives the application a value that instructions show by `{app:KEY}`: a string as it is, everything else as JSON.
    /// A second one of the same key replaces the first.
    pub fn app(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.host.app.insert(key.into(), value.into());
        self
    }

    /// Whether `tracing` spans hold what was said, in the attributes that the GenAI conventions have for it:
    /// `gen_ai.system_instructions`, `gen_ai.input.messages`, `gen_ai.output.messages`, `gen_ai.tool.definitions`, and
    /// the arguments and results of tool calls. Default: no, since contents may be private, and every model call then
    /// records its whole conversation.
    pub fn trace_content(mut self, yes: bool) -> Self {
        self.host.trace_content = yes;
        self
    }

    /// Puts middleware around all agents of all runs, inside of what was added before and outside of what an agent has
    /// of its own: see [`middleware`](crate::middleware).
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

    /// Puts something in the place of tools, agents, workflows and persons, by their names, in all runs of this runtime:
    /// for tests, where `agentflow_testing::Mocks` is what is given. A second one replaces the first. Default: nothing is
    /// replaced, which costs a look. A resource that only replaced tools take need not be given.
    pub fn replace(mut self, replacement: impl Replacement + 'static) -> Self {
        let replacements = Replacements::new(replacement);
        self.host.set_part(unused_resources(&replacements));
        self.host.set_part(replacements);
        self
    }

    /// The most model calls of a run of a workflow and of everything it starts. Default 500;
    /// [`StartRun::max_llm_calls`](super::StartRun::max_llm_calls) makes it fewer for one run. Of a run of an agent, the
    /// agent's [`Limits::max_llm_calls`](crate::agent::Limits::max_llm_calls) says it.
    pub fn max_llm_calls(mut self, calls: u32) -> Self {
        self.host.max_llm_calls = calls;
        self
    }

    /// The most bytes that the output of one step of a workflow may have as JSON. Default 16 MiB. A step with a larger
    /// one fails as `too_large`; put the data where it belongs and hand on where it is.
    pub fn max_output_bytes(mut self, bytes: usize) -> Self {
        self.host.max_output_bytes = bytes;
        self
    }

    /// How deep agents and workflows may be nested, a run of its own counting as 1: an agent in a tool of an agent is
    /// 2, a workflow in that agent's tool 3. One that would be deeper fails with [`Error::NestingLimit`](crate::Error),
    /// which also ends the agents around it. Default 16; 0 counts as 1.
    ///
    /// All levels are polled on one stack. In a build without optimizations a level takes up to 50 KiB of it, beside
    /// what the bodies of tools and steps take; a much higher limit needs a larger `thread_stack_size` of the tokio
    /// runtime.
    pub fn max_nesting(mut self, depth: u32) -> Self {
        self.host.max_nesting = depth.max(1);
        self
    }

    /// Grants scopes to workflows and to `#[agent]`s, in all runs; [`StartRun::grant`](super::StartRun::grant) does for one
    /// run. A step, or a model, may then call a `#[tool]` that needs them. Without,
    /// such a call ends its step with a failure of the kind `unauthorized`, and a model gets a result that says so. What begins in a step
    /// or in a tool has the grants of what it begins in. They are recorded when a run begins: resuming it under a runtime
    /// that grants more or less changes nothing. An [`Agent`](crate::Agent) that a program makes is granted scopes by
    /// [`AgentSettings::grant`](crate::agent::AgentSettings::grant). Default: none.
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        let more = scopes.into_iter().map(Into::into);
        self.host.scopes = self.host.scopes.iter().cloned().chain(more).collect();
        self
    }

    /// Where runs are kept, so that they survive their process. Default: nowhere but in memory, for as long as a run
    /// continues.
    #[doc(alias = "checkpointer")]
    pub fn store(mut self, store: impl Store) -> Self {
        self.host.set_store(Arc::new(store));
        self
    }

    /// Executes the steps of workflows elsewhere: see [`executor`](crate::executor). Default: a step is called as the
    /// function that it is, in the task of its run.
    pub fn executor(mut self, executor: impl StepExecutor + 'static) -> Self {
        self.host.set_part(StepsElsewhere(Arc::new(executor)));
        self
    }

    /// Makes a workflow known by its name, so that its runs can be started and resumed by it. A `#[workflow]` is known
    /// without this. Another workflow of the same name, given or linked into the program, is an error where the name is
    /// used, and a problem of the [`catalogue`](Runtime::catalogue).
    #[track_caller]
    pub fn workflow<In: Inputs, Out: NodeValue>(mut self, workflow: &Workflow<In, Out>) -> Self {
        self.given.workflows.push((Arc::clone(workflow.spec()), Origin::given(Location::caller())));
        self
    }

    /// Makes the workflow of a graph known by its name, so that its runs can be started and resumed by it. The nodes of
    /// the graph refer to tools, agents and workflows that this runtime knows. Tools of a [toolset](Self::toolset) are
    /// fetched before the workflow is started or resumed; a node calls the tool that the toolset has when the node begins,
    /// and fails when it is gone. If a toolset cannot be fetched, the run begins, and each node that calls one of its tools
    /// fetches it again: only these nodes fail. The run keeps this plan: it is resumed whether or not the toolset is back, and
    /// without [`changes`](Self::changes). A run that began with the tools of a toolset is resumed when they can be fetched.
    ///
    /// What is wrong with the graph is an error where the name is used, and a problem of the
    /// [`catalogue`](Runtime::catalogue): all of it at once.
    #[cfg(feature = "dynamic")]
    #[track_caller]
    pub fn graph(mut self, graph: crate::workflow::Graph) -> Self {
        let graph = super::graphs::GivenGraph::new(graph);
        self.given.graphs.push((graph, Origin::given(Location::caller())));
        self
    }

    /// Makes an agent known by its name, so that its runs can be resumed by their id and [recovered](Runtime::recover).
    /// An `#[agent]` is known without this; given as `judge::agent(..)` with other options, it has these when a run is
    /// resumed. Another agent of the same name, given or linked into the program, is an error where the name is used,
    /// and a problem of the [`catalogue`](Runtime::catalogue).
    #[track_caller]
    pub fn agent(mut self, agent: impl GivenAgent) -> Self {
        self.given.agents.push((ErasedAgent::new(agent.given()), Origin::given(Location::caller())));
        self
    }

    /// Makes tools known by their names, beside those that are linked into the program: whatever
    /// [`Agent::tools`](crate::Agent::tools) takes. It gives them to no agent.
    /// Another tool of the same name is an error where the name is used, and a problem of the
    /// [`catalogue`](Runtime::catalogue).
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

    /// Makes the tools of a toolset known, by names such as `files.read`. They are fetched when one of them, or the
    /// [`catalogue`](Runtime::catalogue), is asked for. It gives them to no agent.
    #[track_caller]
    pub fn toolset(mut self, toolset: impl Into<ToolsetRef>) -> Self {
        self.given.toolsets.push((toolset.into(), Origin::given(Location::caller())));
        self
    }

    /// Makes a JSON Schema known by a name, which the [`catalogue`](Runtime::catalogue) finds.
    #[track_caller]
    pub fn schema(mut self, name: impl Into<Arc<str>>, schema: impl Into<Value>) -> Self {
        self.given.schemas.push(((name.into(), schema.into()), Origin::given(Location::caller())));
        self
    }

    /// Says in errors that the program gave it nothing.
    #[cfg(feature = "cli")]
    pub(crate) fn linked_alone(mut self) -> Self {
        self.given.is_linked_alone = true;
        self
    }

    /// The runtime.
    pub fn build(self) -> Runtime {
        #[cfg(feature = "documents")]
        let documents = super::document_set::DocumentsOfRuntime::new(self.given, self.documents, self.folders);
        #[cfg(not(feature = "documents"))]
        let given = self.given;
        let Self { mut host, sinks, middleware, agents, .. } = self;
        host.sinks = sinks.into();
        knows_names(&mut host);
        host.set_part(middleware::OfRuntime::new(middleware));
        host.set_part(agents);
        host.set_part(super::config::ConfigProblems(self.problems.into()));
        #[cfg(feature = "documents")]
        documents.put_into(&mut host);
        #[cfg(not(feature = "documents"))]
        host.set_part(super::given_now::GivenNow::new(given));
        Runtime(Arc::new(host))
    }
}

/// A factory of values for runs, or for sessions that keep them.
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

/// Gives a host what needs to find things by their names: resuming a run, checking an answer, undoing a call.
pub(super) fn knows_names(host: &mut Host) {
    host.check_answer = catalogue::checked;
    host.resume = |host, run| {
        let runtime = Runtime(Arc::clone(host));
        Box::pin(async move { runtime.resume(run).await.map(drop) })
    };
    host.set_part(FindTool(|host, name| Box::pin(async move { Runtime(Arc::clone(host)).tool(name).await })));
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("host", &self.host).finish_non_exhaustive()
    }
}
