//! What a runtime knows by name: tools, toolsets, agents, workflows and schemas, given to it or linked into the
//! program. It finds one thing by its name; `listing.rs` shows all of them.

use std::sync::Arc;

use agentflow_schema::text::nearest;
use serde_json::Value;

use super::Runtime;
use super::catalogue_entry::Origin;
#[cfg(feature = "dynamic")]
use super::given_now::GivenList;
pub(super) use super::given_now::given;
use crate::agent::{AgentOutline, ErasedAgent, linked_agents, two_linked_agents};
use crate::context::Context;
use crate::dry_run::DryRun;
use crate::error::{ControlError, Error, RegistryError, Result};
use crate::event::{AgentStarted, RunId};
use crate::message::{ToolCall, ToolResult};
use crate::run::Host;
use crate::tool::{
    SourceLocation, ToolHost, ToolRef, ToolsetRef, invoke_hooked, linked_tools, problem_of, told_not_found, wire_name,
};
use crate::value::{Encoded, NodeValue};
use crate::workflow::linked_workflow::{linked, two_linked};
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, Inputs, IntoInputs, ReferenceKind, Workflow, check_answer};

/// What a runtime was given, each with where that was, in the order in which it was given.
#[derive(Clone, Default)]
pub(super) struct Given {
    pub(super) tools: Vec<(ToolRef, Origin)>,
    pub(super) toolsets: Vec<(ToolsetRef, Origin)>,
    pub(super) agents: Vec<(ErasedAgent, Origin)>,
    pub(super) workflows: Vec<(Arc<Spec>, Origin)>,
    #[cfg(feature = "dynamic")]
    pub(super) graphs: Vec<(super::graphs::GivenGraph, Origin)>,
    /// The agents that documents describe, each with what it was read from.
    #[cfg(feature = "documents")]
    pub(super) written_agents: Vec<(ErasedAgent, super::given_documents::WrittenIn)>,
    /// What documents describe that have problems, each with the document's name.
    #[cfg(feature = "documents")]
    pub(super) unread: Vec<super::given_documents::Unread>,
    pub(super) schemas: Vec<((Arc<str>, Value), Origin)>,
    /// True for `cli::run()`, to which a program gives no tools.
    #[cfg(feature = "dynamic")]
    pub(super) is_linked_alone: bool,
    /// The providers of models.
    pub(super) providers: Vec<(Arc<str>, Origin)>,
}

/// Whether two workflows that have one name are one workflow.
pub(super) fn same_workflow(one: &Arc<Spec>, other: &Arc<Spec>) -> bool {
    Arc::ptr_eq(one, other) || one.hash() == other.hash()
}

/// Whether an agent that was given is the `#[agent]` of the same name, perhaps with other options, or the agent that was
/// given before.
pub(super) fn same_agent(one: &ErasedAgent, other: &ErasedAgent) -> bool {
    match (one.definition(), other.definition()) {
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        _ => one.is(other),
    }
}

/// The error of two things that have one name.
pub(super) fn taken(what: &'static str, name: &str, first: &Origin, second: &Origin) -> Error {
    let (first, second) = (first.to_string(), second.to_string());
    RegistryError::NameTaken { what, name: name.into(), first, second }.into()
}

/// The only one of those that have a name: all others must be the same.
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

/// The workflow of a name: one that the host was given, or one that is linked into the program.
pub(super) fn workflow_spec(host: &Host, name: &str) -> Result<Arc<Spec>> {
    workflow_spec_in(host, name, &[])
}

/// The same, when it is called by graphs that are being read.
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
        Ok(Some(linked)) => found.push((linked.spec()?, Origin::Linked(SourceLocation::new(linked.file, linked.line)))),
        // The one that was given says which of them is meant.
        Err(two) if found.is_empty() => return Err(two_linked(two)),
        Ok(None) | Err(_) => {}
    }
    only("workflow", name, found, same_workflow)?.ok_or_else(|| {
        #[cfg(feature = "documents")]
        if let Some(problem) = super::given_documents::unread(host, ReferenceKind::Workflow, name) {
            return Error::Build { what: "workflow", name: name.into(), problem };
        }
        let known = given_workflows.iter().map(|(spec, _)| &*spec.name).chain(linked.names());
        #[cfg(feature = "dynamic")]
        let known = known.chain(graphs.iter().map(|(graph, _)| graph.graph.name.as_str()));
        let other = other_kind(host, ReferenceKind::Workflow, name).map(ReferenceKind::as_str);
        let known: Vec<String> = known.map(ToOwned::to_owned).collect();
        let near = nearest(name, known.iter().map(String::as_str)).map(ToOwned::to_owned);
        Error::UnknownWorkflow { name: name.into(), near, known, other }
    })
}

/// What there is of a name when there is nothing of the kind that was asked for.
pub(super) fn other_kind(host: &Host, kind: ReferenceKind, name: &str) -> Option<ReferenceKind> {
    let is = |of: ReferenceKind| match of {
        ReferenceKind::Tool => {
            let is_given = given(host, |given| &given.tools).iter().any(|(tool, _)| **tool.catalogue_name() == *name);
            is_given || linked_tools_of(name).next().is_some()
        }
        ReferenceKind::Agent => {
            let is_given = given(host, |given| &given.agents).iter().any(|(agent, _)| **agent.name() == *name);
            is_given || linked_agents().names().any(|linked| linked == name)
        }
        ReferenceKind::Workflow => {
            let is_given = given(host, |given| &given.workflows).iter().any(|(spec, _)| *spec.name == *name);
            #[cfg(feature = "dynamic")]
            let is_given = is_given || graphs(host).iter().any(|(graph, _)| graph.graph.name == name);
            is_given || linked().names().any(|linked| linked == name)
        }
    };
    let all = [ReferenceKind::Tool, ReferenceKind::Agent, ReferenceKind::Workflow];
    if is(kind) { None } else { all.into_iter().find(|other| is(*other)) }
}

/// The workflows that were given as graphs.
#[cfg(feature = "dynamic")]
pub(super) fn graphs(host: &Host) -> GivenList<(super::graphs::GivenGraph, Origin)> {
    given(host, |given| &given.graphs)
}

/// Checks an answer by the type that the workflow's node asks for.
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
    /// The tool of a name, such as `add` or `files.read`; also `files:read` and the wire name, `files__read`. `files:read` is
    /// `mcp.files.read` where nothing is called `files.read`. It is one that the runtime was given, that is linked into the
    /// program, or that a toolset of the runtime has: of such a name, the toolset's tools are fetched.
    ///
    /// # Errors
    /// [`RegistryError::NotFound`], which offers the nearest name;
    /// [`RegistryError::NameTaken`] when two tools have this name;
    /// [`RegistryError::InvalidName`], [`RegistryError::NoObjectSchema`] and [`RegistryError::InvalidSchema`] of a tool that
    /// nobody can call;
    /// [`Error::Toolset`] when the tools of its toolset cannot be fetched.
    pub async fn tool(&self, name: &str) -> Result<ToolRef> {
        let given_tools = given(self.host(), |given| &given.tools);
        let mut known = given_tools.to_vec();
        let of_server = of_server(name);
        for (toolset, _) in given(self.host(), |given| &given.toolsets).iter() {
            let of = toolset.name();
            if name.strip_prefix(&**of).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
                || name.strip_prefix(&*wire_name(of)).is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
                || of_server
                    .as_deref()
                    .is_some_and(|name| name.strip_prefix(&**of).is_some_and(|rest| rest.starts_with('.')))
            {
                let origin = Origin::Toolset { name: Arc::clone(of) };
                known.extend(toolset.tools().await?.iter().map(|tool| (tool.clone(), origin.clone())));
            }
        }
        let by = |is: &dyn Fn(&ToolRef) -> bool, name: &str| -> Vec<(ToolRef, Origin)> {
            known.iter().filter(|(tool, _)| is(tool)).cloned().chain(linked_tools_of(name)).collect()
        };
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

    /// Calls a tool by its name ([`tool`](Self::tool)) outside of any run, with everything that its policy says and with the
    /// runtime's middleware around it, as an agent's call has it. It is granted the runtime's scopes and those in
    /// `scopes`. Whatever becomes of the call is in the result, also an unknown name. The runtime's sinks see its events, those
    /// that a run records of a call, under an id of its own; nothing keeps them. Dropping the future cancels the tool.
    ///
    /// # Errors
    /// As [`tool`](Self::tool) says, but for an unknown name; of an agent as a tool, what is wrong with the agent.
    #[doc(alias = "execute_tool")]
    #[doc(alias = "execute_tool_stream")]
    pub async fn invoke(&self, call: &ToolCall, scopes: &[Arc<str>]) -> Result<ToolResult> {
        let tool = match self.tool(&call.name).await {
            Ok(tool) => tool,
            Err(Error::Registry(RegistryError::NotFound { registered, .. })) => {
                return Ok(told_not_found(&self.context(), call, registered.iter().map(|name| &**name)));
            }
            Err(error) => return Err(error),
        };
        self.invoke_at(&self.context(), &tool, call, scopes).await
    }

    /// Calls a tool at a context that belongs to no run.
    pub(crate) async fn invoke_at(
        &self,
        cx: &Context,
        tool: &ToolRef,
        call: &ToolCall,
        scopes: &[Arc<str>],
    ) -> Result<ToolResult> {
        let of = ToolHost { host: self.host(), resources: cx.resources() };
        let tool = tool.within(of).unwrap_or_else(|| Ok(tool.clone()))?;
        let granted: Vec<Arc<str>> = cx.grants().iter().chain(scopes).cloned().collect();
        Ok(invoke_hooked(&*tool, cx, call, &granted).await)
    }

    /// The workflow of a name: one that the runtime was given, or one that is linked into the program.
    pub(super) fn workflow_spec(&self, name: &str) -> Result<Arc<Spec>> {
        workflow_spec(self.host(), name)
    }

    /// Fetches nothing: only graphs name toolsets.
    #[cfg(not(feature = "dynamic"))]
    #[allow(clippy::unused_async, reason = "with graphs it waits for servers")]
    pub(super) async fn fetch_toolsets_of(&self, _: &str) -> Result<()> {
        Ok(())
    }

    /// The same, once the tools of toolsets were fetched that it names, as far as they can be: a node whose tool is not there
    /// fails by itself.
    pub(super) async fn fetched_workflow_spec(&self, name: &str) -> Result<Arc<Spec>> {
        if let Err(error) = self.fetch_toolsets_of(name).await {
            tracing::warn!(workflow = name, %error, "only the nodes fail that call its tools");
        }
        self.workflow_spec(name)
    }

    /// The same, of a run that has begun: the toolsets that it knew are needed, so that it keeps its definition.
    ///
    /// # Errors
    /// [`Error::Toolset`] when one of them cannot be fetched.
    pub(super) async fn complete_workflow_spec(&self, name: &str) -> Result<Arc<Spec>> {
        self.fetch_toolsets_of(name).await?;
        self.workflow_spec(name)
    }

    /// The agent of a name: one that the runtime was given, or the `#[agent]` that is linked into the program, as it is
    /// without arguments.
    pub(super) fn agent_named(&self, name: &str) -> Result<ErasedAgent> {
        self.agent_asked(name, NO_ARGUMENTS)
    }

    /// The same of a name and, where it is linked into the program, with arguments as JSON text.
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

    /// Whether the runtime was given an agent of a name, which counts before a linked one.
    #[cfg(any(feature = "a2a-server", feature = "mcp-server"))]
    pub(super) fn is_given_agent(&self, name: &str) -> bool {
        given(self.host(), |given| &given.agents).iter().any(|(agent, _)| **agent.name() == *name)
    }

    /// The agent of a run: one of its name that the runtime was given, or the `#[agent]` that is linked into the program.
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
            // The one that was given says which of them is meant.
            Err(two) if found.is_empty() => return Err(two_linked_agents(two).into()),
            Ok(None) | Err(_) => {}
        }
        let agent = only("agent", &started.name, found, same_agent)?.ok_or_else(|| {
            let known = given.iter().map(|(agent, _)| &**agent.name()).chain(linked.names());
            let near = nearest(&started.name, known).map(ToOwned::to_owned);
            Error::UnknownAgent { run: run.clone(), agent: Arc::clone(&started.name), near }
        })?;
        // The arguments of the call that it was given with are not those of this run.
        Ok(if agent.definition().is_some() { agent.instructed(instructions.as_deref()) } else { agent })
    }

    /// The description of a workflow that this runtime knows.
    ///
    /// # Errors
    /// When it knows none of this name, or two; also of a graph that names a tool of a toolset, before the toolset's
    /// tools were fetched by starting it or by [`catalogue`](Self::catalogue).
    pub fn workflow_graph(&self, name: &str) -> Result<Graph> {
        Ok(Graph::of(&*self.workflow_spec(name)?))
    }
}

/// The arguments of an `#[agent]` that takes none, as JSON.
const NO_ARGUMENTS: &str = "{}";

/// The name `mcp.SERVER.TOOL` for `SERVER:TOOL`.
pub(super) fn of_server(name: &str) -> Option<String> {
    name.contains(':').then(|| format!("mcp.{}", name.replace(':', ".")))
}

/// The tools of a name that are linked into the program.
pub(super) fn linked_tools_of(name: &str) -> impl Iterator<Item = (ToolRef, Origin)> {
    let tools = linked_tools();
    let from = tools.partition_point(|tool| tool.name() < name);
    let tools = tools[from..].iter().take_while(move |tool| tool.name() == name);
    tools.map(|tool| (tool.clone(), linked_at(tool)))
}

/// Where a linked tool is written.
pub(super) fn linked_at(tool: &ToolRef) -> Origin {
    Origin::Linked(tool.source().unwrap_or_else(|| SourceLocation::new("?", 0)))
}

impl Runtime {
    /// What running the workflow of a name would do, step by step, or else the agent of that name; nothing of it is done.
    /// Tools of toolsets that a graph names are fetched.
    ///
    /// # Errors
    /// When this runtime knows neither, or two of one name.
    pub async fn dry_run(&self, name: &str) -> Result<DryRun> {
        match self.fetched_workflow_spec(name).await {
            Ok(spec) => Ok(spec.dry_run()),
            // What is not a workflow may be an agent.
            Err(unknown @ Error::UnknownWorkflow { .. }) => {
                self.agent_outline(name).map(|agent| agent.dry_run()).map_err(|_| unknown)
            }
            Err(error) => Err(error),
        }
    }

    /// What the agent of a name consists of, with the model that it has in this runtime: an agent that the runtime was
    /// given, or an `#[agent]`.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], which offers the nearest name, or [`RegistryError::NameTaken`] for two of one name.
    pub fn agent_outline(&self, name: &str) -> Result<AgentOutline> {
        let given = given(self.host(), |given| &given.agents);
        let of_name = given.iter().filter(|(agent, _)| **agent.name() == *name).cloned();
        if let Some(agent) = only("agent", name, of_name, same_agent)? {
            return Ok(agent.outline());
        }
        let linked = linked_agents();
        let found = linked.get(name).map_err(two_linked_agents)?.map(|agent| agent.outline(self.host()));
        found.ok_or_else(|| {
            let known = given.iter().map(|(agent, _)| &**agent.name()).chain(linked.names());
            RegistryError::unknown("agent", name, known).into()
        })
    }
}

impl<In: Inputs, Out: NodeValue> Workflow<In, Out> {
    /// Runs the workflow here, kept in memory, to its output. Dropping the future cancels the run.
    ///
    /// # Errors
    /// [`Error::Node`] when a step failed for good; see [`Error`].
    pub async fn run(&self, runtime: &Runtime, input: impl IntoInputs<In>) -> Result<Out> {
        self.run_in(&runtime.context(), input).await
    }
}
