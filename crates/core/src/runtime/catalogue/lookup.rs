//! Lookup of named items of a runtime: tools, toolsets, agents, workflows and schemas, registered
//! or linked into the program. This module finds single items; `listing.rs` lists all of them.

use std::sync::Arc;

#[cfg(feature = "documents")]
use agentflow_schema::text::OneLine;
use agentflow_schema::text::nearest;
use serde_json::Value;

use crate::agent::{ErasedAgent, linked_agents};
use crate::error::{ControlError, Error, RegistryError, Result};
use crate::run::Host;
use crate::runtime::Runtime;
use crate::runtime::catalogue::catalogue_entry::Origin;
#[cfg(feature = "dynamic")]
use crate::runtime::catalogue::registered_items::RegisteredList;
pub(crate) use crate::runtime::catalogue::registered_items::given;
use crate::tool::{SourceLocation, ToolRef, ToolsetRef, linked_tools};
use crate::value::{Encoded, NodeValue};
use crate::workflow::linked_workflow::{linked, two_linked};
use crate::workflow::spec::Spec;
use crate::workflow::{Inputs, IntoInputs, ReferenceKind, Workflow, check_answer};

/// Items that were registered with a runtime, each with its origin, in the order of registration.
#[derive(Clone, Default)]
pub(crate) struct Given {
    pub(crate) tools: Vec<(ToolRef, Origin)>,
    pub(crate) toolsets: Vec<(ToolsetRef, Origin)>,
    pub(crate) agents: Vec<(ErasedAgent, Origin)>,
    pub(crate) workflows: Vec<(Arc<Spec>, Origin)>,
    #[cfg(feature = "dynamic")]
    pub(crate) graphs: Vec<(crate::runtime::catalogue::graphs::RegisteredGraph, Origin)>,
    /// Agents that documents describe, each with its document.
    #[cfg(feature = "documents")]
    pub(crate) written_agents:
        Vec<(ErasedAgent, crate::runtime::documents::registered::DocumentText)>,
    /// Items of documents with errors, each with the name of the document.
    #[cfg(feature = "documents")]
    pub(crate) unread: Vec<crate::runtime::documents::registered::Unread>,
    pub(crate) schemas: Vec<((Arc<str>, Value), Origin)>,
    /// `true` for `cli::run()`, with which a program registers no tools.
    #[cfg(feature = "dynamic")]
    pub(crate) is_linked_alone: bool,
    /// Model providers.
    pub(crate) providers: Vec<(Arc<str>, Origin)>,
}

/// `true` if two workflows with the same name have the same definition.
pub(crate) fn same_workflow(one: &Arc<Spec>, other: &Arc<Spec>) -> bool {
    Arc::ptr_eq(one, other) || one.hash() == other.hash()
}

/// `true` if both are the same agent, or are created from the same `#[agent]` function, perhaps
/// with different options.
pub(crate) fn same_agent(one: &ErasedAgent, other: &ErasedAgent) -> bool {
    match (one.definition(), other.definition()) {
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        _ => one.is(other),
    }
}

/// Returns the error for two items with the same name.
pub(crate) fn taken(what: &'static str, name: &str, first: &Origin, second: &Origin) -> Error {
    let (first, second) = (first.to_string(), second.to_string());
    RegistryError::NameTaken { what, name: name.into(), first, second }.into()
}

/// Returns the only item with a name. Several are allowed if they are the same item.
pub(crate) fn only<T>(
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
pub(crate) fn workflow_spec(host: &Host, name: &str) -> Result<Arc<Spec>> {
    workflow_spec_in(host, name, &[])
}

/// Returns a workflow by name. `within` are the graphs that are being resolved and call it, to
/// detect cycles.
pub(crate) fn workflow_spec_in(host: &Host, name: &str, within: &[&str]) -> Result<Arc<Spec>> {
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
        if let Some(document) =
            crate::runtime::documents::registered::unread(host, ReferenceKind::Workflow, name)
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
pub(crate) fn kind_with_name(
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
pub(crate) fn graphs(
    host: &Host,
) -> RegisteredList<(crate::runtime::catalogue::graphs::RegisteredGraph, Origin)> {
    given(host, |given| &given.graphs)
}

/// Checks an answer against the type that the workflow's node requests. Returns `None` if this
/// definition of the workflow is not known.
pub(crate) fn checked(
    host: &Host,
    (workflow, definition): (&str, &str),
    node: &str,
    answer: &Encoded,
) -> Option<Result<(), ControlError>> {
    let spec = workflow_spec(host, workflow).ok().filter(|spec| spec.has_hash(definition))?;
    let node = spec.nodes.iter().find(|of| of.path.to_string() == node)?;
    Some(check_answer(node, answer))
}

/// Returns `mcp.SERVER.TOOL` for `SERVER:TOOL`.
pub(crate) fn of_server(name: &str) -> Option<String> {
    name.contains(':').then(|| format!("mcp.{}", name.replace(':', ".")))
}

/// Returns the linked tools with a wire name. The list is sorted, so this is a binary search.
pub(crate) fn linked_tools_of(name: &str) -> impl Iterator<Item = (ToolRef, Origin)> {
    let tools = linked_tools();
    let from = tools.partition_point(|tool| tool.name() < name);
    let tools = tools[from..].iter().take_while(move |tool| tool.name() == name);
    tools.map(|tool| (tool.clone(), linked_at(tool)))
}

/// Returns the location of a linked tool in the source code.
pub(crate) fn linked_at(tool: &ToolRef) -> Origin {
    Origin::Linked(tool.source().unwrap_or_else(|| SourceLocation::new("?", 0)))
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
