//! Steps of nodes that are data: calls to a tool, an agent or a workflow that was found by its
//! name. Approvals and retries are left to the node, as for the call to a function.

use agentflow_schema::diagnostic::{Code, Diagnostic, Suggestion};
use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use agentflow_schema::schema::{Assignable, is_assignable_as_stated};
use agentflow_schema::text::{did_you_mean, nearest};
use serde_json::Value;

use super::chosen_tool::ChoosingAgent;
use super::given_value::Given;
use super::graph_body::{Reference, ReferenceKind};
use super::graph_codes;
use super::mapping::Mapping;
use super::node_dependency::ResolvedDependency;
use super::policy::NodePolicy;
use super::run_by_names;
use super::spec::{ItemStep, ReferencedDefinition, Spec, Step, StepFuture};
use super::step_error::StepError;
use crate::agent::{AgentDefinition, ErasedAgent};
use crate::context::Context;
use crate::dry_run::DryCall;
use crate::error::{Failure, FailureKind};
use crate::message::ToolCall;
use crate::tool::{
    CallSite, Effects, NodeQuestion, ToolDefinition, ToolRef, ToolsetRef, call_with_approval,
    invoke_in_node, missing_scope,
};
use crate::value::Encoded;

/// A resolved reference.
#[derive(Clone)]
pub(crate) enum Callee {
    Tool(ToolRef),
    /// A tool of a toolset, as it was when the graph was read. When the node begins, the toolset's
    /// current tool with the same name is called.
    Fetched(ToolsetRef, ToolRef),
    /// A tool of a toolset that could not be fetched when the graph was read. Its definition has a
    /// name only. The tool is fetched when the node begins, so a failure affects only that node.
    Unfetched(ToolsetRef, Arc<ToolDefinition>),
    Agent(ErasedAgent),
    /// An `#[agent]` function, which takes its arguments as an object.
    LinkedAgent(&'static AgentDefinition),
    Workflow(Arc<Spec>),
}

impl Callee {
    /// Returns the function of a tool. The node then records its call, so the function does not
    /// record it again.
    pub(super) fn function(&self) -> Option<TypeId> {
        match self {
            Self::Tool(tool) | Self::Fetched(_, tool) => super::callee::function_of(tool),
            Self::Unfetched(..) | Self::Agent(_) | Self::LinkedAgent(_) | Self::Workflow(_) => None,
        }
    }

    /// Returns the key of the state under which an agent saves its answer.
    pub(super) fn saved_key(&self) -> Option<Arc<str>> {
        match self {
            Self::Agent(agent) => agent.saved_key().cloned(),
            Self::LinkedAgent(agent) => agent.described().saved_key().cloned(),
            Self::Tool(_) | Self::Fetched(..) | Self::Unfetched(..) | Self::Workflow(_) => None,
        }
    }

    /// Returns the callee as a part of the definition that a run began with. Tools of toolsets are
    /// not part of it: they are fetched for each run, and a changed policy fails the node. A
    /// toolset whose tools were unknown is recorded, because its tools stay unknown to the plan of
    /// the run.
    pub(super) fn referenced(&self) -> Option<ReferencedDefinition> {
        match self {
            Self::Tool(tool) => Some(ReferencedDefinition::Tool(Arc::clone(tool.definition()))),
            Self::Fetched(..) => None,
            Self::Unfetched(toolset, _) => {
                Some(ReferencedDefinition::Unfetched(Arc::clone(toolset.name())))
            }
            Self::Agent(agent) => Some(ReferencedDefinition::Agent(agent.clone())),
            Self::LinkedAgent(agent) => Some(ReferencedDefinition::Agent(agent.described())),
            Self::Workflow(spec) => Some(ReferencedDefinition::Workflow(Arc::clone(spec))),
        }
    }

    pub(super) fn definition(&self) -> Option<Arc<ToolDefinition>> {
        match self {
            Self::Tool(tool) | Self::Fetched(_, tool) => Some(Arc::clone(tool.definition())),
            Self::Unfetched(_, definition) => Some(Arc::clone(definition)),
            Self::Agent(_) | Self::LinkedAgent(_) | Self::Workflow(_) => None,
        }
    }

    /// Returns true if the callee is declared to change something outside of the run. A workflow
    /// also counts if it asks a person.
    pub(super) fn writes(&self) -> bool {
        match self {
            Self::Tool(tool) | Self::Fetched(_, tool) => {
                tool.definition().policy.effects == Effects::Write
            }
            Self::Unfetched(..) => true,
            Self::Agent(agent) => agent.writes(),
            Self::LinkedAgent(agent) => agent.writes(),
            Self::Workflow(spec) => spec.writes_or_asks(),
        }
    }

    /// Returns true if a person must approve the call.
    pub(super) fn asks(&self) -> bool {
        matches!(self, Self::Tool(tool) | Self::Fetched(_, tool) if tool.definition().policy.approve)
    }

    /// Returns true if the call may be repeated when its outcome is unknown. Agents and workflows
    /// continue from their records.
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Self::Tool(tool) | Self::Fetched(_, tool) => tool.definition().policy.is_repeatable(),
            Self::Unfetched(..) => false,
            Self::Agent(_) | Self::LinkedAgent(_) | Self::Workflow(_) => true,
        }
    }

    /// Applies the settings of a tool where the policy of the node leaves them open.
    pub(super) fn take_over(&self, policy: &mut NodePolicy) {
        if let Some(definition) = self.definition() {
            super::policy::take_over(policy, &definition.policy, definition.catalogue_name());
        }
    }

    /// Returns the settings for the question of a tool's call, if the node consists of it.
    pub(super) fn question_of_call(&self, policy: &mut NodePolicy) -> Option<Arc<NodeQuestion>> {
        let definition = self.definition()?;
        let question = super::policy::question_of_call(
            policy,
            &definition.policy,
            definition.catalogue_name(),
        );
        Some(Arc::new(question))
    }

    /// Returns the JSON Schema of the answer. If it is unknown, any value is accepted.
    pub(super) fn output_schema(&self) -> Value {
        match self {
            Self::Tool(tool) | Self::Fetched(_, tool) => {
                tool.output_schema().unwrap_or(Value::Bool(true))
            }
            Self::Unfetched(..) => Value::Bool(true),
            Self::Agent(agent) => agent.answer_schema(),
            Self::LinkedAgent(agent) => agent.described().answer_schema(),
            Self::Workflow(spec) => spec.output_schema(),
        }
    }

    /// Returns the call for the report of a dry run.
    pub(super) fn dry_call(&self) -> DryCall {
        match self {
            Self::Tool(tool) | Self::Fetched(_, tool) => {
                DryCall::tool(tool.catalogue_name(), &tool.definition().policy)
            }
            Self::Unfetched(_, tool) => DryCall::tool(tool.catalogue_name(), &tool.policy),
            Self::Agent(agent) => DryCall::new("agent", Arc::clone(agent.name())),
            Self::LinkedAgent(agent) => DryCall::new("agent", agent.name()),
            Self::Workflow(spec) => DryCall::new("workflow", Arc::clone(&spec.name)),
        }
    }

    /// Returns a description of the callee and the JSON Schema of its input object. Returns `None`
    /// for a registered agent, which takes any value, and for a tool that is not fetched.
    pub(super) fn takes(&self) -> Option<(CalleeName, Value)> {
        let takes = match self {
            Self::Tool(tool) | Self::Fetched(_, tool) => tool.definition().parameters.clone(),
            Self::Workflow(spec) => super::Graph::from_plan(spec).input_schema(),
            // An agent without a schema cannot be resolved.
            Self::LinkedAgent(agent) => agent.input_schema().ok()?,
            Self::Unfetched(..) | Self::Agent(_) => return None,
        };
        Some((self.in_words()?, takes))
    }

    /// Returns a description of the callee, or `None` for a registered agent.
    pub(super) fn in_words(&self) -> Option<CalleeName> {
        Some(match self {
            Self::Tool(tool) | Self::Fetched(_, tool) => {
                CalleeName::new(ReferenceKind::Tool, tool.catalogue_name())
            }
            Self::Unfetched(_, tool) => CalleeName::new(ReferenceKind::Tool, tool.catalogue_name()),
            Self::Workflow(spec) => CalleeName::new(ReferenceKind::Workflow, &spec.name),
            Self::LinkedAgent(agent) => CalleeName::new(ReferenceKind::Agent, agent.name()),
            Self::Agent(_) => return None,
        })
    }

    /// Reports each place where a value of schema `given` has the wrong type for the callee, if the
    /// schemas show this.
    pub(super) fn misfits(&self, given: &Value) -> Vec<Diagnostic> {
        let Some((what, takes)) = self.takes() else { return Vec::new() };
        match is_assignable_as_stated(given, &takes) {
            Assignable::No(places) => {
                places.iter().map(|place| argument_misfit(&what, &place.path, place)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Reports unknown and missing arguments of a call, if they can be seen before it runs.
    pub(super) fn problems_of(&self, with: &Mapping) -> Vec<Diagnostic> {
        let Some((what, schema)) = self.takes() else { return Vec::new() };
        let Mapping::Object(fields) = with else {
            // The value of any other mapping is unknown before the call runs.
            return match with {
                Mapping::First(all) => all.iter().flat_map(|one| self.problems_of(one)).collect(),
                Mapping::Value(Value::Object(_))
                | Mapping::From { .. }
                | Mapping::Item(_)
                | Mapping::State { .. } => Vec::new(),
                Mapping::Template(text) if text.only().is_some() => Vec::new(),
                _ => vec![what.problem(graph_codes::ARGUMENTS_NOT_AN_OBJECT)],
            };
        };
        let empty = serde_json::Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        let mut problems = Vec::new();
        // Without this setting, the schema accepts unknown arguments.
        if schema["additionalProperties"] == false {
            for name in fields.keys().filter(|name| !properties.contains_key(*name)) {
                let near = nearest(name, properties.keys().map(String::as_str));
                let found = what.problem(graph_codes::UNKNOWN_ARGUMENT).name("argument", name);
                problems.push(found.suggest(Suggestion::similar(near)));
            }
        }
        let required =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !fields.contains_key(*name)) {
            problems.push(what.problem(graph_codes::MISSING_ARGUMENT).absent("argument", name));
        }
        problems
    }
}

/// Kind and name of a callee, for messages.
pub(super) struct CalleeName {
    kind: ReferenceKind,
    name: String,
}

impl CalleeName {
    fn new(kind: ReferenceKind, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }

    /// Creates a problem of the callee.
    pub(super) fn problem(&self, code: Code) -> Diagnostic {
        Diagnostic::new(code).text("kind", self.kind.as_str()).name("callee", &self.name)
    }
}

/// Creates the problem of arguments that a callee does not accept, at a path in them.
pub(super) fn argument_misfit(
    callee: &CalleeName,
    path: &str,
    problem: &dyn fmt::Display,
) -> Diagnostic {
    let code = match path.is_empty() {
        true => graph_codes::ARGUMENTS_MISFIT,
        false => graph_codes::ARGUMENT_MISFIT,
    };
    callee.problem(code).name("path", path).text("problem", problem)
}

/// A call, with the mapping of its answer.
#[derive(Clone)]
pub(super) struct Called {
    pub(super) callee: Callee,
    pub(super) gives: Option<Arc<Mapping>>,
    /// Bindings of the node.
    pub(super) bound: Arc<[ResolvedDependency]>,
}

impl Called {
    pub(super) fn new(
        callee: Callee,
        reference: &Reference,
        bound: &Arc<[ResolvedDependency]>,
    ) -> Self {
        Self { callee, gives: reference.gives.clone().map(Arc::new), bound: Arc::clone(bound) }
    }

    fn begun(self, cx: Context, given: Encoded, site: CallSite) -> StepFuture {
        let Self { callee, gives, bound } = self;
        let Some(gives) = gives else { return call(callee, cx, given, site) };
        let most = cx.host().max_output_bytes;
        // Only the mapping of the answer can have a field for the name of the chosen tool.
        let agent = match &callee {
            Callee::Agent(agent) => ChoosingAgent::new(agent, &cx, &bound),
            _ => None,
        };
        let answer = call(callee, cx, given, site);
        Box::pin(async move {
            let made = gives.of_item(&answer.await?, most)?;
            match agent {
                Some(agent) => agent.named(made),
                None => Ok(made),
            }
        })
    }
}

/// Builds a step of one call. `site` determines where the limits of a tool are
/// applied.
pub(super) fn step(called: Called, given: Given, site: CallSite) -> Step {
    Arc::new(move |cx, outputs| {
        given.then(cx, outputs, None, called.clone(), move |called, cx, given| {
            called.begun(cx, given, site)
        })
    })
}

/// Builds a step of one call for each item.
pub(super) fn item_step(called: Called, given: Given) -> ItemStep {
    Arc::new(move |cx, item, outputs| {
        given.then(cx, outputs, Some(item), called.clone(), |called, cx, given| {
            called.begun(cx, given, CallSite::Node)
        })
    })
}

pub(super) fn call(callee: Callee, cx: Context, given: Encoded, site: CallSite) -> StepFuture {
    match callee {
        Callee::Tool(tool) => Box::pin(call_tool(tool, cx, given, site)),
        Callee::Fetched(toolset, tool) => {
            Box::pin(async move { call_tool(now(&toolset, &tool).await?, cx, given, site).await })
        }
        Callee::Unfetched(toolset, definition) => Box::pin(async move {
            let tool = named(&toolset, definition.catalogue_name()).await?;
            let policy = &tool.definition().policy;
            if policy.approve {
                let name = definition.catalogue_name();
                return Err(StepError::new(
                    FailureKind::Registry,
                    format!(
                        "the tool `{name}` needs an approval, which was not known when the workflow was read; start a new run"
                    ),
                ));
            }
            // The node was built without the policy of the tool, so the call applies it.
            call_tool(tool, cx, given, CallSite::Branch).await
        }),
        Callee::Agent(agent) => {
            Box::pin(async move { agent.run_in(&cx, &given).await.map_err(StepError::from_error) })
        }
        Callee::LinkedAgent(agent) => Box::pin(async move {
            let asked = agent.asked(given.as_str()).map_err(|error| {
                StepError::new(
                    FailureKind::from(error.status().as_str()),
                    error.message().to_owned(),
                )
            });
            asked?.ask_in(&cx).await.map_err(StepError::from_error)
        }),
        Callee::Workflow(spec) => Box::pin(run_workflow(spec, cx, given)),
    }
}

/// Returns the current tool of the same name in the toolset. The call keeps this tool even if the
/// toolset changes.
async fn now(toolset: &ToolsetRef, read: &ToolRef) -> Result<ToolRef, StepError> {
    let name = read.catalogue_name();
    let tool = named(toolset, name).await?;
    // The node was built from the policy, for example its approval and its repetition after a
    // crash.
    match tool.definition().policy == read.definition().policy {
        true => Ok(tool),
        false => Err(StepError::new(
            FailureKind::Registry,
            format!(
                "the policy of the tool `{name}` has changed since the workflow was read; start a new run"
            ),
        )),
    }
}

/// Returns the current tool of this name in the toolset.
async fn named(toolset: &ToolsetRef, name: &Arc<str>) -> Result<ToolRef, StepError> {
    let tools = toolset.tools().await.map_err(StepError::from_error)?;
    if let Some(tool) = tools.iter().find(|tool| tool.catalogue_name() == name) {
        return Ok(tool.clone());
    }
    let near = did_you_mean(nearest(name, tools.iter().map(|tool| &**tool.catalogue_name())));
    let gone = format!("the toolset `{}` has no tool `{name}` now{near}", toolset.name());
    Err(StepError::new(FailureKind::NotFound, gone))
}

async fn call_tool(
    tool: ToolRef,
    cx: Context,
    given: Encoded,
    site: CallSite,
) -> Result<Encoded, StepError> {
    let definition = tool.definition();
    let not_json = |error: &serde_json::Error| {
        StepError::value(
            &format!("the answer of `{}` is not JSON", definition.catalogue_name()),
            error,
        )
    };
    if definition.policy.approve || missing_scope(&cx, definition).is_some() {
        // The call asks the person, or is refused, and records itself.
        let function = super::callee::function_of(&tool);
        let answer = call_with_approval(&cx, &tool, function, given.as_str())
            .await
            .map_err(StepError::recorded)?;
        return Encoded::from_json(answer).map_err(|error| not_json(&error));
    }
    let call = ToolCall::new(cx.call_key(), &*definition.name, given.as_str());
    let called = invoke_in_node(&*tool, &cx, &call, cx.grants(), site).await;
    let result = called.map_err(|error| StepError::recorded(Failure::from(&error)))?;
    match result.status.is_success() {
        true => Encoded::from_json(result.output).map_err(|error| not_json(&error)),
        false => Err(StepError::new(FailureKind::from(result.status.as_str()), result.output)),
    }
}

async fn run_workflow(spec: Arc<Spec>, cx: Context, given: Encoded) -> Result<Encoded, StepError> {
    run_by_names(&spec, &cx, &given).await.map_err(StepError::from_error)
}
