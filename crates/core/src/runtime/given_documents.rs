//! Workflows that are registered as documents: creates their agents and registers their graphs when
//! the runtime is built.

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject, SubjectKind, sentences};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::text::{OneLine, nearest};
use serde_json::Value;

use super::Runtime;
use super::catalogue::{Given, given, linked_tools_of, of_server};
use super::catalogue_entry::Origin;
use super::given_now::given_now;
use super::graphs::{
    RegisteredGraph, calls_itself, could_have, found, unknown_server, unknown_tool,
};
use super::reference_codes;
use crate::agent::{AgentModels, ErasedAgent, linked_agents};
use crate::document::{Described, Document, DocumentError, DocumentTypes, Source, included};
use crate::error::Error;
use crate::model::{ModelRef, problem_of_provider};
use crate::run::Host;
use crate::tool::{BUILT_IN, IntoTools, ToolList, ToolRef, ToolsetRef, built_in, linked_tools};
use crate::workflow::of_graph::{Resolve, Unresolved};
use crate::workflow::reference_steps::Callee;
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, ReferenceKind};

/// Separator between the name of a document with errors and the errors.
const PROBLEMS: &str = " has problems\n";

/// Shortens the error of a workflow that a node calls. The errors of the workflow's document are
/// reported separately.
pub(super) fn in_short(error: &str) -> &str {
    error.find(PROBLEMS).map_or(error, |at| error[..at + PROBLEMS.len()].trim_end())
}

/// An item that a document with errors describes, and the name of the document.
pub(super) type Unread = (Described, Arc<str>);

/// Returns the items that documents with errors describe.
pub(super) fn unread_of<'e>(errors: impl IntoIterator<Item = &'e DocumentError>) -> Vec<Unread> {
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
pub(super) fn unread(host: &Host, kind: ReferenceKind, name: &str) -> Option<Arc<str>> {
    let unread = given(host, |given| &given.unread);
    let of_name = unread.iter().find(|((of, known), _)| *of == kind && known == name);
    of_name.map(|(_, document)| Arc::clone(document))
}

/// Name and text of a document.
pub(super) type DocumentText = (Arc<str>, Arc<str>);

fn written_in(source: &Source) -> DocumentText {
    (Arc::clone(source.name()), Arc::clone(source.text()))
}

/// Adds the documents of a callee of a graph.
pub(super) fn add_written(host: &Host, callee: &Callee, written: &mut Vec<DocumentText>) {
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
pub(super) struct RegisteredDocument {
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
}

impl RegisteredDocument {
    /// Returns the section of the document with the agent card.
    pub(super) fn card(&self) -> Option<Arc<Value>> {
        self.card.clone()
    }

    /// Returns the error with positions in the document. `graph` are the errors of the graph.
    pub(super) fn error(&self, graph: Vec<Diagnostic>) -> String {
        match self.is_inner {
            true => sentences(&graph),
            false => {
                let error = self.source.error([graph, self.problems.to_vec()].concat());
                format!("its document {}{PROBLEMS}{error}", OneLine(self.source.name()))
            }
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    /// Finds an agent of the document by name.
    ///
    /// # Errors
    /// The problem of its model.
    pub(super) fn own_agent(
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
            Some(problem) => {
                Err(Some(Diagnostic::new(reference_codes::UNUSABLE_MODEL).text("problem", problem)))
            }
            None => Ok(Callee::Agent(agent.clone())),
        })
    }

    /// Returns the name and text of the document.
    pub(super) fn text(&self) -> DocumentText {
        written_in(&self.source)
    }

    /// Returns the workflow, or an error if its types in the program do not match the document.
    pub(super) fn fits_types(
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
fn fits_types(
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
pub(super) fn of_process() -> Given {
    with_documents(Given::default(), included(), &AgentModels::default())
}

/// Registers agents and graphs of the documents. An agent belongs to its document: if another agent
/// has the same name, it is registered with the name of its workflow as prefix, such as
/// `billing.reader`.
pub(super) fn with_documents<'d>(
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
            };
            given.graphs.push((RegisteredGraph::of_document(graph.clone(), part), origin.clone()));
        }
    }
    given
}

/// Problems of a document that a runtime finds.
struct DocumentProblems {
    /// Those of toolsets, agents and models.
    of_names: Vec<Diagnostic>,
    of_graphs: Vec<Diagnostic>,
}

/// Creates the problem of a toolset whose tools cannot be fetched.
fn unavailable(error: &Error) -> Diagnostic {
    Diagnostic::new(reference_codes::TOOLSET_UNAVAILABLE).text("problem", OneLine(error))
}

/// Resolves a name in the tools of an agent: a tool, or a toolset with all its tools.
fn tools_of(given: &Given, name: &str) -> Result<ToolList, Diagnostic> {
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

impl Runtime {
    /// Reads a document like [`Document::read`] and checks it like [`check`](Self::check). If the
    /// document cannot be read, unresolved names of tools, agents and workflows are reported too,
    /// so that all errors are found at once.
    ///
    /// # Errors
    /// All errors, each with its position in the document.
    pub async fn read_document(
        &self,
        name: impl Into<Arc<str>>,
        text: impl Into<Arc<str>>,
    ) -> Result<Document, DocumentError> {
        match Document::read(name, text) {
            Ok(document) => self.check(&document).await.map(|()| document),
            Err(error) => Err(self.check_readable_parts(error).await),
        }
    }

    /// Checks that this runtime can execute a document, which does not have to be registered: that
    /// the tools, agents and workflows that it names exist and accept their inputs. Calls nothing;
    /// the tools of toolsets that it names are fetched.
    ///
    /// # Errors
    /// All errors, each with its position in the document.
    pub async fn check(&self, document: &Document) -> Result<(), DocumentError> {
        let found = self.problems_of(document, false).await;
        let error = document.source().error([found.of_names, found.of_graphs].concat());
        if error.problems().is_empty() { Ok(()) } else { Err(error) }
    }

    /// Returns the problems for [`check`](Self::check).
    async fn problems_of(&self, document: &Document, is_draft: bool) -> DocumentProblems {
        let given = given_now(self.host());
        let mut unfetched = Vec::new();
        let of_graphs = document
            .graphs()
            .flat_map(|graph| super::graphs::toolsets_named(&given.toolsets, graph));
        let mut fetched: Vec<ToolsetRef> = Vec::new();
        for toolset in of_graphs {
            if fetched.iter().any(|other| other.name() == toolset.name()) {
                continue;
            }
            fetched.push(toolset.clone());
            unfetched.extend(toolset.tools().await.err().map(|error| unavailable(&error)));
        }
        let no_models = AgentModels::default();
        let models = self.host().part::<AgentModels>().unwrap_or(&no_models);
        let find = |name: &str| tools_of(&given, name);
        let (agents, problems) = document.build_agents(&|name| models.replacement(name), &find);
        let agents: Vec<ErasedAgent> = agents.into_iter().map(ErasedAgent::new).collect();
        let mut inner: Vec<Arc<Spec>> = Vec::new();
        let mut of_names = [unfetched, problems].concat();
        // An agent whose model is replaced does not need the provider that its document names.
        let named = document.models().filter(|(agent, _)| models.replacement(agent).is_none());
        let named: Vec<_> = named
            .filter_map(|(agent, model)| Some((agent, model.parse::<ModelRef>().ok()?)))
            .collect();
        if !named.is_empty() {
            let providers = self.model_providers().await;
            let known = || providers.iter().map(|provider| &*provider.name);
            for (agent, model) in &named {
                if let Some(problem) = problem_of_provider(model.provider(), known()) {
                    let found =
                        Diagnostic::new(reference_codes::UNUSABLE_MODEL).text("problem", problem);
                    let found = found.name("provider", model.provider());
                    of_names.push(found.of(DiagnosticSubject::new(SubjectKind::Agent, *agent)));
                }
            }
        }
        // A graph may call the graphs before it, so they are resolved in order.
        let mut of_graphs = Vec::new();
        for graph in document.graphs() {
            let resolve =
                |kind, name: &str| self.found_for(&agents, &inner, (kind, name), document);
            let types = document.types().filter(|_| graph.name == document.name());
            let spec = if is_draft { graph.to_draft(&resolve) } else { graph.to_spec(&resolve) };
            match spec.and_then(|spec| fits_types(types, graph, spec, &resolve)) {
                Ok(spec) => inner.push(Arc::new(spec)),
                Err(problems) => {
                    of_graphs.extend(problems.into_iter().map(|of| of.in_graph(&graph.name)));
                }
            }
        }
        DocumentProblems { of_names, of_graphs }
    }

    /// Adds to the errors of an unreadable document the problems that [`check`](Self::check) finds
    /// in its readable parts, and all unresolved names.
    #[doc(hidden)]
    pub async fn check_readable_parts(&self, error: DocumentError) -> DocumentError {
        let checkable = Arc::clone(error.checkable());
        let mut error = error;
        if let Some(draft) = &checkable.draft {
            let found = self.problems_of(draft, true).await;
            error = draft.source().with_those_of_graphs(error, found.of_graphs);
            error = error.with_draft_problems(&draft.source().error(found.of_names), |_| None);
        }
        let given = given_now(self.host());
        let mut more: Vec<Diagnostic> = Vec::new();
        for (toolset, _) in &given.toolsets {
            let Some(first) = checkable.names.iter().find(|of| could_have(toolset, &of.name))
            else {
                continue;
            };
            let Some(problem) = toolset.tools().await.err().map(|error| unavailable(&error)) else {
                continue;
            };
            if !error.problems().iter().any(|known| known.is_same_problem(&problem)) {
                more.push(problem.at(first.at.clone()));
            }
        }
        for of in &checkable.names {
            let is_own =
                |kind| checkable.describes.iter().any(|own| own.0 == kind && own.1 == of.name);
            let unknown = match of.kind {
                Some(ReferenceKind::Workflow) if is_own(ReferenceKind::Workflow) => {
                    Some(calls_itself(&of.name))
                }
                Some(ReferenceKind::Agent) if is_own(ReferenceKind::Agent) => None,
                Some(kind) => found(self.host(), kind, &of.name, &[]).err().flatten(),
                None => tools_of(&given, &of.name).err(),
            };
            let at = match unknown_server(&given, &of.name) {
                // Points at the wrong word, as in the report of a readable document.
                Some((server, _)) => error.word_at(of.server_at.as_ref().unwrap_or(&of.at), server),
                None => of.at.clone(),
            };
            let overlaps = |known: &Range<usize>| known.start < at.end && at.start < known.end;
            let Some(problem) = unknown else { continue };
            let is_known = |known: &Diagnostic| {
                known.is_same_problem(&problem)
                    && (overlaps(&known.span()) || known.subject() == of.by.as_ref())
            };
            if !error.problems().iter().any(is_known) {
                more.push(problem.of(of.by.clone()).at(at));
            }
        }
        error.with(more)
    }

    /// Resolves a name in a document among its own items and the items of this runtime.
    fn found_for(
        &self,
        agents: &[ErasedAgent],
        inner: &[Arc<Spec>],
        (kind, name): (ReferenceKind, &str),
        document: &Document,
    ) -> Result<Callee, Unresolved> {
        let agent = agents
            .iter()
            .find(|agent| **agent.name() == *name)
            .filter(|_| kind == ReferenceKind::Agent);
        let workflow = inner
            .iter()
            .find(|spec| *spec.name == *name)
            .filter(|_| kind == ReferenceKind::Workflow);
        match (agent, workflow) {
            (Some(agent), _) => Ok(Callee::Agent(agent.clone())),
            (None, Some(spec)) => Ok(Callee::Workflow(Arc::clone(spec))),
            (None, None) if kind == ReferenceKind::Workflow && name == document.name() => {
                Err(Some(calls_itself(name)))
            }
            // The errors of this part are reported separately.
            (None, None)
                if kind == ReferenceKind::Workflow
                    && document.inner().iter().any(|of| of.name == name) =>
            {
                Err(None)
            }
            (None, None) => found(self.host(), kind, name, &[document.name()]),
        }
    }
}
