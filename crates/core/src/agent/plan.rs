//! `Plan`: the checked description of an agent, shared by all its runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::large_outputs::{LargeOutputs, READ_TOOL, read_tool};
use super::limits::Limits;
use super::output_key::OutputKey;
use super::replaced_model::ReplacedModel;
use super::run_request::RunRequest;
use super::team::{HandoffTool, TeamPlan};
use super::typed_output::{AnswerTool, Output, OutputRule};
use super::{Description, prompt};
use crate::definition::Known;
use crate::error::{Error, Result};
use crate::event::{ANSWER_TOOL, TRANSFER_TOOL};
use crate::message::{Conversation, Message};
use crate::middleware::Middleware;
use crate::model::{Model, ModelSettings, OutputMode, OutputSchema, ToolChoice};
use crate::resource::{ResourceKey, Resources};
use crate::run::{Host, RunData, RunShared, check_resources};
use crate::tool::{
    NeededResource, Registry, ReplacedKind, StandIn, ToolDefinition, ToolHost, ToolManifest,
    ToolRef, ToolsetRef,
};

pub(super) struct Plan {
    pub(super) name: Arc<str>,
    pub(super) model: Arc<dyn Model>,
    pub(super) instructions: Option<Arc<Message>>,
    /// Conversation of a request that has none.
    opening: Conversation,
    /// Tools that are available without fetching toolsets.
    pub(super) offered: Arc<TurnTools>,
    /// The same tools as a registry, to which fetched tools are added.
    registry: Registry,
    pub(super) toolsets: Vec<ToolsetRef>,
    pub(super) output: Option<PlannedOutput>,
    pub(super) output_key: Option<OutputKey>,
    pub(super) large_outputs: Option<LargeOutputs>,
    pub(super) settings: Arc<ModelSettings>,
    pub(super) limits: Arc<Limits>,
    /// Resources of the host and of the agent.
    pub(super) resources: Resources,
    /// Resources of the agent only.
    own_resources: Resources,
    /// Resources that the tools need, each with a description of the tool for error messages.
    needs: Vec<(ResourceKey, String)>,
    pub(super) scopes: Arc<[Arc<str>]>,
    pub(super) middleware: Arc<[Arc<dyn Middleware>]>,
    pub(super) host: Arc<Host>,
    /// The description from which the plan was made.
    description: Arc<Description>,
    schema: Option<Value>,
    /// Plans of the other members of the team.
    pub(super) team: Option<TeamPlan>,
    parts: OnceLock<Arc<Known>>,
}

/// The tools of a turn.
#[derive(Default)]
pub(super) struct TurnTools {
    pub(super) tools: BTreeMap<Arc<str>, ToolRef>,
    pub(super) manifest: ToolManifest,
    /// `true` if a tool requires approval or is answered by a person.
    pub(super) asks: bool,
    /// The fetched tools, by toolset.
    fetched: Vec<Arc<[ToolRef]>>,
}

impl TurnTools {
    fn new(registry: &Registry, fetched: Vec<Arc<[ToolRef]>>) -> Arc<Self> {
        let tools = registry
            .tools()
            .map(|tool| (Arc::clone(&tool.definition().name), tool.clone()))
            .collect();
        let asks = registry.tools().any(|tool| tool.definition().policy.approve || tool.asks());
        Arc::new(Self { tools, manifest: registry.manifest(), asks, fetched })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.manifest.definitions().iter().map(|definition| &*definition.name)
    }
}

/// The way in which the model produces answers of the output type.
pub(super) struct PlannedOutput {
    pub(super) rule: OutputRule,
    /// Schema that is sent with each request, if the provider supports output schemas.
    pub(super) native: Option<Arc<OutputSchema>>,
}

impl Plan {
    pub(super) fn new<O>(described: &Arc<Description>, output: &Output<O>) -> Result<Self> {
        let description = &**described;
        let Description {
            name,
            instructions,
            tools,
            toolsets,
            settings,
            limits,
            resources,
            scopes,
            middleware,
            host,
            ..
        } = description;
        // A redactor must see all events of a run, so it cannot belong to a single agent.
        if let Some(redacts) = middleware.iter().find(|one| one.redactor().is_some()) {
            let name = redacts.name();
            return Err(description.build_error(format!(
                "`{name}` takes texts out of all events of a run, so it belongs to the runtime: \
                 `Runtime::builder().with(..)`"
            )));
        }
        let mut all_resources = host.resources.clone();
        all_resources.extend(resources);
        let mut registry = Registry::new();
        for tool in tools {
            // `within` binds nested agents and workflows to this agent's host and resources.
            let of = ToolHost { host, resources: &all_resources };
            let tool = tool.within(of).unwrap_or_else(|| Ok(tool.clone()));
            let registered = tool.and_then(|tool| Ok(registry.register(tool)?));
            registered.map_err(|error| description.build_error(error.to_string()))?;
        }
        if !description.targets.is_empty() {
            registry.register(HandoffTool::new(&description.targets)).map_err(|_| {
                description.build_error(format!(
                    "the tool name `{TRANSFER_TOOL}` is taken; rename that tool"
                ))
            })?;
        }
        if let Some(large) = description.limits.large_outputs {
            registry.register(read_tool(large)).map_err(|_| {
                description
                    .build_error(format!("the tool name `{READ_TOOL}` is taken; rename that tool"))
            })?;
        }
        let output_key = description.output_key.clone();
        if let Some(problem) = output_key.as_ref().and_then(OutputKey::problem::<O>) {
            return Err(description.build_error(problem));
        }
        let team = TeamPlan::new(description, output)?;
        let needs = registry.tools().flat_map(|tool| needs_of(tool, host)).collect();
        let stand_in = description.stand_in.clone();
        let stand_in = stand_in.or_else(|| StandIn::of(host, ReplacedKind::Agent, name));
        let model = match (stand_in, description.definition) {
            (Some(stand_in), _) => Arc::new(ReplacedModel::new(stand_in)),
            (None, Some(definition)) => host.open(&definition.model_in(host)?)?,
            (None, None) => host.open(&description.model)?,
        };
        // The values of `{app:key}` placeholders are known now, so the prompt of an `#[agent]` can
        // be rendered.
        let (prompted, opening) = match &description.prompt {
            Some(prompt) => {
                let rendered = prompt
                    .rendered(&host.app)
                    .map_err(|problem| description.build_error(problem))?;
                (rendered.instruction, rendered.message.into())
            }
            None => (None, prompt::begin()),
        };
        let instructions = instructions.clone().or(prompted);
        let mut settings = settings.clone();
        let schema_of_answer = output.schema().map(|schema| schema.schema);
        let output = match output.schema() {
            None => None,
            Some(schema) => {
                // The mode may depend on tools: some models support an output schema only without
                // them.
                let mode = model
                    .output_mode(&schema, registry.tools().next().is_some() || !toolsets.is_empty())
                    .map_err(|problem| {
                        description.build_error(format!("its output type does not work: {problem}"))
                    })?;
                let rule = output.rule(mode == OutputMode::Tool);
                let native = match mode {
                    OutputMode::Native => Some(Arc::new(schema)),
                    OutputMode::Tool => {
                        registry.register(AnswerTool::new(schema, rule.check)).map_err(|_| {
                            description.build_error(format!(
                                "the tool name `{ANSWER_TOOL}` is taken; rename that tool"
                            ))
                        })?;
                        // Makes the model answer with the tool instead of text.
                        settings.tool_choice.get_or_insert(ToolChoice::Required);
                        None
                    }
                };
                Some(PlannedOutput { rule, native })
            }
        };
        Ok(Self {
            output,
            output_key,
            large_outputs: description.limits.large_outputs,
            name: Arc::clone(name),
            model,
            instructions: instructions.map(|text| Arc::new(Message::system(text))),
            opening,
            offered: TurnTools::new(&registry, Vec::new()),
            registry,
            toolsets: toolsets.clone(),
            settings: Arc::new(settings),
            limits: Arc::new(limits.clone()),
            resources: all_resources,
            own_resources: resources.clone(),
            needs,
            scopes: scopes.as_slice().into(),
            middleware: middleware.as_slice().into(),
            host: Arc::clone(host),
            description: Arc::clone(described),
            schema: schema_of_answer,
            team,
            parts: OnceLock::new(),
        })
    }

    /// Returns the parts of the definition. They are computed on first use.
    pub(super) fn parts(&self) -> &Arc<Known> {
        self.parts.get_or_init(|| self.description.parts(self.schema.as_ref()))
    }

    /// Returns the request, with the agent's default conversation if it is empty.
    pub(super) fn asked(&self, request: impl Into<RunRequest>) -> RunRequest {
        let mut request = request.into();
        if request.conversation.is_empty() {
            request.conversation = self.opening.clone();
        }
        request
    }

    /// Returns the tools including those of toolsets. Builds a new list only if a toolset has
    /// changed.
    ///
    /// # Errors
    /// If a toolset cannot be fetched, or one of its tools cannot be used by the agent.
    pub(super) async fn fetched(
        &self,
        before: &Arc<TurnTools>,
        resources: &Resources,
    ) -> Result<Arc<TurnTools>> {
        let mut fetched = Vec::with_capacity(self.toolsets.len());
        for toolset in &self.toolsets {
            fetched.push(toolset.tools().await?);
        }
        let is_same = |(one, other): (&Arc<[ToolRef]>, &Arc<[ToolRef]>)| Arc::ptr_eq(one, other);
        if before.fetched.len() == fetched.len() && before.fetched.iter().zip(&fetched).all(is_same)
        {
            return Ok(Arc::clone(before));
        }
        let mut registry = self.registry.clone();
        for tool in fetched.iter().flat_map(|tools| tools.iter()) {
            let of = ToolHost { host: &self.host, resources };
            let tool = tool.within(of).unwrap_or_else(|| Ok(tool.clone()))?;
            let needs = needs_of(&tool, &self.host);
            check_resources(
                &self.name,
                resources,
                needs.iter().map(|(key, of)| (*key, of.as_str())),
            )?;
            registry.register(tool)?;
        }
        Ok(TurnTools::new(&registry, fetched))
    }

    /// Returns the resources of the agent in a run. For each type the order of precedence is:
    /// request, agent, run, host.
    pub(super) fn resources_in(&self, run: &RunShared, request: &Resources) -> Resources {
        let of_run = run.own().map(RunData::resources).filter(|own| !own.is_empty());
        if of_run.is_none() && request.is_empty() {
            return self.resources.clone();
        }
        let mut all = self.host.resources.clone();
        of_run.iter().chain([&self.own_resources, request]).for_each(|more| all.extend(more));
        all
    }

    /// Checks that the resources of all tools exist in a run, including the tools of the team.
    ///
    /// # Errors
    /// [`Error::RunResource`].
    pub(super) fn check(&self, run: &RunShared, request: &Resources) -> Result<()> {
        if !self.needs.is_empty() {
            let needs = self.needs.iter().map(|(key, of)| (*key, of.as_str()));
            check_resources(&self.name, &self.resources_in(run, request), needs)?;
        }
        self.others().try_for_each(|other| other.check(run, request))
    }

    /// `true` if a tool of the agent or its team declares a compensation.
    pub(super) fn is_undone(&self) -> bool {
        let is_undone = |plan: &Self| {
            plan.offered.manifest.definitions().iter().any(|tool| tool.policy.compensate.is_some())
        };
        is_undone(self) || self.others().any(|other| is_undone(other))
    }

    /// Returns the tools of the agent and its team, each with the schema of its result if known.
    pub(super) fn described_tools(&self) -> Vec<(Arc<ToolDefinition>, Option<Value>)> {
        let plans = std::iter::once(self).chain(self.others().map(|other| &**other));
        let tools = plans.flat_map(|plan| plan.offered.tools.values());
        tools.map(|tool| (Arc::clone(tool.definition()), tool.output_schema())).collect()
    }

    /// Checks the resources before a run exists. Resources that are created for each run do not
    /// count as missing.
    pub(super) fn check_built(&self) -> Result<()> {
        let made = |key: &ResourceKey| self.host.factories.makes(*key);
        let needs =
            self.needs.iter().filter(|(key, _)| !made(key)).map(|(key, of)| (*key, of.as_str()));
        match check_resources(&self.name, &self.resources, needs) {
            Err(Error::RunResource { name, problem }) => {
                Err(Error::Build { what: "agent", name, problem })
            }
            Err(error) => Err(error),
            Ok(()) => self.others().try_for_each(|other| other.check_built()),
        }
    }
}

/// Returns the resources that a tool needs, each with a description of the tool. A tool that a test
/// replaces needs no resources.
fn needs_of(tool: &ToolRef, host: &Host) -> Vec<(ResourceKey, String)> {
    let needs = NeededResource::all_of(tool, "").into_iter().filter(|need| !need.is_replaced(host));
    needs.map(|need| (need.key, need.by)).collect()
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("name", &self.name).finish_non_exhaustive()
    }
}
