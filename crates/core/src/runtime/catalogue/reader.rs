//! `CatalogueReader`: looks up single items of a runtime by name. `listing.rs` lists all of them.

use std::sync::Arc;

use agentflow_schema::text::nearest;

use crate::agent::{AgentDefinition, AgentOutline, ErasedAgent, linked_agents, two_linked_agents};
use crate::context::Context;
use crate::definition::Known;
use crate::dry_run::DryRun;
use crate::error::{Error, RegistryError, Result};
use crate::event::{AgentStarted, RunId};
use crate::message::{ToolCall, ToolResult};
use crate::model::ModelProvider;
use crate::runtime::Runtime;
use crate::runtime::catalogue::catalogue_entry::Origin;
use crate::runtime::catalogue::lookup::{
    given, linked_tools_of, of_server, only, same_agent, workflow_spec,
};
use crate::runtime::catalogue::registered_items::refresh_items;
use crate::tool::{ToolHost, ToolRef, invoke_with_hooks, linked_tools, problem_of, wire_name};
use crate::workflow::Graph;
use crate::workflow::spec::Spec;

/// JSON arguments of an `#[agent]` without parameters.
const NO_ARGUMENTS: &str = "{}";

/// Access to the items that a runtime knows by name, returned by [`Runtime::catalogue`]. It looks
/// up single items. [`snapshot`](Self::snapshot) lists all of them.
///
/// # Cancel safety
/// The asynchronous methods change nothing. If the future is dropped, a toolset whose tools are
/// being fetched is fetched again when it is needed.
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to the items"]
pub struct CatalogueReader<'a>(pub(crate) &'a Runtime);

impl CatalogueReader<'_> {
    /// Returns the providers that model names can use, ordered by name: the built-in ones and the
    /// ones of this runtime. It checks if their API keys are set, without revealing them.
    pub async fn model_providers(self) -> Vec<ModelProvider> {
        let mut providers = crate::model::built_in_providers(&self.0.host().secrets).await;
        providers.retain(|provider| !self.0.host().models.contains_key(&*provider.name));
        providers.extend(self.0.host().models.keys().map(|name| ModelProvider::of_host(name)));
        providers.sort_by(|a, b| a.name.cmp(&b.name));
        providers
    }

    /// `true` if the provider was registered with this runtime.
    #[doc(hidden)]
    pub fn has_own_provider(self, provider: &str) -> bool {
        self.0.host().models.contains_key(provider)
    }

    /// Returns the tools that a caller with these scopes may call. The scopes that the runtime
    /// grants to every caller are added. The list contains tools that were registered or linked
    /// into the program, and the tools of toolsets, which are fetched. It is ordered by the name
    /// that models use. Tools without scopes and tools that require approval are included.
    ///
    /// # Errors
    /// [`Error::Toolset`] if the tools of a toolset cannot be fetched.
    #[doc(alias = "list_available_tools")]
    pub async fn tools_with_scopes<'s>(
        self,
        scopes: impl IntoIterator<Item = &'s str>,
    ) -> Result<Vec<ToolRef>> {
        let granted: Vec<Arc<str>> =
            scopes.into_iter().map(Arc::from).chain(self.0.host().scopes.iter().cloned()).collect();
        let mut tools: Vec<ToolRef> = given(self.0.host(), |given| &given.tools)
            .iter()
            .map(|(tool, _)| tool.clone())
            .collect();
        tools.extend(linked_tools().iter().cloned());
        for (toolset, _) in given(self.0.host(), |given| &given.toolsets).iter() {
            tools.extend(toolset.tools().await?.iter().cloned());
        }
        tools.retain(|tool| {
            tool.definition().policy.scopes.iter().all(|scope| granted.contains(scope))
        });
        tools.sort_by(|one, other| one.name().cmp(other.name()));
        tools.dedup_by(|one, other| one.is(other));
        Ok(tools)
    }

    /// Returns a tool by name, such as `add` or `files.read`. `files:read` and the wire name
    /// `files__read` are accepted too. If no tool is named `files.read`, `files:read` means
    /// `mcp.files.read`. The tool may be registered with the runtime, linked into the program, or
    /// belong to a toolset of the runtime. If the name may belong to a toolset, its tools are
    /// fetched.
    ///
    /// # Errors
    /// [`RegistryError::NotFound`], with the most similar name; [`RegistryError::NameTaken`] if two
    /// tools have this name; [`RegistryError::InvalidName`], [`RegistryError::NoObjectSchema`] or
    /// [`RegistryError::InvalidSchema`] for a tool that cannot be called; [`Error::Toolset`] if the
    /// tools of its toolset cannot be fetched.
    pub async fn tool(self, name: &str) -> Result<ToolRef> {
        let given_tools = given(self.0.host(), |given| &given.tools);
        let mut known = given_tools.to_vec();
        let of_server = of_server(name);
        for (toolset, _) in given(self.0.host(), |given| &given.toolsets).iter() {
            let of = toolset.name();
            // Only toolsets whose name is a prefix of the requested name can have the tool. Others
            // are not fetched.
            if name
                .strip_prefix(&**of)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
                || name
                    .strip_prefix(&*wire_name(of))
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
                || of_server.as_deref().is_some_and(|name| {
                    name.strip_prefix(&**of).is_some_and(|rest| rest.starts_with('.'))
                })
            {
                let origin = Origin::Toolset { name: Arc::clone(of) };
                known.extend(
                    toolset.tools().await?.iter().map(|tool| (tool.clone(), origin.clone())),
                );
            }
        }
        let by = |is: &dyn Fn(&ToolRef) -> bool, name: &str| -> Vec<(ToolRef, Origin)> {
            known
                .iter()
                .filter(|(tool, _)| is(tool))
                .cloned()
                .chain(linked_tools_of(name))
                .collect()
        };
        // First the catalogue name, then the wire name, then `SERVER:TOOL`.
        let mut found = by(&|tool| **tool.catalogue_name() == *name, name);
        if found.is_empty() {
            let wire = wire_name(name);
            found = by(&|tool| *tool.name() == *wire, &wire);
        }
        if let Some(of_server) = of_server.filter(|_| found.is_empty()) {
            found = by(&|tool| **tool.catalogue_name() == *of_server, &of_server);
        }
        let found = only("tool", name, found, ToolRef::is)?;
        if let Some(problem) = found.as_ref().and_then(problem_of) {
            return Err(problem.into());
        }
        found.ok_or_else(|| {
            let of_host = known.iter().map(|(tool, _)| Arc::clone(tool.catalogue_name()));
            let linked = linked_tools().iter().map(|tool| Arc::from(tool.name()));
            let mut registered: Vec<Arc<str>> = of_host.chain(linked).collect();
            registered.sort();
            registered.dedup();
            RegistryError::NotFound { name: name.to_owned(), registered }.into()
        })
    }

    /// Calls a tool with a context that does not belong to a run.
    #[doc(hidden)]
    pub async fn invoke_at(
        self,
        cx: &Context,
        tool: &ToolRef,
        call: &ToolCall,
        scopes: &[Arc<str>],
    ) -> Result<ToolResult> {
        let of = ToolHost { host: self.0.host(), resources: cx.resources() };
        let tool = tool.within(of).unwrap_or_else(|| Ok(tool.clone()))?;
        let granted: Vec<Arc<str>> = cx.grants().iter().chain(scopes).cloned().collect();
        Ok(invoke_with_hooks(&*tool, cx, call, &granted).await)
    }

    /// Returns a workflow by name: registered with the runtime, or linked into the program.
    pub(crate) fn workflow_spec(self, name: &str) -> Result<Arc<Spec>> {
        workflow_spec(self.0.host(), name)
    }

    /// Does nothing: only graphs refer to toolsets.
    #[cfg(not(feature = "dynamic"))]
    #[allow(clippy::unused_async, reason = "with graphs it waits for servers")]
    pub(crate) async fn fetch_toolsets_of(self, _: &str) -> Result<()> {
        Ok(())
    }

    /// Returns a workflow by name, after fetching the toolsets that it names. A toolset that cannot
    /// be fetched is not an error here: only the nodes that call its tools fail.
    pub(crate) async fn fetched_workflow_spec(self, name: &str) -> Result<Arc<Spec>> {
        if let Err(error) = self.fetch_toolsets_of(name).await {
            tracing::warn!(workflow = name, %error, "only the nodes fail that call its tools");
        }
        self.workflow_spec(name)
    }

    /// Returns the workflow of a run that has started. All toolsets must be available, so that the
    /// workflow has the same definition.
    ///
    /// # Errors
    /// [`Error::Toolset`] if a toolset cannot be fetched.
    pub(crate) async fn complete_workflow_spec(self, name: &str) -> Result<Arc<Spec>> {
        self.fetch_toolsets_of(name).await?;
        self.workflow_spec(name)
    }

    /// Returns an agent by name: registered with the runtime, or an `#[agent]` without arguments
    /// that is linked into the program.
    pub(crate) fn agent_named(self, name: &str) -> Result<ErasedAgent> {
        self.agent_asked(name, NO_ARGUMENTS)
    }

    /// Returns an agent by name. An `#[agent]` that is linked into the program receives
    /// `arguments`, which is JSON text.
    pub(crate) fn agent_asked(self, name: &str, arguments: &str) -> Result<ErasedAgent> {
        let given = given(self.0.host(), |given| &given.agents);
        let mut found: Vec<(ErasedAgent, Origin)> =
            given.iter().filter(|(agent, _)| **agent.name() == *name).cloned().collect();
        let linked = linked_agents();
        match linked.get(name) {
            Ok(Some(linked)) if found.is_empty() => {
                let agent = linked.asked(arguments).map_err(|error| Error::Build {
                    what: "agent",
                    name: name.into(),
                    problem: match arguments {
                        NO_ARGUMENTS => format!("it cannot be started by its name alone: {error}"),
                        _ => error.to_string(),
                    },
                })?;
                found.push((agent, Origin::Linked(linked.source())));
            }
            Err(two) if found.is_empty() => return Err(two_linked_agents(two).into()),
            _ => {}
        }
        only("agent", name, found, same_agent)?.ok_or_else(|| {
            let known = given.iter().map(|(agent, _)| &**agent.name()).chain(linked.names());
            RegistryError::unknown("agent", name, known).into()
        })
    }

    /// `true` if an agent with this name is registered with the runtime. It takes precedence over a
    /// linked one.
    pub(crate) fn is_given_agent(self, name: &str) -> bool {
        given(self.0.host(), |given| &given.agents).iter().any(|(agent, _)| **agent.name() == *name)
    }

    /// Returns the agent of a run: registered with the runtime, or the `#[agent]` that is linked
    /// into the program.
    pub(crate) fn agent_of(self, run: &RunId, started: &AgentStarted) -> Result<ErasedAgent> {
        let given = given(self.0.host(), |given| &given.agents);
        let mut found: Vec<(ErasedAgent, Origin)> =
            given.iter().filter(|(agent, _)| **agent.name() == *started.name).cloned().collect();
        let linked = linked_agents();
        let instructions = started.instructions.as_ref().map(|message| message.text());
        match linked.get(&started.name) {
            Ok(Some(linked)) => {
                let agent = linked.resuming(&self.0.context(), instructions.as_deref());
                found.push((agent, Origin::Linked(linked.source())));
            }
            // The registered agent decides between two linked ones.
            Err(two) if found.is_empty() => return Err(two_linked_agents(two).into()),
            Ok(None) | Err(_) => {}
        }
        let agent = only("agent", &started.name, found, same_agent)?.ok_or_else(|| {
            let known = given.iter().map(|(agent, _)| &**agent.name()).chain(linked.names());
            let near = nearest(&started.name, known).map(ToOwned::to_owned);
            Error::UnknownAgent { run: run.clone(), agent: Arc::clone(&started.name), near }
        })?;
        // The agent was registered with the arguments of some call. The run uses its recorded
        // instructions instead.
        Ok(if agent.definition().is_some() {
            agent.instructed(instructions.as_deref())
        } else {
            agent
        })
    }

    /// Returns the graph of a workflow.
    ///
    /// # Errors
    /// If no workflow, or more than one, has this name. Also for a graph that names a tool of a
    /// toolset before the tools of the toolset were fetched, by starting the workflow or by
    /// [`snapshot`](Self::snapshot).
    pub fn workflow_graph(self, name: &str) -> Result<Graph> {
        Ok(Graph::from_plan(&*self.workflow_spec(name)?))
    }

    /// Describes the steps that running a workflow would execute, or else an agent with this name.
    /// Executes nothing. The tools of toolsets that a graph names are fetched.
    ///
    /// # Errors
    /// If no workflow or agent has this name, or more than one has it. With documents in the store,
    /// also any error of the store.
    pub async fn dry_run(self, name: &str) -> Result<DryRun> {
        refresh_items(self.0).await?;
        match self.fetched_workflow_spec(name).await {
            Ok(spec) => Ok(spec.dry_run()),
            // An agent may have the name.
            Err(unknown @ Error::UnknownWorkflow { .. }) => {
                self.agent_outline(name).map(|agent| agent.dry_run()).map_err(|_| unknown)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the structure of an agent, with the model that it uses in this runtime. The agent
    /// may be registered with the runtime or be an `#[agent]`.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], with the most similar name, or [`RegistryError::NameTaken`] if
    /// two agents have this name.
    pub fn agent_outline(self, name: &str) -> Result<AgentOutline> {
        let given = given(self.0.host(), |given| &given.agents);
        let of_name = given.iter().filter(|(agent, _)| **agent.name() == *name).cloned();
        if let Some(agent) = only("agent", name, of_name, same_agent)? {
            return Ok(agent.outline());
        }
        let linked = linked_agents();
        let found =
            linked.get(name).map_err(two_linked_agents)?.map(|agent| agent.outline(self.0.host()));
        found.ok_or_else(|| {
            let known = given.iter().map(|(agent, _)| &**agent.name()).chain(linked.names());
            RegistryError::unknown("agent", name, known).into()
        })
    }

    /// Returns the definition hash of a workflow, and its parts.
    #[doc(hidden)]
    pub async fn definition_of(self, name: &str) -> Result<(Arc<str>, Arc<Known>)> {
        let spec = self.fetched_workflow_spec(name).await?;
        Ok((Arc::clone(spec.hash()), Arc::clone(spec.parts())))
    }

    /// Returns the `#[agent]` functions that are linked into the program, ordered by name.
    ///
    /// # Errors
    /// [`RegistryError::DuplicateAgent`] if two have the same name.
    pub fn agents(self) -> Result<Vec<&'static AgentDefinition>, RegistryError> {
        let linked = linked_agents();
        match linked.twice().next() {
            Some(two) => Err(two_linked_agents(two)),
            None => Ok(linked.once().copied().collect()),
        }
    }
}
