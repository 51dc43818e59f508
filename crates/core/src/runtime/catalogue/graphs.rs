//! Workflows that are registered as graphs: resolves the names in them among all items of the
//! runtime. A graph is resolved when its workflow is first used, and again when the tools of a
//! toolset that it names have changed.

use agentflow_schema::diagnostic::{Argument, ArgumentKind, Diagnostic, Suggestion, sentences};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "documents")]
use agentflow_schema::text::OneLine;
use agentflow_schema::text::nearest;
use futures_util::future::join_all;
use serde_json::Value;

use crate::agent::{linked_agents, two_linked_agents};
use crate::error::{Error, Result};
use crate::run::Host;
use crate::runtime::catalogue::catalogue_entry::Origin;
use crate::runtime::catalogue::lookup::{
    Given, given, graphs, kind_with_name, linked_tools_of, of_server, only, workflow_spec_in,
};
use crate::runtime::catalogue::name_arguments::{RuntimeParts, ToolAddresses};
use crate::runtime::catalogue::reader::CatalogueReader;
use crate::runtime::catalogue::registered_items::given_now;
use crate::runtime::catalogue::registered_items::is_unknown;
use crate::runtime::catalogue::unusable_item::{unregistered, unusable};
#[cfg(feature = "documents")]
use crate::runtime::documents::registered::{add_written, in_short};
use crate::runtime::reference_codes;
use crate::tool::{ToolDefinition, ToolRef, ToolsetRef, linked_tools, problem_of};
use crate::workflow::of_graph::{Resolve, Unresolved};
use crate::workflow::reference_steps::Callee;
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, ReferenceKind};

/// A graph that is registered with a runtime.
#[derive(Clone)]
pub(crate) struct RegisteredGraph {
    pub(crate) graph: Arc<Graph>,
    /// Error if the graph could not be created.
    problem: Option<Arc<str>>,
    /// The document from which the graph was read.
    #[cfg(feature = "documents")]
    document: Option<crate::runtime::documents::registered::RegisteredDocument>,
    /// The resolved workflow, after its first use.
    last: Arc<Mutex<Option<ResolvedGraph>>>,
}

/// A resolved graph.
struct ResolvedGraph {
    spec: Arc<Spec>,
    /// The toolsets that it names, each with the tools at that time.
    toolsets: Vec<(ToolsetRef, Option<Arc<[ToolRef]>>)>,
}

impl ResolvedGraph {
    fn is_current(&self) -> bool {
        self.toolsets.iter().all(|(toolset, tools)| match (tools, toolset.last_fetched()) {
            (Some(tools), Some(now)) => Arc::ptr_eq(tools, &now),
            (tools, now) => tools.is_none() && now.is_none(),
        })
    }
}

/// The reason that a graph cannot be executed.
enum UnresolvedGraph {
    /// The report of the document or the pipeline that describes the graph.
    Unmade(Arc<str>),
    /// Problems of the graph itself.
    Problems(Vec<Diagnostic>),
}

impl fmt::Display for UnresolvedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmade(report) => f.write_str(report),
            Self::Problems(problems) => f.write_str(&sentences(problems)),
        }
    }
}

impl RegisteredGraph {
    pub(crate) fn new(graph: Graph) -> Self {
        Self {
            graph: Arc::new(graph),
            problem: None,
            #[cfg(feature = "documents")]
            document: None,
            last: Arc::default(),
        }
    }

    #[cfg(feature = "documents")]
    pub(crate) fn of_document(
        graph: Graph,
        document: crate::runtime::documents::registered::RegisteredDocument,
    ) -> Self {
        Self { document: Some(document), ..Self::new(graph) }
    }

    /// Returns a copy that will be resolved again, because its names may refer to other items now.
    pub(crate) fn unread(&self) -> Self {
        Self { last: Arc::default(), ..self.clone() }
    }

    /// Creates a placeholder for a workflow whose graph cannot be created.
    pub(crate) fn unmade(name: &str, problem: &str) -> Self {
        Self { problem: Some(problem.into()), ..Self::new(Graph::new(name, "")) }
    }

    /// Resolves the graph to the form that is executed.
    fn read(&self, resolve: Resolve<'_>) -> std::result::Result<Spec, UnresolvedGraph> {
        if let Some(problem) = &self.problem {
            return Err(UnresolvedGraph::Unmade(Arc::clone(problem)));
        }
        let spec = self.graph.to_spec(resolve);
        #[cfg(feature = "documents")]
        let spec = match &self.document {
            Some(document) => spec.and_then(|spec| document.fits_types(&self.graph, spec, resolve)),
            None => spec,
        };
        #[cfg(feature = "documents")]
        if let Some(document) =
            self.document.as_ref().filter(|document| spec.is_err() || !document.is_whole())
        {
            let report = document.error(spec.err().unwrap_or_default());
            return Err(UnresolvedGraph::Unmade(report.into()));
        }
        spec.map_err(UnresolvedGraph::Problems)
    }

    /// Returns the resolved workflow. `moment` is the snapshot of registered items from which this
    /// graph was taken. `within` are the graphs that are being resolved and call this one.
    pub(crate) fn spec(
        &self,
        host: &Host,
        moment: &Arc<Given>,
        within: &[&str],
    ) -> Result<Arc<Spec>> {
        if let Some(read) = self.last().as_ref().filter(|read| read.is_current()) {
            return Ok(Arc::clone(&read.spec));
        }
        let name = self.graph.name.as_str();
        let problem = |problem| Error::Build { what: "workflow", name: name.into(), problem };
        // A cycle of workflows would never end.
        if within.contains(&name) {
            let way: Vec<&str> = within.iter().copied().chain([name]).collect();
            return Err(problem(cycle_message(&way)));
        }
        #[cfg(feature = "documents")]
        let still = crate::runtime::catalogue::registered_items::fixed_to_snapshot(host, moment)
            .filter(|_| within.is_empty());
        #[cfg(feature = "documents")]
        let host = still.as_ref().unwrap_or(host);
        #[cfg(not(feature = "documents"))]
        let _ = moment;
        let within: Vec<&str> = within.iter().copied().chain([name]).collect();
        // Taken before the names are resolved, so that a change in between is noticed next time.
        let toolsets = toolsets_of(host, &self.graph);
        let toolsets =
            toolsets.into_iter().map(|toolset| (toolset.clone(), toolset.last_fetched())).collect();
        #[cfg(feature = "documents")]
        let written =
            std::cell::RefCell::new(self.document.iter().map(|document| document.text()).collect());
        let resolve = |kind, name: &str| {
            #[cfg(feature = "documents")]
            let own =
                self.document.as_ref().and_then(|document| document.own_agent(host, kind, name));
            #[cfg(not(feature = "documents"))]
            let own = None;
            let callee = own.unwrap_or_else(|| found(host, kind, name, &within));
            #[cfg(feature = "documents")]
            callee.iter().for_each(|callee| add_written(host, callee, &mut written.borrow_mut()));
            callee
        };
        #[allow(unused_mut, reason = "without documents nothing is added")]
        let mut spec = self.read(&resolve).map_err(|unresolved| problem(unresolved.to_string()))?;
        #[cfg(feature = "documents")]
        {
            spec.written = written.into_inner();
            spec.document = self.document.as_ref().and_then(|document| document.version().cloned());
        }
        let spec = Arc::new(spec);
        let mut last = self.last();
        // Another thread may have resolved the graph at the same time, with an equal result.
        if let Some(read) = last.as_ref().filter(|read| read.is_current()) {
            return Ok(Arc::clone(&read.spec));
        }
        *last = Some(ResolvedGraph { spec: Arc::clone(&spec), toolsets });
        Ok(spec)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<ResolvedGraph>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CatalogueReader<'_> {
    /// Fetches the tools of the toolsets that a workflow of a graph, and the workflows that it
    /// calls, refer to. They are fetched concurrently, so that resolving the graph does not call a
    /// server. Nodes whose tool cannot be fetched try again when they run. Toolsets whose state is
    /// unknown to this runtime are skipped.
    ///
    /// # Errors
    /// The first [`Error::Toolset`] if toolsets cannot be fetched. The graph can be resolved
    /// nevertheless.
    #[doc(hidden)]
    pub async fn fetch_toolsets_of(self, workflow: &str) -> Result<()> {
        let host = self.0.host();
        if given(host, |given| &given.toolsets).is_empty() {
            return Ok(());
        }
        let mut toolsets = Vec::new();
        for (graph, _) in graphs(host).iter().filter(|(graph, _)| graph.graph.name == workflow) {
            toolsets.extend(toolsets_of(host, &graph.graph));
        }
        toolsets.retain(|toolset| !is_unknown(host, toolset));
        for fetched in join_all(toolsets.iter().map(ToolsetRef::tools)).await {
            fetched?;
        }
        Ok(())
    }

    #[cfg(feature = "documents")]
    /// Returns the section of a document with the agent card of its workflow.
    #[doc(hidden)]
    pub fn card_section(self, workflow: &str) -> Option<Arc<Value>> {
        let graphs = graphs(self.0.host());
        let found = graphs.iter().find(|(graph, _)| graph.graph.name == workflow);
        found.and_then(|(graph, _)| graph.document.as_ref()?.card())
    }

    /// Returns a registered graph by name.
    #[doc(hidden)]
    pub fn given_graph(self, name: &str) -> Option<Arc<Graph>> {
        let graphs = graphs(self.0.host());
        let found =
            graphs.iter().find(|(graph, _)| graph.graph.name == name && graph.problem.is_none());
        found.map(|(graph, _)| Arc::clone(&graph.graph))
    }

    /// Returns the graphs that a graph calls and whose names start with its name, such as the parts
    /// of a pipeline.
    #[doc(hidden)]
    pub fn graphs_within(self, graph: &Graph) -> Vec<Graph> {
        let (mut found, mut seen, mut open) =
            (Vec::new(), BTreeSet::new(), vec![Arc::new(graph.clone())]);
        while let Some(of) = open.pop() {
            let calls = of
                .nodes
                .iter()
                .filter_map(|node| node.does.as_ref())
                .flat_map(|does| does.callees());
            for (_, name) in calls.filter(|(kind, _)| *kind == ReferenceKind::Workflow) {
                let is_part =
                    name.strip_prefix(&*graph.name).is_some_and(|rest| rest.starts_with('.'));
                if is_part && seen.insert(name.to_owned()) {
                    open.extend(self.given_graph(name));
                }
            }
            found.push(Graph::clone(&of));
        }
        found.split_off(1)
    }
}

/// Returns the toolsets that a graph refers to, including the graphs that it calls.
fn toolsets_of(host: &Host, graph: &Graph) -> Vec<ToolsetRef> {
    named_among(&given(host, |given| &given.toolsets), &graphs(host), graph)
}

/// Returns those of `all` toolsets that an unregistered graph refers to.
#[cfg(feature = "documents")]
pub(crate) fn toolsets_named(all: &[(ToolsetRef, Origin)], graph: &Graph) -> Vec<ToolsetRef> {
    named_among(all, &[], graph)
}

fn named_among(
    all: &[(ToolsetRef, Origin)],
    graphs: &[(RegisteredGraph, Origin)],
    graph: &Graph,
) -> Vec<ToolsetRef> {
    if all.is_empty() {
        return Vec::new();
    }
    let (mut tools, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![graph]);
    while let Some(graph) = open.pop() {
        if !seen.insert(graph.name.as_str()) {
            continue;
        }
        let of_nodes = graph
            .nodes
            .iter()
            .filter_map(|node| node.does.as_ref())
            .flat_map(|does| does.callees());
        for (kind, name) in
            of_nodes.chain(graph.decider.iter().map(|of| (of.kind, of.name.as_str())))
        {
            match kind {
                ReferenceKind::Tool => drop(tools.insert(name)),
                ReferenceKind::Workflow => {
                    let called = graphs.iter().filter(|(graph, _)| graph.graph.name == name);
                    open.extend(called.map(|(graph, _)| &*graph.graph));
                }
                ReferenceKind::Agent => {}
            }
        }
    }
    let is_named = |toolset: &ToolsetRef| tools.iter().any(|tool| could_have(toolset, tool));
    all.iter().map(|(toolset, _)| toolset).filter(|toolset| is_named(toolset)).cloned().collect()
}

#[cfg(not(feature = "documents"))]
fn in_short(error: &str) -> &str {
    error
}

/// Returns the message for a workflow that calls itself, directly or indirectly.
fn cycle_message(way: &[&str]) -> String {
    let way: Vec<String> = way.iter().map(|name| format!("`{name}`")).collect();
    format!("it calls itself: {}", way.join(" calls "))
}

/// Returns the error of a workflow that calls itself, for the report of its caller.
#[cfg(feature = "documents")]
pub(crate) fn calls_itself(name: &str) -> Diagnostic {
    let way = cycle_message(&[name, name]);
    Diagnostic::new(reference_codes::CALLS_ITSELF).name("workflow", name).text("way", way)
}

/// Resolves a name in a graph.
pub(crate) fn found(
    host: &Host,
    kind: ReferenceKind,
    name: &str,
    within: &[&str],
) -> std::result::Result<Callee, Unresolved> {
    let found = match kind {
        ReferenceKind::Tool => tool(host, name),
        ReferenceKind::Agent => agent(host, name),
        ReferenceKind::Workflow => {
            let found = workflow_spec_in(host, name, within).map(Callee::Workflow);
            found.map_err(|error| match error {
                Error::Build { what, name, problem } => {
                    let found =
                        Diagnostic::new(reference_codes::CANNOT_BE_BUILT).text("kind", what);
                    found.absent("name", name).text("problem", in_short(&problem))
                }
                error => unusable("workflow", name, &error),
            })
        }
    };
    found.map_err(|problem| match kind_with_name(host, kind, name) {
        Some(other) => {
            let (kind, other) = (kind.as_str(), other.as_str());
            let found = Diagnostic::new(reference_codes::OTHER_KIND).text("kind", kind);
            Some(found.name("name", name).text("other", other))
        }
        None => {
            let is_name = |argument: &Argument| argument.kind() == ArgumentKind::Name;
            // The problem of another item does not name this one.
            Some(match problem.arguments().iter().any(is_name) {
                true => problem,
                false => problem.name("callee", name),
            })
        }
    })
}

/// `true` if a toolset may contain a tool with this name, or with the name `SERVER:TOOL`.
pub(crate) fn could_have(toolset: &ToolsetRef, name: &str) -> bool {
    toolset.could_have(name) || of_server(name).is_some_and(|name| toolset.could_have(&name))
}

fn tool(host: &Host, name: &str) -> std::result::Result<Callee, Diagnostic> {
    for addresses in inventory::iter::<ToolAddresses> {
        if let Some(tool) = (addresses.tool)(RuntimeParts(host), name) {
            return tool.map(Callee::Tool).map_err(|error| {
                let found = Diagnostic::new(reference_codes::UNUSABLE_ITEM).text("kind", "tool");
                found.absent("name", name).text("problem", error)
            });
        }
    }
    let mut known: Vec<(Callee, ToolRef, Origin)> = Vec::new();
    let mut unavailable = None;
    let tools = given(host, |given| &given.tools);
    let of_program = tools.iter().cloned().chain(linked_tools_of(name));
    known.extend(of_program.map(|(tool, origin)| (Callee::Tool(tool.clone()), tool, origin)));
    // This function does not wait, so a toolset counts only if its tools were fetched before.
    for (toolset, _) in
        given(host, |given| &given.toolsets).iter().filter(|(toolset, _)| could_have(toolset, name))
    {
        let is_unknown = is_unknown(host, toolset);
        let Some(tools) = toolset.last_fetched().filter(|_| !is_unknown) else {
            if is_unknown || toolset.is_unavailable() {
                let whole = of_server(name).filter(|whole| toolset.could_have(whole));
                unavailable = Some((toolset.clone(), whole.unwrap_or_else(|| name.to_owned())));
                continue;
            }
            let found = Diagnostic::new(reference_codes::TOOLS_NOT_FETCHED)
                .absent("toolset", toolset.name());
            return Err(found.name("tool", name));
        };
        let origin = Origin::Toolset { name: Arc::clone(toolset.name()) };
        let of_toolset = |tool: &ToolRef| {
            (Callee::Fetched(toolset.clone(), tool.clone()), tool.clone(), origin.clone())
        };
        known.extend(tools.iter().map(of_toolset));
    }
    let is_known = |name: &str| known.iter().any(|(_, tool, _)| **tool.catalogue_name() == *name);
    // `SERVER:TOOL` is an alias, used only if no tool has the literal name.
    let whole = of_server(name).filter(|whole| !is_known(name) && is_known(whole));
    let name = whole.as_deref().unwrap_or(name);
    let of_name = known.iter().filter(|(_, tool, _)| **tool.catalogue_name() == *name);
    let of_name = of_name.map(|(callee, tool, origin)| ((callee, tool), origin.clone()));
    let found = only("tool", name, of_name, |(_, one), (_, other)| one.is(other))
        .map_err(|error| unusable("tool", name, &error))?;
    let problem = |tool: &ToolRef| {
        problem_of(tool)
            .or_else(|| crate::runtime::execution::compensate_run::problem_in(host, tool))
    };
    if let Some(problem) = found.and_then(|(_, tool)| problem(tool)) {
        return Err(unregistered(&problem));
    }
    // The tool may exist in an unavailable toolset. The node fetches it when it runs.
    if let (None, Some((toolset, name))) = (&found, unavailable) {
        let definition = ToolDefinition::new(name, "", Value::Bool(true));
        return Ok(Callee::Unfetched(toolset, Arc::new(definition)));
    }
    found.map(|(callee, _)| callee.clone()).ok_or_else(|| {
        let linked = linked_tools().iter().map(ToolRef::name);
        let near =
            nearest(name, known.iter().map(|(_, tool, _)| &**tool.catalogue_name()).chain(linked));
        unknown_tool(&given_now(host), name, near)
    })
}

/// Returns the server in the name of a tool if the runtime has no such server, with a hint to the
/// most similar name.
pub(crate) fn unknown_server<'n>(
    given: &Given,
    name: &'n str,
) -> Option<(&'n str, Option<Suggestion>)> {
    let tool = name.strip_prefix("mcp.")?;
    let server = tool.split_once('.').map_or(tool, |(server, _)| server);
    let servers =
        || given.toolsets.iter().filter_map(|(toolset, _)| toolset.name().strip_prefix("mcp."));
    let is_unknown = servers().all(|known| known != server);
    is_unknown.then(|| (server, Suggestion::similar(nearest(server, servers()))))
}

/// Returns the problem of an unknown tool, with the most similar name. The prefix `a2a.` means an
/// agent.
pub(crate) fn unknown_tool(given: &Given, name: &str, near: Option<&str>) -> Diagnostic {
    if let Some((server, hint)) = unknown_server(given, name) {
        let found = Diagnostic::new(reference_codes::UNKNOWN_SERVER).name("tool", name);
        return found.name("server", server).remedy_after(hint);
    }
    let near = Suggestion::similar(near);
    match name.strip_prefix("a2a.") {
        // With the feature, this name is resolved before.
        Some(endpoint) if endpoint.contains("://") => {
            Diagnostic::new(reference_codes::A2A_FEATURE_MISSING).name("endpoint", endpoint)
        }
        Some(agent) => Diagnostic::new(reference_codes::UNKNOWN_A2A_AGENT)
            .name("agent", agent)
            .remedy_after(near),
        None if given.is_linked_alone && near.is_none() => {
            Diagnostic::new(reference_codes::UNKNOWN_TOOL_OF_LINKED).name("tool", name)
        }
        None => Diagnostic::new(reference_codes::UNKNOWN_TOOL).name("tool", name).suggest(near),
    }
}

fn agent(host: &Host, name: &str) -> std::result::Result<Callee, Diagnostic> {
    let given = given(host, |given| &given.agents);
    let of_name = given.iter().filter(|(agent, _)| **agent.name() == *name).cloned();
    let same = crate::runtime::catalogue::lookup::same_agent;
    let unusable_agent = |error: Error| unusable("agent", name, &error);
    let found = only("agent", name, of_name, same).map_err(unusable_agent)?;
    if let Some(agent) = found {
        return match agent.problem_of_model(host) {
            Some(problem) => Err(problem),
            None => Ok(Callee::Agent(agent)),
        };
    }
    let linked = linked_agents();
    if let Some(agent) = linked.get(name).map_err(|two| unregistered(&two_linked_agents(two)))? {
        agent.input_schema().map_err(unusable_agent)?;
        return Ok(Callee::LinkedAgent(agent));
    }
    #[cfg(feature = "documents")]
    if let Some(document) =
        crate::runtime::documents::registered::unread(host, ReferenceKind::Agent, name)
    {
        let found = Diagnostic::new(reference_codes::AGENT_OF_INVALID_DOCUMENT).name("agent", name);
        return Err(found.text("document", OneLine(document)));
    }
    let known = || given.iter().map(|(agent, _)| &**agent.name()).chain(linked.names());
    // Agents of documents are named `WORKFLOW.NAME` if several documents have an agent of this
    // name.
    let of_document =
        |known: &&str| known.strip_suffix(name).is_some_and(|workflow| workflow.ends_with('.'));
    let near = known().find(of_document).or_else(|| nearest(name, known()));
    let found = Diagnostic::new(reference_codes::UNKNOWN_AGENT).name("agent", name);
    Err(found.suggest(Suggestion::similar(near)))
}
