//! Agents: a model, instructions and tools, executed as a loop of turns.
//!
//! [`Agent`] is the builder and the entry point for users. Its settings are held in `Description`.
//! `Plan` is the checked form of a description: model, tools and limits are resolved. A run is
//! driven by two parts. `machine` is a pure state machine: it takes recorded events and returns the
//! next command. `driver` executes the commands (model calls, tool calls) and records their events.
//!
//! `definition` and `call` implement `#[agent]` functions. `team` implements handoffs between
//! agents. `session_run` and `session_history` give a run the earlier messages of its session.
//! [`AgentOutline`] describes an agent as data, for diagrams and dry runs.

mod agent_parts;
mod agent_settings;
mod agent_tool;
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod arguments;
mod asking;
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub(crate) mod call;
mod call_ids;
mod changed_agent;
mod compact_turns;
pub(crate) mod definition;
mod draw_agent;
mod driver;
mod erased;
mod further_start;
mod hook_calls;
mod hooks;
mod kept_agent;
mod large_outputs;
mod limits;
mod linked_agent_tool;
mod machine;
mod mail;
mod model_call;
mod model_retry;
mod of_agent;
mod outline;
mod output_key;
mod plan;
mod prompt;
mod recording;
mod replaced_model;
mod run_request;
mod saved_answer;
mod saved_by_tools;
mod session_history;
mod session_run;
mod session_summary;
mod taking_over;
mod team;
mod tool_calls;
mod typed_output;

use std::fmt;
use std::sync::{Arc, OnceLock};

pub use self::agent_settings::AgentSettings;
pub use self::agent_tool::AgentTool;
use self::call::AgentAnswer;
pub use self::definition::AgentDefinition;
pub(crate) use self::definition::{
    AgentModels, linked as linked_agents, two_linked as two_linked_agents,
};
pub use self::erased::ErasedAgent;
pub use self::hooks::Hooks;
pub use self::large_outputs::LargeOutputs;
pub use self::limits::Limits;
pub(crate) use self::outline::WorkflowName;
pub use self::outline::{AgentOutline, ToolOutline};
use self::output_key::OutputKey;
use self::plan::Plan;
use self::prompt::Prompt;
pub use self::run_request::RunRequest;
pub(crate) use self::session_history::read_past;
use self::team::Target;
pub use self::team::Team;
use self::typed_output::Output;
use crate::context::Context;
use crate::definition::Known;
use crate::error::{Error, Failure, Result, noted};
use crate::event::AnswerForm;

use crate::middleware::Middleware;
use crate::model::{ModelSettings, ModelSource};
use crate::resource::Resources;
use crate::run::{
    Around, Ended, Host, Life, RunHandle, RunJournal, RunResult, RunShared, RunStream,
};
use crate::tool::{
    CurrentStep, Effects, IntoTools, ReplacedKind, StandIn, ToolList, ToolRef, ToolsetRef,
};

/// A model with instructions and tools.
///
/// An agent calls its model, executes the tool calls that the model requests, and sends the results
/// back, until the model answers. Each round is a *turn*. [`Limits`] bound the number of turns,
/// calls and failures.
///
/// | to | call |
/// | --- | --- |
/// | get the answer | [`run`](Self::run) |
/// | get a value instead of text | [`output`](Self::output), then `run` |
/// | show the answer as it comes | [`stream`](Self::stream) |
/// | keep a handle, to cancel for example | [`start`](Self::start) |
/// | run it inside a tool or a step, as part of that run | [`run_in`](Self::run_in) |
/// | continue after its process ended | [`resume`](Self::resume) |
///
/// The description is checked by [`build`](Self::build) or by the first run. Cloning is cheap, and
/// one agent can execute many runs concurrently. If the prompt is fixed, an
/// [`#[agent]`](macro@agentflow_macros::agent) function needs less code.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// /// Add two integers.
/// #[tool]
/// fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// // In a program: "openai/gpt-5-mini".
/// let model = ScriptedModel::new([Turn::call("add", serde_json::json!({"a": 2, "b": 3})), Turn::text("It is 5.")]);
/// let agent = Agent::new(model).instruct("Use the tools to calculate.").tools(tools![add]);
/// let result = agent.run("What is 2 + 3?").await?;
/// assert_eq!(result.output(), "It is 5.");
/// assert_eq!(result.steps(), 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "an agent does nothing until it is run"]
#[doc(alias = "DomainAgent")]
#[doc(alias = "LlmAgent")]
#[doc(alias = "AgentBuilder")]
pub struct Agent<O = String> {
    description: Arc<Description>,
    output: Output<O>,
    plan: Arc<OnceLock<Result<Arc<Plan>>>>,
}

#[derive(Clone)]
struct Description {
    name: Arc<str>,
    model: ModelSource,
    instructions: Option<String>,
    /// Description of the agent for callers, such as other agents and clients.
    purpose: Option<Arc<str>>,
    tools: Vec<ToolRef>,
    toolsets: Vec<ToolsetRef>,
    settings: ModelSettings,
    limits: Limits,
    resources: Resources,
    scopes: Vec<Arc<str>>,
    middleware: Vec<Arc<dyn Middleware>>,
    host: Arc<Host>,
    /// The `#[agent]` function from which the agent was created.
    definition: Option<&'static AgentDefinition>,
    /// Prompt of the `#[agent]` call. It is the request if the caller gives none, and the
    /// instructions if none are set.
    prompt: Option<Arc<Prompt>>,
    /// Replacement that a test registered for this agent in the enclosing run.
    stand_in: Option<StandIn>,
    /// Agents of the team to which this agent can hand off the conversation.
    targets: Vec<Target>,
    /// The other members of the team, if this agent is the first one.
    members: Vec<Agent>,
    /// State key under which the answer is saved.
    output_key: Option<OutputKey>,
}

impl Agent {
    /// Creates an agent that uses a model: its name, such as `"openai-chat/gpt-5-mini"`, or a
    /// [`Model`](crate::Model).
    pub fn new(model: impl Into<ModelSource>) -> Self {
        Self {
            description: Arc::new(Description {
                name: "agent".into(),
                model: model.into(),
                instructions: None,
                purpose: None,
                tools: Vec::new(),
                toolsets: Vec::new(),
                settings: ModelSettings::default(),
                limits: Limits::default(),
                resources: Resources::default(),
                scopes: Vec::new(),
                middleware: Vec::new(),
                host: Arc::clone(Host::of_process()),
                definition: None,
                prompt: None,
                stand_in: None,
                targets: Vec::new(),
                members: Vec::new(),
                output_key: None,
            }),
            output: Output::text(),
            plan: Arc::default(),
        }
    }
}

impl<O: 'static> Agent<O> {
    fn changed(mut self, change: impl FnOnce(&mut Description)) -> Self {
        self.plan = Arc::default();
        change(Arc::make_mut(&mut self.description));
        self
    }

    /// Sets the name that is used in events and traces. Default: `agent`.
    pub fn name(self, name: impl Into<Arc<str>>) -> Self {
        self.changed(|agent| agent.name = name.into())
    }

    /// Sets the instructions, which are the first message of every model request. The conversation
    /// that a run returns does not contain them. A second call replaces the first.
    #[doc(alias = "instruction")]
    #[doc(alias = "system_instruction")]
    #[doc(alias = "preamble")]
    #[doc(alias = "system_prompt")]
    pub fn instruct(self, instructions: impl Into<String>) -> Self {
        self.changed(|agent| agent.instructions = Some(instructions.into()))
    }

    /// Adds tools: `tools![add, weather]`, a selection of a [`Registry`](crate::Registry), a
    /// [`FnTool`](crate::tool::FnTool), another agent, a [`Workflow`](crate::Workflow), or a
    /// [`ToolsetRef`]. The tools of a toolset are fetched before the model calls of a run. A turn
    /// can call only the tools that were sent with its model call.
    ///
    /// An agent or a workflow that is called as a tool is executed as part of the run.
    /// [`AgentTool`] and [`WorkflowTool`](crate::workflow::WorkflowTool) describe this, and let you
    /// change the tool's name.
    pub fn tools(self, tools: impl IntoTools) -> Self {
        let ToolList { tools, toolsets } = tools.into_tools();
        self.changed(|agent| {
            agent.tools.extend(tools);
            agent.toolsets.extend(toolsets);
        })
    }

    /// Changes less common settings: [`Limits`], [`ModelSettings`], or [`AgentSettings`]. The
    /// latter contains both, and also a description, scopes and the state key of the answer.
    /// Settings that a later call leaves unset keep their earlier values.
    #[doc(alias = "limits")]
    #[doc(alias = "description")]
    #[doc(alias = "grant")]
    #[doc(alias = "output_key")]
    pub fn settings(self, settings: impl Into<AgentSettings>) -> Self {
        let settings = settings.into();
        self.changed(|agent| settings.apply(agent))
    }

    /// Adds middleware to this agent: a [`Middleware`], or [`Hooks`] with callbacks. It is called
    /// inside the runtime's middleware and inside the middleware of earlier calls.
    ///
    /// ```
    /// use agentflow::middleware::{Flow, retry};
    /// use agentflow::prelude::*;
    /// # let model = agentflow_testing::ScriptedModel::new([]);
    /// let agent = Agent::new(model).with(retry(3)).with(Hooks::new().before_tool(|_| Ok(Flow::Continue)));
    /// ```
    #[doc(alias = "use")]
    #[doc(alias = "hooks")]
    #[doc(alias = "callbacks")]
    pub fn with(self, hooks: impl Into<Hooks>) -> Self {
        let Hooks { middleware } = hooks.into();
        self.changed(|agent| agent.middleware.extend(middleware))
    }

    /// Adds a resource for the agent's tools, identified by its type: a tool receives it as
    /// `Inject<T>`. An `Arc<T>` is also found as `T`. To inject a trait object, add an
    /// `Arc<dyn Trait>` and use `Inject<dyn Trait>`.
    pub fn resource<T: Send + Sync + 'static>(self, resource: T) -> Self {
        self.changed(|agent| agent.resources.insert(resource))
    }

    /// Adds all of these resources.
    pub(crate) fn resources(self, resources: &Resources) -> Self {
        self.changed(|agent| agent.resources.extend(resources))
    }

    /// Sets the host that provides clock, sinks, resources and models.
    pub(crate) fn host(self, host: &Arc<Host>) -> Self {
        self.changed(|agent| agent.host = Arc::clone(host))
    }

    /// Marks the agent as created by an `#[agent]` function.
    fn with_definition(self, definition: &'static AgentDefinition) -> Self {
        self.changed(|agent| agent.definition = Some(definition))
    }

    /// Sets the prompt that a call to the `#[agent]` function created.
    fn asking(self, prompt: Prompt) -> Self {
        self.changed(|agent| agent.prompt = Some(Arc::new(prompt)))
    }

    /// Removes the prompt, and sets the recorded instructions of a run, if there are any.
    fn instructed(self, instructions: Option<&str>) -> Self {
        self.changed(|agent| {
            agent.prompt = None;
            agent.instructions = instructions.map(ToOwned::to_owned);
        })
    }

    /// Builds the plan for executing the agent in a step of another run. An agent without a runtime
    /// uses the runtime of the step.
    fn plan_in(&self, cx: &Context) -> Result<Arc<Plan>> {
        let has_runtime = !Arc::ptr_eq(&self.description.host, Host::of_process());
        if has_runtime {
            return match StandIn::of(cx.host(), ReplacedKind::Agent, &self.description.name) {
                None => self.plan().cloned(),
                stand_in => {
                    let replaced = self.clone().changed(|agent| agent.stand_in = stand_in);
                    Plan::new(&replaced.description, &replaced.output).map(Arc::new)
                }
            };
        }
        let own = self.description.resources.clone();
        // The agent's own resources are added last, so they win over the resources of the step.
        let within = self.clone().host(cx.host()).resources(cx.resources()).resources(&own);
        Plan::new(&within.description, &within.output).map(Arc::new)
    }

    /// `true` if a tool has, or may have, side effects outside the run.
    fn writes(&self) -> bool {
        self.description.writes()
    }

    /// Sets the type of the answer. The model receives the schema of the type with the request or
    /// as an answer tool, depending on its provider. An answer that does not match the schema is
    /// returned to the model, at most [`Limits::output_retries`] times. `String` is the default and
    /// returns the text.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::{schemars, serde};
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    /// #[serde(crate = "agentflow::serde")]
    /// #[schemars(crate = "agentflow::schemars")]
    /// struct Risk {
    ///     level: u8,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let model = ScriptedModel::new([Turn::text(r#"{"level": "high"}"#), Turn::text(r#"{"level": 3}"#)]);
    /// let agent = Agent::new(model).output::<Risk>();
    /// assert_eq!(*agent.run("How risky is it?").await?.output(), Risk { level: 3 });
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "outputs")]
    pub fn output<T: AgentAnswer>(self) -> Agent<T> {
        Agent { description: self.description, output: Output::of_type(), plan: Arc::default() }
    }

    /// Checks the description now instead of at the first run. Resources that are passed with each
    /// run by [`RunRequest::resource`] count as missing.
    ///
    /// # Errors
    /// [`Error::Build`] if two tools have the same name or a resource that a tool injects is
    /// missing, [`Error::ModelRef`] if the model's name cannot be resolved.
    pub fn build(self) -> Result<Self> {
        self.plan()?.check_built()?;
        Ok(self)
    }

    fn plan(&self) -> Result<&Arc<Plan>> {
        self.plan
            .get_or_init(|| Plan::new(&self.description, &self.output).map(Arc::new))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Runs the agent and returns its answer. The run is executed on the caller's task.
    ///
    /// # Cancel safety
    /// Dropping the future closes the model request and drops the tool calls. A run in memory is
    /// then cancelled, and the sinks receive `run.cancelled`. A run with a store stays unfinished,
    /// and [`resume`](Self::resume) continues it.
    ///
    /// # Errors
    /// See [`Error`]: an invalid description, a missing resource, a model call that failed after
    /// all retries, an exceeded limit.
    #[doc(alias = "ask")]
    #[doc(alias = "prompt")]
    pub async fn run(&self, request: impl Into<RunRequest>) -> Result<RunResult<O>> {
        noted(self.run_through(request.into()).await)
    }

    async fn run_through(&self, request: RunRequest) -> Result<RunResult<O>> {
        let plan = self.plan()?;
        let around = Around::enter(plan.host.max_nesting, 0)?;
        self.result(around.poll(driver::Run::start(plan, plan.asked(request), None)?).await?)
    }

    /// Runs the agent as a step of the run that the context belongs to, and returns its answer. The
    /// agent's events are recorded below that step, the agent stops when that run ends, and after a
    /// crash recorded work is not repeated. If the context does not belong to a run, this is the
    /// same as [`run`](Self::run). The agent has its own grants, the grants of the request and
    /// the grants of the context.
    ///
    /// The run id of the request is ignored.
    ///
    /// # Cancel safety
    /// Dropping the future stops the agent.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn run_in(
        &self,
        cx: &Context,
        request: impl Into<RunRequest>,
    ) -> Result<RunResult<O>> {
        let ended = self.end_in(cx, request.into()).await;
        let ended = ended.and_then(|ended| self.result(ended));
        noted(ended.inspect_err(|error| CurrentStep::note_failure(|| Failure::from(error))))
    }

    /// Runs the agent as a step and returns its answer as JSON.
    async fn answer_in(&self, cx: &Context, request: RunRequest) -> Result<crate::value::Encoded> {
        let ended = self.end_in(cx, request).await?;
        let answer = self.output.form().encoded(&ended.completed.text());
        answer.map_err(|error| Error::InvalidOutput { attempts: 1, problem: error.to_string() })
    }

    async fn end_in(&self, cx: &Context, request: RunRequest) -> Result<crate::run::RunEnd> {
        let plan = self.plan_in(cx)?;
        CurrentStep::until_turn_of_caller(plan.effect()).await;
        let around = Around::enter(cx.host().max_nesting, cx.depth())?;
        let step = cx.is_step().then_some(cx);
        let request = plan.asked(request).granted_as(cx.grants());
        let end = around.poll(driver::Run::start(&plan, request, step)?).await?;
        if self.output.form() != AnswerForm::Text
            && end.completed.ends_loop_without_answer()
            && let Some(round) = CurrentStep::round(cx.path())
        {
            // `exit_loop` ended the round without a value of the output type. The round now drops
            // this future, so it must not return.
            round.end_without_output();
            return std::future::pending().await;
        }
        Ok(end)
    }

    fn result(&self, end: crate::run::RunEnd) -> Result<RunResult<O>> {
        self.output.result(end)
    }

    /// Starts a run on a separate task and returns a stream of its events, including deltas.
    /// Dropping the stream cancels a run in memory; a run with a store continues.
    ///
    /// # Errors
    /// [`Error::Build`] if the description is invalid, [`Error::RunResource`] if a resource that a
    /// tool injects is missing, [`Error::ModelRef`] if the model's name cannot be resolved.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn stream(&self, request: impl Into<RunRequest>) -> Result<RunStream<O>> {
        let run = noted(self.begun(request.into()))?;
        let events = run.events();
        Ok(RunStream::new(self.spawn(run), events))
    }

    /// Starts a run on a separate task. Dropping the handle cancels a run in memory; a run with a
    /// store continues.
    ///
    /// # Errors
    /// [`Error::Build`] if the description is invalid, [`Error::RunResource`] if a resource that a
    /// tool injects is missing, [`Error::ModelRef`] if the model's name cannot be resolved.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self, request: impl Into<RunRequest>) -> Result<RunHandle<RunResult<O>>> {
        Ok(self.spawn(noted(self.begun(request.into()))?))
    }

    fn begun(&self, request: RunRequest) -> Result<driver::Run> {
        let plan = self.plan()?;
        driver::Run::new(plan, plan.asked(request))
    }

    /// Checks the description and returns the agent's name and host.
    pub(crate) fn planned(&self) -> Result<(&Arc<str>, &Arc<Host>)> {
        self.plan().map(|plan| (&plan.name, &plan.host))
    }

    /// Returns the parts of the definition, from which its hash is computed.
    pub(crate) fn parts(&self) -> Result<Arc<Known>> {
        Ok(Arc::clone(self.plan()?.parts()))
    }

    /// Checks that a run can be resumed: its tools have their resources, and its handoffs refer to
    /// known agents.
    pub(crate) fn check_run(&self, shared: &RunShared, journal: &RunJournal) -> Result<()> {
        let plan = self.plan()?;
        plan.check(shared, &Resources::default())?;
        plan.check_transfers(journal)
    }

    /// Resumes a run from its journal. A paused run stays paused.
    pub(crate) fn continued(&self, shared: Arc<RunShared>) -> Result<RunHandle<RunResult<O>>> {
        Ok(self.spawn(driver::Run::resumed(self.plan()?, shared)))
    }

    fn spawn(&self, run: driver::Run) -> RunHandle<RunResult<O>> {
        let (shared, output) = (run.shared(), self.output.clone());
        let ended = run.run_through();
        RunHandle::spawn(shared, async move { Ok(Ended::Agent(ended.await?)) }, decoder(output))
    }

    /// Returns a handle to a run of this agent whose task exists already.
    pub(crate) fn attached(&self, life: Life) -> RunHandle<RunResult<O>> {
        RunHandle::from_task(life, decoder(self.output.clone()))
    }
}

fn decoder<O: 'static>(
    output: Output<O>,
) -> impl Fn(Ended) -> Result<RunResult<O>> + Send + Sync + 'static {
    move |ended| match ended {
        Ended::Agent(end) => output.result(end),
        Ended::Workflow(_) => {
            Err(Error::Lost { reason: "a workflow's run is not one of an agent".to_owned() })
        }
    }
}

impl<O> Clone for Agent<O> {
    fn clone(&self) -> Self {
        Self {
            description: Arc::clone(&self.description),
            output: self.output.clone(),
            plan: Arc::clone(&self.plan),
        }
    }
}

impl<O> fmt::Debug for Agent<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("description", &self.description)
            .field("output", &self.output)
            .finish()
    }
}

impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let middleware: Vec<&str> = self.middleware.iter().map(|one| one.name()).collect();
        f.debug_struct("Description")
            .field("name", &self.name)
            .field("model", &self.model)
            .field("instructions", &self.instructions)
            .field("tools", &self.tools)
            .field("toolsets", &self.toolsets)
            .field("settings", &self.settings)
            .field("limits", &self.limits)
            .field("resources", &self.resources)
            .field("scopes", &self.scopes)
            .field("middleware", &middleware)
            .field("host", &self.host)
            .field("targets", &self.targets)
            .field("members", &self.members)
            .finish()
    }
}

impl Description {
    /// `true` if a tool of the agent or of its team has, or may have, side effects outside the run.
    fn writes(&self) -> bool {
        let writes = |tool: &ToolRef| tool.definition().policy.effects == Effects::Write;
        let of_team = || self.members.iter().any(|member| member.description.writes());
        !self.toolsets.is_empty() || self.tools.iter().any(writes) || of_team()
    }

    fn build_error(&self, problem: impl Into<String>) -> Error {
        Error::Build { what: "agent", name: Arc::clone(&self.name), problem: problem.into() }
    }
}
