//! Workflows that are registered as documents: creates their agents and registers their graphs when
//! the runtime is built.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentflow_schema::diagnostic::{Diagnostic, sentences};
use agentflow_schema::text::{OneLine, nearest};
use serde_json::Value;

use crate::agent::{AgentModels, ErasedAgent, linked_agents};
use crate::document::{Described, Document, DocumentError, DocumentTypes, Source, included};
use crate::event::DocumentVersion;
use crate::run::Host;
use crate::runtime::catalogue::catalogue_entry::Origin;
use crate::runtime::catalogue::graphs::{RegisteredGraph, could_have, unknown_tool};
use crate::runtime::catalogue::lookup::{Given, given, linked_tools_of, of_server};
use crate::tool::{BUILT_IN, IntoTools, ToolList, ToolRef, built_in, linked_tools};
use crate::workflow::of_graph::{Resolve, Unresolved};
use crate::workflow::reference_steps::Callee;
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, ReferenceKind};

/// Separator between the name of a document with errors and the errors.
const PROBLEMS: &str = " has problems\n";

/// Shortens the error of a workflow that a node calls. The errors of the workflow's document are
/// reported separately.
pub(crate) fn in_short(error: &str) -> &str {
    error.find(PROBLEMS).map_or(error, |at| error[..at + PROBLEMS.len()].trim_end())
}

/// An item that a document with errors describes, and the name of the document.
pub(crate) type Unread = (Described, Arc<str>);

/// Returns the items that documents with errors describe.
pub(crate) fn unread_of<'e>(errors: impl IntoIterator<Item = &'e DocumentError>) -> Vec<Unread> {
    let of = |error: &DocumentError| {
        let name: Arc<str> = error.name().into();
        let describes = error.checkable().describes.clone();
        describes
            .into_iter()
            .map(move |described| (described, Arc::clone(&name)))
            .collect::<Vec<_>>()
    };
    errors.into_iter().flat_map(of).collect()
}

/// Returns the name of the document with errors that describes the item.
pub(crate) fn unread(host: &Host, kind: ReferenceKind, name: &str) -> Option<Arc<str>> {
    let unread = given(host, |given| &given.unread);
    let of_name = unread.iter().find(|((of, known), _)| *of == kind && known == name);
    of_name.map(|(_, document)| Arc::clone(document))
}

/// Name and text of a document.
pub(crate) type DocumentText = (Arc<str>, Arc<str>);

fn written_in(source: &Source) -> DocumentText {
    (Arc::clone(source.name()), Arc::clone(source.text()))
}

/// Adds the documents of a callee of a graph.
pub(crate) fn add_written(host: &Host, callee: &Callee, written: &mut Vec<DocumentText>) {
    let more = match callee {
        Callee::Workflow(spec) => spec.written.clone(),
        Callee::Agent(agent) => {
            let agents = given(host, |given| &given.written_agents);
            agents
                .iter()
                .filter(|(other, _)| other.is(agent))
                .map(|(_, written)| written.clone())
                .collect()
        }
        _ => return,
    };
    for one in more {
        if !written.contains(&one) {
            written.push(one);
        }
    }
}

/// Data of a document's workflow in addition to its graph.
#[derive(Clone)]
pub(crate) struct RegisteredDocument {
    source: Arc<Source>,
    /// Problems of the names in the document's agents.
    problems: Arc<[Diagnostic]>,
    /// Agents of the document. Its graphs use them before all others.
    agents: Arc<[ErasedAgent]>,
    /// `true` for a part of the document's workflow. The workflow reports its errors.
    is_inner: bool,
    types: Option<DocumentTypes>,
    /// Section with the agent card.
    card: Option<Arc<Value>>,
    /// Its version in the store, for a stored document.
    version: Option<Arc<DocumentVersion>>,
}

impl RegisteredDocument {
    /// Returns the version of a stored document.
    pub(crate) fn version(&self) -> Option<&Arc<DocumentVersion>> {
        self.version.as_ref()
    }

    /// Returns the section of the document with the agent card.
    pub(crate) fn card(&self) -> Option<Arc<Value>> {
        self.card.clone()
    }

    /// Returns the error with positions in the document. `graph` are the errors of the graph.
    pub(crate) fn error(&self, graph: Vec<Diagnostic>) -> String {
        match self.is_inner {
            true => sentences(&graph),
            false => {
                let error = self.source.error([graph, self.problems.to_vec()].concat());
                format!("its document {}{PROBLEMS}{error}", OneLine(self.source.name()))
            }
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    /// Finds an agent of the document by name.
    ///
    /// # Errors
    /// The problem of its model.
    pub(crate) fn own_agent(
        &self,
        host: &Host,
        kind: ReferenceKind,
        name: &str,
    ) -> Option<Result<Callee, Unresolved>> {
        let agent = self
            .agents
            .iter()
            .find(|agent| kind == ReferenceKind::Agent && **agent.name() == *name)?;
        Some(match agent.problem_of_model(host) {
            Some(problem) => Err(Some(problem)),
            None => Ok(Callee::Agent(agent.clone())),
        })
    }

    /// Returns the name and text of the document.
    pub(crate) fn text(&self) -> DocumentText {
        written_in(&self.source)
    }

    /// Returns the workflow, or an error if its types in the program do not match the document.
    pub(crate) fn fits_types(
        &self,
        graph: &Graph,
        spec: Spec,
        resolve: Resolve<'_>,
    ) -> Result<Spec, Vec<Diagnostic>> {
        fits_types(self.types, graph, spec, resolve)
    }
}

/// Returns the workflow of a graph, or an error if the types that the program declares do not match
/// the items that it calls.
pub(crate) fn fits_types(
    types: Option<DocumentTypes>,
    graph: &Graph,
    spec: Spec,
    resolve: Resolve<'_>,
) -> Result<Spec, Vec<Diagnostic>> {
    let Some(types) = types else { return Ok(spec) };
    let typed = types.typed(graph).to_spec(resolve)?;
    let problems = types.misfits(graph, &typed.output_schema());
    if problems.is_empty() { Ok(spec) } else { Err(problems) }
}

/// Returns the items of the default runtime: the documents that are included in the program.
pub(crate) fn of_process() -> Given {
    with_documents(Given::default(), included(), &AgentModels::default())
}

/// Registers agents and graphs of the documents. An agent belongs to its document: if another agent
/// has the same name, it is registered with the name of its workflow as prefix, such as
/// `billing.reader`.
pub(crate) fn with_documents<'d>(
    mut given: Given,
    documents: impl IntoIterator<Item = &'d Document>,
    models: &AgentModels,
) -> Given {
    let documents: Vec<&Document> = documents.into_iter().collect();
    // Names are counted first: an agent whose name occurs more than once gets a prefix in every
    // document.
    let mut described: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for name in given
        .agents
        .iter()
        .map(|(agent, _)| Arc::clone(agent.name()))
        .chain(linked_agents().names().map(Arc::from))
    {
        described.insert(name, 1);
    }
    documents
        .iter()
        .flat_map(|document| document.agents())
        .for_each(|name| *described.entry(name.into()).or_default() += 1);
    for document in documents {
        let origin = Origin::Document { name: Arc::clone(document.source().name()) };
        let (agents, problems) =
            document.build_agents(&|name| models.replacement(name), &|name| tools_of(&given, name));
        let mut own = Vec::new();
        for agent in agents {
            let erased = ErasedAgent::new(agent.clone());
            let known = match described.get(erased.name()) {
                Some(0 | 1) | None => erased.clone(),
                Some(_) => {
                    ErasedAgent::new(agent.name(format!("{}.{}", document.name(), erased.name())))
                }
            };
            // The agent can be found under both names, and its document must be stored in either
            // case.
            given.written_agents.push((erased.clone(), written_in(document.source())));
            if !known.is(&erased) {
                given.written_agents.push((known.clone(), written_in(document.source())));
            }
            given.agents.push((known, origin.clone()));
            own.push(erased);
        }
        let own: Arc<[ErasedAgent]> = own.into();
        let problems: Arc<[Diagnostic]> = problems.into();
        for graph in document.graphs() {
            let is_inner = graph.name != document.name();
            let problems = if is_inner { Arc::default() } else { Arc::clone(&problems) };
            let agents = Arc::clone(&own);
            let types = document.types().filter(|_| !is_inner);
            let card = document.card().filter(|_| !is_inner).cloned().map(Arc::new);
            let part = RegisteredDocument {
                source: Arc::clone(document.source()),
                problems,
                agents,
                is_inner,
                types,
                card,
                version: document.version().filter(|_| !is_inner).cloned(),
            };
            given.graphs.push((RegisteredGraph::of_document(graph.clone(), part), origin.clone()));
        }
    }
    given
}

/// Resolves a name in the tools of an agent: a tool, or a toolset with all its tools.
pub(crate) fn tools_of(given: &Given, name: &str) -> Result<ToolList, Diagnostic> {
    let of_name = |tool: &&ToolRef| **tool.catalogue_name() == *name;
    let of_program = || given.tools.iter().map(|(tool, _)| tool);
    if let Some(tool) = of_program().find(of_name) {
        return Ok(tool.clone().into_tools());
    }
    if let Some(tool) =
        linked_tools_of(name).next().map(|(tool, _)| tool).or_else(|| built_in(name))
    {
        return Ok(tool.into_tools());
    }
    let toolsets = || given.toolsets.iter().map(|(toolset, _)| toolset);
    if let Some(toolset) = toolsets().find(|toolset| **toolset.name() == *name) {
        return Ok(toolset.clone().into_tools());
    }
    if let Some(toolset) = toolsets().find(|toolset| could_have(toolset, name)) {
        let name = of_server(name)
            .filter(|name| toolset.could_have(name))
            .unwrap_or_else(|| name.to_owned());
        return Ok(toolset.only_tool(&name).into_tools());
    }
    let known = of_program()
        .map(|tool| &**tool.catalogue_name())
        .chain(toolsets().map(|toolset| &**toolset.name()));
    let near = nearest(name, known.chain(linked_tools().iter().map(ToolRef::name)).chain(BUILT_IN));
    Err(unknown_tool(given, name, near))
}
