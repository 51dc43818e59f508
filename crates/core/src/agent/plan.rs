//! `Plan`: an agent's description after its checks, shared by all its runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::large_outputs::{LargeOutputs, READ_TOOL, read_tool};
use super::limits::Limits;
use super::output_key::OutputKey;
use super::replaced_model::ReplacedModel;
use super::run_request::RunRequest;
use super::team::{TeamPlan, TransferTool};
use super::typed_output::{AnswerTool, Output, OutputRule};
use super::{Description, prompt};
use crate::definition::Known;
use crate::error::{Error, Result};
use crate::event::{ANSWER_TOOL, TRANSFER_TOOL};
use crate::message::{Conversation, Message};
use crate::middleware::Middleware;
use crate::model::{Model, ModelSettings, OutputMode, OutputSchema, ToolChoice};
use crate::resource::{ResourceKey, Resources};
use crate::run::{Host, RunOwn, RunShared, check_resources};
use crate::tool::{
    NeededResource, Registry, ReplacedKind, StandIn, ToolDefinition, ToolHost, ToolManifest, ToolRef, ToolsetRef,
};

pub(super) struct Plan {
    pub(super) name: Arc<str>,
    pub(super) model: Arc<dyn Model>,
    pub(super) instructions: Option<Arc<Message>>,
    /// What it asks when its caller says nothing.
    opening: Conversation,
    /// The tools that are there without asking for any.
    pub(super) offered: Arc<Offered>,
    /// The same, to add those of toolsets.
    registry: Registry,
    pub(super) toolsets: Vec<ToolsetRef>,
    pub(super) output: Option<PlannedOutput>,
    pub(super) output_key: Option<OutputKey>,
    pub(super) large_outputs: Option<LargeOutputs>,
    pub(super) settings: Arc<ModelSettings>,
    pub(super) limits: Arc<Limits>,
    /// Those of the host and of the agent.
    pub(super) resources: Resources,
    /// Those of the agent alone.
    own_resources: Resources,
    /// The resources that its tools take, each with the tool.
    needs: Vec<(ResourceKey, String)>,
    pub(super) scopes: Arc<[Arc<str>]>,
    pub(super) middleware: Arc<[Arc<dyn Middleware>]>,
    pub(super) host: Arc<Host>,
    /// What it was made of.
    description: Arc<Description>,
    schema: Option<Value>,
    /// Those that may take over from it.
    pub(super) team: Option<TeamPlan>,
    parts: OnceLock<Arc<Known>>,
}

/// The tools of a turn.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) tools: BTreeMap<Arc<str>, ToolRef>,
    pub(super) manifest: ToolManifest,
    /// Whether a person must agree to calls of one of them, or answers them.
    pub(super) asks: bool,
    /// The fetched tools among them, of each toolset.
    fetched: Vec<Arc<[ToolRef]>>,
}

impl Offered {
    fn new(registry: &Registry, fetched: Vec<Arc<[ToolRef]>>) -> Arc<Self> {
        let tools = registry.tools().map(|tool| (Arc::clone(&tool.definition().name), tool.clone())).collect();
        let asks = registry.tools().any(|tool| tool.definition().policy.approve || tool.asks());
        Arc::new(Self { tools, manifest: registry.manifest(), asks, fetched })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.manifest.definitions().iter().map(|definition| &*definition.name)
    }
}

/// How the model is brought to answer in the output type's shape.
pub(super) struct PlannedOutput {
    pub(super) rule: OutputRule,
    /// The schema to send with each request, when the provider takes one.
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
            let of = ToolHost { host, resources: &all_resources };
            let tool = tool.within(of).unwrap_or_else(|| Ok(tool.clone()));
            let registered = tool.and_then(|tool| Ok(registry.register(tool)?));
            registered.map_err(|error| description.build_error(error.to_string()))?;
        }
        if !description.targets.is_empty() {
            registry.register(TransferTool::new(&description.targets)).map_err(|_| {
                description.build_error(format!("the tool name `{TRANSFER_TOOL}` is taken; rename that tool"))
            })?;
        }
        if let Some(large) = description.limits.large_outputs {
            registry.register(read_tool(large)).map_err(|_| {
                description.build_error(format!("the tool name `{READ_TOOL}` is taken; rename that tool"))
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
        let (prompted, opening) = match &description.prompt {
            Some(prompt) => {
                let rendered = prompt.rendered(&host.app).map_err(|problem| description.build_error(problem))?;
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
                let mode = model
                    .output_mode(&schema, registry.tools().next().is_some() || !toolsets.is_empty())
                    .map_err(|problem| description.build_error(format!("its output type does not work: {problem}")))?;
                let rule = output.rule(mode == OutputMode::Tool);
                let native = match mode {
                    OutputMode::Native => Some(Arc::new(schema)),
                    OutputMode::Tool => {
                        registry.register(AnswerTool::new(schema, rule.check)).map_err(|_| {
                            description.build_error(format!("the tool name `{ANSWER_TOOL}` is taken; rename that tool"))
                        })?;
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
            offered: Offered::new(&registry, Vec::new()),
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

    /// The definition by parts; computed when it is first asked for.
    pub(super) fn parts(&self) -> &Arc<Known> {
        self.parts.get_or_init(|| self.description.parts(self.schema.as_ref()))
    }

    /// What a run is asked: the agent's own question, when its caller asks none.
    pub(super) fn asked(&self, request: impl Into<RunRequest>) -> RunRequest {
        let mut request = request.into();
        if request.conversation.is_empty() {
            request.conversation = self.opening.clone();
        }
        request
    }

    /// The tools with those of toolsets, fetched when they are not or have changed.
    ///
    /// # Errors
    /// When they cannot be fetched, or one of them does not fit to the agent.
    pub(super) async fn fetched(&self, before: &Arc<Offered>, resources: &Resources) -> Result<Arc<Offered>> {
        let mut fetched = Vec::with_capacity(self.toolsets.len());
        for toolset in &self.toolsets {
            fetched.push(toolset.tools().await?);
        }
        let is_same = |(one, other): (&Arc<[ToolRef]>, &Arc<[ToolRef]>)| Arc::ptr_eq(one, other);
        if before.fetched.len() == fetched.len() && before.fetched.iter().zip(&fetched).all(is_same) {
            return Ok(Arc::clone(before));
        }
        let mut registry = self.registry.clone();
        for tool in fetched.iter().flat_map(|tools| tools.iter()) {
            let of = ToolHost { host: &self.host, resources };
            let tool = tool.within(of).unwrap_or_else(|| Ok(tool.clone()))?;
            let needs = needs_of(&tool, &self.host);
            check_resources(&self.name, resources, needs.iter().map(|(key, of)| (*key, of.as_str())))?;
            registry.register(tool)?;
        }
        Ok(Offered::new(&registry, fetched))
    }

    /// The resources of the agent in a run: the nearest counts, so those of the request come before the agent's own,
    /// these before the run's, and these before the host's.
    pub(super) fn resources_in(&self, run: &RunShared, request: &Resources) -> Resources {
        let of_run = run.own().map(RunOwn::resources).filter(|own| !own.is_empty());
        if of_run.is_none() && request.is_empty() {
            return self.resources.clone();
        }
        let mut all = self.host.resources.clone();
        of_run.iter().chain([&self.own_resources, request]).for_each(|more| all.extend(more));
        all
    }

    /// Checks that nothing is missing in a run that the tools take, also those of its team.
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

    /// Whether one of its tools says how it is undone.
    pub(super) fn is_undone(&self) -> bool {
        let is_undone =
            |plan: &Self| plan.offered.manifest.definitions().iter().any(|tool| tool.policy.compensate.is_some());
        is_undone(self) || self.others().any(|other| is_undone(other))
    }

    /// Its tools, each with the schema of its answer where that is known.
    pub(super) fn described_tools(&self) -> Vec<(Arc<ToolDefinition>, Option<Value>)> {
        let plans = std::iter::once(self).chain(self.others().map(|other| &**other));
        let tools = plans.flat_map(|plan| plan.offered.tools.values());
        tools.map(|tool| (Arc::clone(tool.definition()), tool.output_schema())).collect()
    }

    /// The same before there is a run: what is made for each run is not missing.
    pub(super) fn check_built(&self) -> Result<()> {
        let made = |key: &ResourceKey| self.host.factories.makes(*key);
        let needs = self.needs.iter().filter(|(key, _)| !made(key)).map(|(key, of)| (*key, of.as_str()));
        match check_resources(&self.name, &self.resources, needs) {
            Err(Error::RunResource { name, problem }) => Err(Error::Build { what: "agent", name, problem }),
            Err(error) => Err(error),
            Ok(()) => self.others().try_for_each(|other| other.check_built()),
        }
    }
}

/// The resources that a tool takes, each with the tool; none of a replaced one.
fn needs_of(tool: &ToolRef, host: &Host) -> Vec<(ResourceKey, String)> {
    let needs = NeededResource::all_of(tool, "").into_iter().filter(|need| !need.is_replaced(host));
    needs.map(|need| (need.key, need.by)).collect()
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("name", &self.name).finish_non_exhaustive()
    }
}
