//! `ErasedAgent`: an agent of any output type, as the runtime stores it under its name.

use std::fmt;
use std::sync::Arc;

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject, SubjectKind};
use serde_json::Value;

use super::run_request::RunRequest;
use super::{Agent, AgentDefinition, AgentOutline, Description};
use crate::context::Context;
use crate::definition::Known;
use crate::error::Result;
use crate::future::BoxFuture;
use crate::model::ModelSource;
use crate::run::{Host, RunHandle, RunJournal, RunShared};
use crate::tool::{NeededResource, ReplacedKind, StandIn};
use crate::value::Encoded;

/// An agent whose output is JSON.
#[derive(Clone)]
pub struct ErasedAgent(Arc<dyn AnyAgent>);

#[cfg_attr(
    not(feature = "dynamic"),
    allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
)]
trait AnyAgent: Send + Sync {
    fn description(&self) -> &Arc<Description>;
    fn answer_schema(&self) -> Value;
    fn outline(&self) -> AgentOutline;
    fn instructed(&self, instructions: Option<&str>) -> ErasedAgent;
    fn parts(&self, host: &Arc<Host>) -> Result<Arc<Known>>;
    fn check_run(&self, host: &Arc<Host>, shared: &RunShared, journal: &RunJournal) -> Result<()>;
    fn continued(&self, host: &Arc<Host>, shared: Arc<RunShared>) -> Result<RunHandle<Encoded>>;
    fn started(&self, host: &Arc<Host>, request: RunRequest) -> Result<RunHandle<Encoded>>;
    fn run_in(&self, cx: &Context, request: RunRequest) -> BoxFuture<'static, Result<Encoded>>;
    fn writes(&self) -> bool;
}

impl<O: 'static> Agent<O> {
    /// Returns the JSON Schema of the answer.
    pub(super) fn answer_schema(&self) -> Value {
        self.output.value_schema()
    }
}

impl<O: 'static> AnyAgent for Agent<O> {
    fn description(&self) -> &Arc<Description> {
        &self.description
    }

    fn answer_schema(&self) -> Value {
        Agent::answer_schema(self)
    }

    fn outline(&self) -> AgentOutline {
        AgentOutline::of(self)
    }

    fn instructed(&self, instructions: Option<&str>) -> ErasedAgent {
        ErasedAgent::new(self.clone().instructed(instructions))
    }

    fn parts(&self, host: &Arc<Host>) -> Result<Arc<Known>> {
        self.clone().host(host).parts()
    }

    fn check_run(&self, host: &Arc<Host>, shared: &RunShared, journal: &RunJournal) -> Result<()> {
        self.clone().host(host).check_run(shared, journal)
    }

    fn continued(&self, host: &Arc<Host>, shared: Arc<RunShared>) -> Result<RunHandle<Encoded>> {
        Ok(self.clone().host(host).continued(shared)?.untyped())
    }

    fn started(&self, host: &Arc<Host>, request: RunRequest) -> Result<RunHandle<Encoded>> {
        Ok(self.clone().host(host).start(request)?.untyped())
    }

    fn run_in(&self, cx: &Context, request: RunRequest) -> BoxFuture<'static, Result<Encoded>> {
        let (agent, cx) = (self.clone(), cx.clone());
        Box::pin(async move { agent.answer_in(&cx, request).await })
    }

    fn writes(&self) -> bool {
        Agent::writes(self)
    }
}

#[cfg_attr(
    not(feature = "dynamic"),
    allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
)]
impl ErasedAgent {
    pub(crate) fn new<O: 'static>(agent: Agent<O>) -> Self {
        Self(Arc::new(agent))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.0.description().name
    }

    /// Returns the description for other programs. It does not contain the instructions.
    pub(crate) fn public_description(&self) -> Arc<str> {
        self.0.description().public()
    }

    pub(super) fn description(&self) -> &Description {
        self.0.description()
    }

    /// Returns the JSON Schema of the answer.
    pub(crate) fn answer_schema(&self) -> Value {
        self.0.answer_schema()
    }

    /// Returns the outline of the agent.
    pub(crate) fn outline(&self) -> AgentOutline {
        self.0.outline()
    }

    /// Returns the state key under which the answer is saved.
    pub(crate) fn saved_key(&self) -> Option<&Arc<str>> {
        self.0.description().output_key.as_ref().map(|output_key| &output_key.key)
    }

    /// Returns the catalogue name of a tool, given the name that the model uses. Returns `None` if
    /// the tool is not known, for example because its toolset was not fetched yet.
    #[cfg(feature = "dynamic")]
    pub(crate) fn catalogue_name(&self, called: &str) -> Option<Arc<str>> {
        let description = self.description();
        let fetched: Vec<_> =
            description.toolsets.iter().filter_map(|toolset| toolset.last_fetched()).collect();
        let all = description.tools.iter().chain(fetched.iter().flat_map(|tools| tools.iter()));
        let mut named = all.filter(|tool| tool.name() == called);
        named.next().map(|tool| Arc::clone(tool.catalogue_name()))
    }

    /// Returns the `#[agent]` function from which the agent was created.
    pub(crate) fn definition(&self) -> Option<&'static AgentDefinition> {
        self.0.description().definition
    }

    /// `true` if both are the same agent, not merely equal ones.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.0.description(), other.0.description())
    }

    /// Returns the agent with the recorded instructions of a run instead of those computed from the
    /// arguments of a call.
    pub(crate) fn instructed(&self, instructions: Option<&str>) -> Self {
        self.0.instructed(instructions)
    }

    /// Runs the agent as a step of the context's run. A string is sent as text, any other value as
    /// JSON.
    pub(crate) async fn run_in(&self, cx: &Context, asked: &Encoded) -> Result<Encoded> {
        let text = asked.decode::<String>().unwrap_or_else(|_| asked.to_string());
        self.0.run_in(cx, RunRequest::new(text)).await
    }

    /// Runs the agent as a step of the context's run, with the prompt of its `#[agent]` call.
    pub(crate) async fn ask_in(&self, cx: &Context) -> Result<Encoded> {
        self.0.run_in(cx, RunRequest::default()).await
    }

    /// `true` if a tool has side effects outside the run.
    pub(crate) fn writes(&self) -> bool {
        self.0.writes()
    }

    /// Returns the resources that the tools need and the agent does not provide, each with the tool
    /// that needs it.
    pub(crate) fn needs(&self) -> Vec<NeededResource> {
        let description = self.description();
        let by = format!(" of the agent `{}`", description.name);
        let linked = description.definition.map(AgentDefinition::tools).unwrap_or_default();
        let mut needs = Vec::new();
        for tool in description.tools.iter().chain(&linked) {
            let has = |key| {
                description.resources.contains(key) || description.host.resources.contains(key)
            };
            needs.extend(
                NeededResource::all_of(tool, &by).into_iter().filter(|need| !has(need.key)),
            );
        }
        needs
    }

    /// Returns an error message if the provider of the model is unknown to the runtime. API keys
    /// are not checked.
    pub(crate) fn problem_of_model(&self, host: &Host) -> Option<Diagnostic> {
        let description = self.description();
        let has_runtime = !Arc::ptr_eq(&description.host, Host::of_process());
        let host = if has_runtime { &*description.host } else { host };
        // An `#[agent]` gets its model from the runtime, and a replaced agent does not call a
        // model.
        if description.definition.is_some()
            || StandIn::of(host, ReplacedKind::Agent, &description.name).is_some()
        {
            return None;
        }
        let problem = host.problem_of_provider(&description.model)?;
        Some(problem.of(DiagnosticSubject::new(SubjectKind::Agent, &*description.name)))
    }

    /// Returns the model that the agent uses in a runtime.
    ///
    /// # Errors
    /// If neither the runtime nor the attribute of an `#[agent]` names a model.
    pub(crate) fn model_in(&self, host: &Host) -> Result<ModelSource> {
        match self.description().definition {
            Some(definition) => definition.model_in(host),
            None => Ok(self.description().model.clone()),
        }
    }

    /// Returns the parts of the definition, with the models of a runtime.
    pub(crate) fn parts(&self, host: &Arc<Host>) -> Result<Arc<Known>> {
        self.0.parts(host)
    }

    /// Checks that a run can be resumed: its tools have their resources.
    pub(crate) fn check_run(
        &self,
        host: &Arc<Host>,
        shared: &RunShared,
        journal: &RunJournal,
    ) -> Result<()> {
        self.0.check_run(host, shared, journal)
    }

    /// Starts a run in a runtime.
    pub(crate) fn started(
        &self,
        host: &Arc<Host>,
        request: RunRequest,
    ) -> Result<RunHandle<Encoded>> {
        self.0.started(host, request)
    }

    /// Resumes a run from its journal.
    pub(crate) fn continued(
        &self,
        host: &Arc<Host>,
        shared: Arc<RunShared>,
    ) -> Result<RunHandle<Encoded>> {
        self.0.continued(host, shared)
    }
}

impl fmt::Debug for ErasedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ErasedAgent").field(self.name()).finish()
    }
}
