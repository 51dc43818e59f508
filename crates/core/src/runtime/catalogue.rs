//! Lookup of named items of a runtime: tools, toolsets, agents, workflows and schemas, registered
//! or linked into the program. This module finds single items; `listing.rs` lists all of them.

use std::sync::Arc;

#[cfg(feature = "documents")]
use agentflow_schema::text::OneLine;
use agentflow_schema::text::nearest;
use serde_json::Value;

use super::Runtime;
use super::catalogue_entry::Origin;
#[cfg(feature = "dynamic")]
use super::given_now::RegisteredList;
pub(super) use super::given_now::given;
use crate::agent::{AgentOutline, ErasedAgent, linked_agents, two_linked_agents};
use crate::context::Context;
use crate::dry_run::DryRun;
use crate::error::{ControlError, Error, RegistryError, Result};
use crate::event::{AgentStarted, RunId};
use crate::message::{ToolCall, ToolResult};
use crate::run::Host;
use crate::tool::{
    SourceLocation, ToolHost, ToolRef, ToolsetRef, invoke_with_hooks, linked_tools, problem_of,
    report_unknown_tool, wire_name,
};
use crate::value::{Encoded, NodeValue};
use crate::workflow::linked_workflow::{linked, two_linked};
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, Inputs, IntoInputs, ReferenceKind, Workflow, check_answer};

/// Items that were registered with a runtime, each with its origin, in the order of registration.
#[derive(Clone, Default)]
pub(super) struct Given {
    pub(super) tools: Vec<(ToolRef, Origin)>,
    pub(super) toolsets: Vec<(ToolsetRef, Origin)>,
    pub(super) agents: Vec<(ErasedAgent, Origin)>,
    pub(super) workflows: Vec<(Arc<Spec>, Origin)>,
    #[cfg(feature = "dynamic")]
    pub(super) graphs: Vec<(super::graphs::RegisteredGraph, Origin)>,
    /// Agents that documents describe, each with its document.
    #[cfg(feature = "documents")]
    pub(super) written_agents: Vec<(ErasedAgent, super::given_documents::DocumentText)>,
    /// Items of documents with errors, each with the name of the document.
    #[cfg(feature = "documents")]
    pub(super) unread: Vec<super::given_documents::Unread>,
    pub(super) schemas: Vec<((Arc<str>, Value), Origin)>,
    /// `true` for `cli::run()`, with which a program registers no tools.
    #[cfg(feature = "dynamic")]
    pub(super) is_linked_alone: bool,
    /// Model providers.
    pub(super) providers: Vec<(Arc<str>, Origin)>,
}

/// `true` if two workflows with the same name have the same definition.
pub(super) fn same_workflow(one: &Arc<Spec>, other: &Arc<Spec>) -> bool {
    Arc::ptr_eq(one, other) || one.hash() == other.hash()
}

/// `true` if both are the same agent, or are created from the same `#[agent]` function, perhaps
/// with different options.
pub(super) fn same_agent(one: &ErasedAgent, other: &ErasedAgent) -> bool {
    match (one.definition(), other.definition()) {
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        _ => one.is(other),
    }
}

/// Returns the error for two items with the same name.
pub(super) fn taken(what: &'static str, name: &str, first: &Origin, second: &Origin) -> Error {
    let (first, second) = (first.to_string(), second.to_string());
    RegistryError::NameTaken { what, name: name.into(), first, second }.into()
}

/// Returns the only item with a name. Several are allowed if they are the same item.
pub(super) fn only<T>(
    what: &'static str,
    name: &str,
    found: impl IntoIterator<Item = (T, Origin)>,
    same: impl Fn(&T, &T) -> bool,
) -> Result<Option<T>> {
    let mut found = found.into_iter();
    let Some((first, origin)) = found.next() else { return Ok(None) };
    match found.find(|(other, _)| !same(&first, other)) {
        Some((_, other)) => Err(taken(what, name, &origin, &other)),
        None => Ok(Some(first)),
    }
}

/// Returns a workflow by name: registered with the host, or linked into the program.
pub(super) fn workflow_spec(host: &Host, name: &str) -> Result<Arc<Spec>> {
    workflow_spec_in(host, name, &[])
}

/// Returns a workflow by name. `within` are the graphs that are being resolved and call it, to
/// detect cycles.
pub(super) fn workflow_spec_in(host: &Host, name: &str, within: &[&str]) -> Result<Arc<Spec>> {
    let given_workflows = given(host, |given| &given.workflows);
    let of_name = given_workflows.iter().filter(|(spec, _)| *spec.name == *name);
    let mut found: Vec<(Arc<Spec>, Origin)> = of_name.cloned().collect();
    #[cfg(feature = "dynamic")]
    let graphs = graphs(host);
    #[cfg(feature = "dynamic")]
    for (graph, origin) in graphs.iter().filter(|(graph, _)| *graph.graph.name == *name) {
        found.push((graph.spec(host, graphs.moment(), within)?, origin.clone()));
    }
    #[cfg(not(feature = "dynamic"))]
    let _ = within;
    let linked = linked();
    match linked.get(name) {
        Ok(Some(linked)) => found
            .push((linked.spec()?, Origin::Linked(SourceLocation::new(linked.file, linked.line)))),
        // The registered workflow decides between two linked ones.
        Err(two) if found.is_empty() => return Err(two_linked(two)),
        Ok(None) | Err(_) => {}
    }
    only("workflow", name, found, same_workflow)?.ok_or_else(|| {
        #[cfg(feature = "documents")]
        if let Some(document) = super::given_documents::unread(host, ReferenceKind::Workflow, name)
        {
            let problem = format!("its document {} has problems", OneLine(document));
            return Error::Build { what: "workflow", name: name.into(), problem };
        }
        let known = given_workflows.iter().map(|(spec, _)| &*spec.name).chain(linked.names());
        #[cfg(feature = "dynamic")]
        let known = known.chain(graphs.iter().map(|(graph, _)| graph.graph.name.as_str()));
        let other = kind_with_name(host, ReferenceKind::Workflow, name).map(ReferenceKind::as_str);
        let known: Vec<String> = known.map(ToOwned::to_owned).collect();
        let near = nearest(name, known.iter().map(String::as_str)).map(ToOwned::to_owned);
        Error::UnknownWorkflow { name: name.into(), near, known, other }
    })
}

/// Returns the kind of an item with this name, if no item of the requested kind has it. Used for
/// error messages.
pub(super) fn kind_with_name(
    host: &Host,
    kind: ReferenceKind,
    name: &str,
) -> Option<ReferenceKind> {
    let is = |of: ReferenceKind| match of {
        ReferenceKind::Tool => {
            let is_given = given(host, |given| &given.tools)
                .iter()
                .any(|(tool, _)| **tool.catalogue_name() == *name);
            is_given || linked_tools_of(name).next().is_some()
        }
        ReferenceKind::Agent => {
            let is_given =
                given(host, |given| &given.agents).iter().any(|(agent, _)| **agent.name() == *name);
            is_given || linked_agents().names().any(|linked| linked == name)
        }
        ReferenceKind::Workflow => {
            let is_given =
                given(host, |given| &given.workflows).iter().any(|(spec, _)| *spec.name == *name);
            #[cfg(feature = "dynamic")]
            let is_given =
                is_given || graphs(host).iter().any(|(graph, _)| graph.graph.name == name);
            is_given || linked().names().any(|linked| linked == name)
        }
    };
    let all = [ReferenceKind::Tool, ReferenceKind::Agent, ReferenceKind::Workflow];
    if is(kind) { None } else { all.into_iter().find(|other| is(*other)) }
}

/// Returns the workflows that were registered as graphs.
#[cfg(feature = "dynamic")]
pub(super) fn graphs(host: &Host) -> RegisteredList<(super::graphs::RegisteredGraph, Origin)> {
    given(host, |given| &given.graphs)
}

/// Checks an answer against the type that the workflow's node requests. Returns `None` if this
/// definition of the workflow is not known.
pub(super) fn checked(
    host: &Host,
    (workflow, definition): (&str, &str),
    node: &str,
    answer: &Encoded,
) -> Option<Result<(), ControlError>> {
    let spec = workflow_spec(host, workflow).ok().filter(|spec| **spec.hash() == *definition)?;
    let node = spec.nodes.iter().find(|of| of.path.to_string() == node)?;
    Some(check_answer(node, answer))
}

impl Runtime {
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
    pub async fn tool(&self, name: &str) -> Result<ToolRef> {
        let given_tools = given(self.host(), |given| &given.tools);
        let mut known = given_tools.to_vec();
        let of_server = of_server(name);
        for (toolset, _) in given(self.host(), |given| &given.toolsets).iter() {
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

    /// Calls a tool by name ([`tool`](Self::tool)) outside of any run. The policy of the tool and
    /// the middleware of the runtime apply, as for a tool call by an agent. The call is granted the
    /// scopes of the runtime and those in `scopes`. Failures of the call, including an unknown
    /// name, are part of the result. The runtime's sinks receive the same events as for a call in a
    /// run, under a separate run id; they are not stored.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the tool.
    ///
    /// # Errors
    /// As [`tool`](Self::tool), except for an unknown name. For an agent that is called as a tool,
    /// the error of an invalid agent.
    #[doc(alias = "execute_tool")]
    #[doc(alias = "execute_tool_stream")]
    pub async fn invoke(&self, call: &ToolCall, scopes: &[Arc<str>]) -> Result<ToolResult> {
        let tool = match self.tool(&call.name).await {
            Ok(tool) => tool,
            Err(Error::Registry(RegistryError::NotFound { registered, .. })) => {
                return Ok(report_unknown_tool(
                    &self.context(),
                    call,
                    registered.iter().map(|name| &**name),
                ));
            }
            Err(error) => return Err(error),
        };
        self.invoke_at(&self.context(), &tool, call, scopes).await
    }

    /// Calls a tool with a context that does not belong to a run.
    #[doc(hidden)]
    pub async fn invoke_at(
        &self,
        cx: &Context,
        tool: &ToolRef,
        call: &ToolCall,
        scopes: &[Arc<str>],
    ) -> Result<ToolResult> {
        let of = ToolHost { host: self.host(), resources: cx.resources() };
        let tool = tool.within(of).unwrap_or_else(|| Ok(tool.clone()))?;
        let granted: Vec<Arc<str>> = cx.grants().iter().chain(scopes).cloned().collect();
        Ok(invoke_with_hooks(&*tool, cx, call, &granted).await)
    }

    /// Returns a workflow by name: registered with the runtime, or linked into the program.
    pub(super) fn workflow_spec(&self, name: &str) -> Result<Arc<Spec>> {
        workflow_spec(self.host(), name)
    }

    /// Does nothing: only graphs refer to toolsets.
    #[cfg(not(feature = "dynamic"))]
    #[allow(clippy::unused_async, reason = "with graphs it waits for servers")]
    pub(super) async fn fetch_toolsets_of(&self, _: &str) -> Result<()> {
        Ok(())
    }

    /// Returns a workflow by name, after fetching the toolsets that it names. A toolset that cannot
    /// be fetched is not an error here: only the nodes that call its tools fail.
    pub(super) async fn fetched_workflow_spec(&self, name: &str) -> Result<Arc<Spec>> {
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
    pub(super) async fn complete_workflow_spec(&self, name: &str) -> Result<Arc<Spec>> {
        self.fetch_toolsets_of(name).await?;
        self.workflow_spec(name)
    }

    /// Returns an agent by name: registered with the runtime, or an `#[agent]` without arguments
    /// that is linked into the program.
    pub(super) fn agent_named(&self, name: &str) -> Result<ErasedAgent> {
        self.agent_asked(name, NO_ARGUMENTS)
    }

    /// Returns an agent by name. An `#[agent]` that is linked into the program receives
    /// `arguments`, which is JSON text.
    pub(super) fn agent_asked(&self, name: &str, arguments: &str) -> Result<ErasedAgent> {
        let given = given(self.host(), |given| &given.agents);
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
    pub(super) fn is_given_agent(&self, name: &str) -> bool {
        given(self.host(), |given| &given.agents).iter().any(|(agent, _)| **agent.name() == *name)
    }

    /// Returns the agent of a run: registered with the runtime, or the `#[agent]` that is linked
    /// into the program.
    pub(super) fn agent_of(&self, run: &RunId, started: &AgentStarted) -> Result<ErasedAgent> {
        let given = given(self.host(), |given| &given.agents);
        let mut found: Vec<(ErasedAgent, Origin)> =
            given.iter().filter(|(agent, _)| **agent.name() == *started.name).cloned().collect();
        let linked = linked_agents();
        let instructions = started.instructions.as_ref().map(|message| message.text());
        match linked.get(&started.name) {
            Ok(Some(linked)) => {
                let agent = linked.resuming(&self.context(), instructions.as_deref());
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
    /// [`catalogue`](Self::catalogue).
    pub fn workflow_graph(&self, name: &str) -> Result<Graph> {
        Ok(Graph::from_plan(&*self.workflow_spec(name)?))
    }
}

/// JSON arguments of an `#[agent]` without parameters.
const NO_ARGUMENTS: &str = "{}";

/// Returns `mcp.SERVER.TOOL` for `SERVER:TOOL`.
pub(super) fn of_server(name: &str) -> Option<String> {
    name.contains(':').then(|| format!("mcp.{}", name.replace(':', ".")))
}

/// Returns the linked tools with a wire name. The list is sorted, so this is a binary search.
pub(super) fn linked_tools_of(name: &str) -> impl Iterator<Item = (ToolRef, Origin)> {
    let tools = linked_tools();
    let from = tools.partition_point(|tool| tool.name() < name);
    let tools = tools[from..].iter().take_while(move |tool| tool.name() == name);
    tools.map(|tool| (tool.clone(), linked_at(tool)))
}

/// Returns the location of a linked tool in the source code.
pub(super) fn linked_at(tool: &ToolRef) -> Origin {
    Origin::Linked(tool.source().unwrap_or_else(|| SourceLocation::new("?", 0)))
}

impl Runtime {
    /// Describes the steps that running a workflow would execute, or else an agent with this name.
    /// Executes nothing. The tools of toolsets that a graph names are fetched.
    ///
    /// # Errors
    /// If no workflow or agent has this name, or more than one has it.
    pub async fn dry_run(&self, name: &str) -> Result<DryRun> {
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
    pub fn agent_outline(&self, name: &str) -> Result<AgentOutline> {
        let given = given(self.host(), |given| &given.agents);
        let of_name = given.iter().filter(|(agent, _)| **agent.name() == *name).cloned();
        if let Some(agent) = only("agent", name, of_name, same_agent)? {
            return Ok(agent.outline());
        }
        let linked = linked_agents();
        let found =
            linked.get(name).map_err(two_linked_agents)?.map(|agent| agent.outline(self.host()));
        found.ok_or_else(|| {
            let known = given.iter().map(|(agent, _)| &**agent.name()).chain(linked.names());
            RegistryError::unknown("agent", name, known).into()
        })
    }
}

impl<In: Inputs, Out: NodeValue> Workflow<In, Out> {
    /// Runs the workflow in memory and returns its output.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the run.
    ///
    /// # Errors
    /// [`Error::Node`] if a step failed after all retries; see [`Error`].
    pub async fn run(&self, runtime: &Runtime, input: impl IntoInputs<In>) -> Result<Out> {
        self.run_in(&runtime.context(), input).await
    }
}
