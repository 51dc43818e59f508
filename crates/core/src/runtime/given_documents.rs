//! Workflows that were given as documents: their agents are made and their graphs known when the runtime is built. It
//! reads no document.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::text::{OneLine, nearest};
use agentflow_schema::text_tree::Misread;
use serde_json::Value;

use super::Runtime;
use super::catalogue::{Given, given, linked_tools_of, of_server};
use super::catalogue_entry::Origin;
use super::given_now::given_now;
use super::graphs::{GivenGraph, calls_itself, could_have, found, unknown_server, unknown_tool};
use crate::agent::{AgentModels, ErasedAgent, linked_agents};
use crate::document::{Described, Document, DocumentError, DocumentTypes, OfGraph, Problem, Source, included};
use crate::model::{ModelRef, problem_of_provider};
use crate::run::Host;
use crate::tool::{BUILT_IN, IntoTools, ToolList, ToolRef, ToolsetRef, built_in, linked_tools};
use crate::workflow::of_graph::Resolve;
use crate::workflow::reference_steps::Callee;
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, ReferenceKind};

/// Between what is said of a document that has problems and these.
const PROBLEMS: &str = " has problems\n";

/// The error of a workflow that a node calls, for the report of the node: that of a document is shown by itself.
pub(super) fn in_short(error: &str) -> &str {
    error.find(PROBLEMS).map_or(error, |at| error[..at + PROBLEMS.len()].trim_end())
}

/// What a document with problems describes, and the document's name.
pub(super) type Unread = (Described, Arc<str>);

/// What documents describe that could not be read.
pub(super) fn unread_of<'e>(errors: impl IntoIterator<Item = &'e DocumentError>) -> Vec<Unread> {
    let of = |error: &DocumentError| {
        let name: Arc<str> = error.name().into();
        let describes = error.checkable().describes.clone();
        describes.into_iter().map(move |described| (described, Arc::clone(&name))).collect::<Vec<_>>()
    };
    errors.into_iter().flat_map(of).collect()
}

/// Why nothing is known of a name: the document that describes it has problems.
pub(super) fn unread(host: &Host, kind: ReferenceKind, name: &str) -> Option<String> {
    let unread = given(host, |given| &given.unread);
    let of_name = unread.iter().find(|((of, known), _)| *of == kind && known == name);
    of_name.map(|(_, document)| format!("its document {} has problems", OneLine(document)))
}

/// A document as it is kept: its name and its text.
pub(super) type WrittenIn = (Arc<str>, Arc<str>);

fn written_in(source: &Source) -> WrittenIn {
    (Arc::clone(source.name()), Arc::clone(source.text()))
}

/// Adds the documents that something was made of which a graph calls.
pub(super) fn add_written(host: &Host, callee: &Callee, written: &mut Vec<WrittenIn>) {
    let more = match callee {
        Callee::Workflow(spec) => spec.written.clone(),
        Callee::Agent(agent) => {
            let agents = given(host, |given| &given.written_agents);
            agents.iter().filter(|(other, _)| other.is(agent)).map(|(_, written)| written.clone()).collect()
        }
        _ => return,
    };
    for one in more {
        if !written.contains(&one) {
            written.push(one);
        }
    }
}

/// What a workflow of a document has beside its graph.
#[derive(Clone)]
pub(super) struct GivenDocument {
    source: Arc<Source>,
    /// What its agents name that is not there, a line each.
    problems: Arc<str>,
    /// Agents of the document. Its graphs find them before all others.
    agents: Arc<[ErasedAgent]>,
    /// Whether it is called by the document's workflow, which shows its problems.
    is_inner: bool,
    types: Option<DocumentTypes>,
    /// The section with its card.
    #[cfg_attr(not(feature = "a2a-server"), allow(dead_code, reason = "only an A2A server reads it"))]
    card: Option<Arc<Value>>,
}

impl GivenDocument {
    /// The section of the document with the card of the workflow.
    #[cfg(feature = "a2a-server")]
    pub(super) fn card(&self) -> Option<Arc<Value>> {
        self.card.clone()
    }

    /// What is wrong, with the places in the document.
    pub(super) fn error(&self, graph: &str) -> String {
        match self.is_inner {
            true => graph.to_owned(),
            false => {
                let error = self.source.error(&format!("{graph}\n{}", self.problems));
                format!("its document {}{PROBLEMS}{error}", OneLine(self.source.name()))
            }
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    /// Finds an agent of the document by its name.
    ///
    /// # Errors
    /// The problem of its model.
    pub(super) fn own_agent(&self, host: &Host, kind: ReferenceKind, name: &str) -> Option<Result<Callee, String>> {
        let agent = self.agents.iter().find(|agent| kind == ReferenceKind::Agent && **agent.name() == *name)?;
        Some(match agent.problem_of_model(host) {
            Some(problem) => Err(problem),
            None => Ok(Callee::Agent(agent.clone())),
        })
    }

    /// The document.
    pub(super) fn text(&self) -> WrittenIn {
        written_in(&self.source)
    }

    /// The workflow, unless its types in the program do not fit the document.
    pub(super) fn fits_types(&self, graph: &Graph, spec: Spec, resolve: Resolve<'_>) -> Result<Spec, String> {
        fits_types(self.types, graph, spec, resolve)
    }
}

/// The workflow of a graph, unless the types that the program says it has do not fit what it calls.
fn fits_types(types: Option<DocumentTypes>, graph: &Graph, spec: Spec, resolve: Resolve<'_>) -> Result<Spec, String> {
    let Some(types) = types else { return Ok(spec) };
    let typed = types.typed(graph).to_spec(resolve)?;
    let problems = types.misfits(graph, &typed.output_schema());
    if problems.is_empty() { Ok(spec) } else { Err(problems.join("\n")) }
}

/// What the runtime of the process knows: the documents that are included in the program.
pub(super) fn of_process() -> Given {
    with_documents(Given::default(), included(), &AgentModels::default())
}

/// Adds agents and graphs of the documents. An agent belongs to its document: if another agent has the same name, the agent is
/// known by the name of its workflow and its own, such as `billing.reader`.
pub(super) fn with_documents<'d>(
    mut given: Given,
    documents: impl IntoIterator<Item = &'d Document>,
    models: &AgentModels,
) -> Given {
    let documents: Vec<&Document> = documents.into_iter().collect();
    let mut described: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for name in
        given.agents.iter().map(|(agent, _)| Arc::clone(agent.name())).chain(linked_agents().names().map(Arc::from))
    {
        described.insert(name, 1);
    }
    documents
        .iter()
        .flat_map(|document| document.agents())
        .for_each(|name| *described.entry(name.into()).or_default() += 1);
    for document in documents {
        let origin = Origin::Document { name: Arc::clone(document.source().name()) };
        let (agents, problems) = document.made_agents(&|name| models.of(name), &|name| tools_of(&given, name));
        let mut own = Vec::new();
        for agent in agents {
            let erased = ErasedAgent::new(agent.clone());
            let known = match described.get(erased.name()) {
                Some(0 | 1) | None => erased.clone(),
                Some(_) => ErasedAgent::new(agent.name(format!("{}.{}", document.name(), erased.name()))),
            };
            given.written_agents.push((erased.clone(), written_in(document.source())));
            if !known.is(&erased) {
                given.written_agents.push((known.clone(), written_in(document.source())));
            }
            given.agents.push((known, origin.clone()));
            own.push(erased);
        }
        let own: Arc<[ErasedAgent]> = own.into();
        let problems: Arc<str> = problems.join("\n").into();
        for graph in document.graphs() {
            let is_inner = graph.name != document.name();
            let problems = if is_inner { "".into() } else { Arc::clone(&problems) };
            let agents = Arc::clone(&own);
            let types = document.types().filter(|_| !is_inner);
            let card = document.card().filter(|_| !is_inner).cloned().map(Arc::new);
            let part = GivenDocument { source: Arc::clone(document.source()), problems, agents, is_inner, types, card };
            given.graphs.push((GivenGraph::of_document(graph.clone(), part), origin.clone()));
        }
    }
    given
}

/// What the name of an agent's tool leads to: a tool, or a toolset with all that it has.
fn tools_of(given: &Given, name: &str) -> Result<ToolList, String> {
    let of_name = |tool: &&ToolRef| **tool.catalogue_name() == *name;
    let of_program = || given.tools.iter().map(|(tool, _)| tool);
    if let Some(tool) = of_program().find(of_name) {
        return Ok(tool.clone().into_tools());
    }
    if let Some(tool) = linked_tools_of(name).next().map(|(tool, _)| tool).or_else(|| built_in(name)) {
        return Ok(tool.into_tools());
    }
    let toolsets = || given.toolsets.iter().map(|(toolset, _)| toolset);
    if let Some(toolset) = toolsets().find(|toolset| **toolset.name() == *name) {
        return Ok(toolset.clone().into_tools());
    }
    if let Some(toolset) = toolsets().find(|toolset| could_have(toolset, name)) {
        let name = of_server(name).filter(|name| toolset.could_have(name)).unwrap_or_else(|| name.to_owned());
        return Ok(toolset.only_tool(&name).into_tools());
    }
    let known = of_program().map(|tool| &**tool.catalogue_name()).chain(toolsets().map(|toolset| &**toolset.name()));
    let near = nearest(name, known.chain(linked_tools().iter().map(ToolRef::name)).chain(BUILT_IN));
    Err(unknown_tool(given, name, near))
}

impl Runtime {
    /// Reads the text of a document as [`Document::read`] does and checks it as [`check`](Self::check) does, so that one pass
    /// has all that is wrong: of a document that cannot be read, also the tools, agents and workflows that are not there.
    ///
    /// # Errors
    /// All problems, each with its place in the document.
    pub async fn read_document(
        &self,
        name: impl Into<Arc<str>>,
        text: impl Into<Arc<str>>,
    ) -> Result<Document, DocumentError> {
        match Document::read(name, text) {
            Ok(document) => self.check(&document).await.map(|()| document),
            Err(error) => Err(self.check_what_was_read(error).await),
        }
    }

    /// Whether this runtime can execute a document, also one that it was not given: whether all tools, agents and workflows
    /// that the document names are there and take what they are given. Nothing is called; tools of toolsets that it names
    /// are fetched.
    ///
    /// # Errors
    /// All problems, each with its place in the document.
    pub async fn check(&self, document: &Document) -> Result<(), DocumentError> {
        let (sentences, of_graphs) = self.problems_of(document, false).await;
        let all = [vec![(String::new(), sentences.join("\n"))], of_graphs].concat();
        let error = document.source().error_of(&all);
        if error.problems().is_empty() { Ok(()) } else { Err(error) }
    }

    /// What [`check`](Self::check) reports: of the toolsets and the agents, and of the graphs.
    async fn problems_of(&self, document: &Document, is_draft: bool) -> (Vec<String>, Vec<OfGraph>) {
        let given = given_now(self.host());
        let mut unfetched = Vec::new();
        let of_graphs = document.graphs().flat_map(|graph| super::graphs::toolsets_named(&given.toolsets, graph));
        let mut fetched: Vec<ToolsetRef> = Vec::new();
        for toolset in of_graphs {
            if fetched.iter().any(|other| other.name() == toolset.name()) {
                continue;
            }
            fetched.push(toolset.clone());
            unfetched.extend(toolset.tools().await.err().map(|error| OneLine(error).to_string()));
        }
        let no_models = AgentModels::default();
        let models = self.host().part::<AgentModels>().unwrap_or(&no_models);
        let find = |name: &str| tools_of(&given, name);
        let (agents, problems) = document.made_agents(&|name| models.of(name), &find);
        let agents: Vec<ErasedAgent> = agents.into_iter().map(ErasedAgent::new).collect();
        let mut inner: Vec<Arc<Spec>> = Vec::new();
        let mut sentences = [unfetched, problems].concat();
        let named = document.models().filter(|(agent, _)| models.of(agent).is_none());
        let named: Vec<_> = named.filter_map(|(agent, model)| Some((agent, model.parse::<ModelRef>().ok()?))).collect();
        if !named.is_empty() {
            let providers = self.model_providers().await;
            let known = || providers.iter().map(|provider| &*provider.name);
            for (agent, model) in &named {
                if let Some(problem) = problem_of_provider(model.provider(), known()) {
                    sentences.push(format!("the agent `{agent}`: {problem}"));
                }
            }
        }
        let mut of_graphs = Vec::new();
        for graph in document.graphs() {
            let resolve = |kind, name: &str| self.found_for(&agents, &inner, (kind, name), document);
            let types = document.types().filter(|_| graph.name == document.name());
            let spec = if is_draft { graph.to_draft(&resolve) } else { graph.to_spec(&resolve) };
            match spec.and_then(|spec| fits_types(types, graph, spec, &resolve)) {
                Ok(spec) => inner.push(Arc::new(spec)),
                Err(problems) => of_graphs.push((graph.name.clone(), problems)),
            }
        }
        (sentences, of_graphs)
    }

    /// The problems of a document that could not be read, with those that [`check`](Self::check) has of what was read of it
    /// and those of all names in it.
    pub(crate) async fn check_what_was_read(&self, error: DocumentError) -> DocumentError {
        let checkable = Arc::clone(error.checkable());
        let mut error = error;
        if let Some(draft) = &checkable.draft {
            let (of_agents, of_graphs) = self.problems_of(draft, true).await;
            error = draft.source().with_those_of_graphs(error, &of_graphs);
            error = error.with_those_of(&draft.source().error(&of_agents.join("\n")), |_| None);
        }
        let given = given_now(self.host());
        let mut more: Vec<Misread> = Vec::new();
        for (toolset, _) in &given.toolsets {
            let Some(first) = checkable.names.iter().find(|of| could_have(toolset, &of.name)) else { continue };
            let unfetched = toolset.tools().await.err().map(|error| OneLine(error).to_string());
            let unknown = unfetched.filter(|said| error.problems().iter().all(|known| known.message != *said));
            more.extend(unknown.map(|said| Misread::new(first.at.clone(), said)));
        }
        for of in &checkable.names {
            let is_own = |kind| checkable.describes.iter().any(|own| own.0 == kind && own.1 == of.name);
            let unknown = match of.kind {
                Some(ReferenceKind::Workflow) if is_own(ReferenceKind::Workflow) => Some(calls_itself(&of.name)),
                Some(ReferenceKind::Agent) if is_own(ReferenceKind::Agent) => None,
                Some(kind) => found(self.host(), kind, &of.name, &[]).err(),
                None => tools_of(&given, &of.name).err(),
            };
            let at = match unknown_server(&given, &of.name) {
                // The word that is wrong, as in the report of a document without mistakes.
                Some((server, _)) => error.word_at(of.server_at.as_ref().unwrap_or(&of.at), server),
                None => of.at.clone(),
            };
            let overlaps = |known: &Range<usize>| known.start < at.end && at.start < known.end;
            let is_known = |said: &str| {
                let is_it = |known: &Problem| overlaps(&known.span) && known.message.ends_with(said);
                error.problems().iter().any(|known| is_it(known) || known.message == of.sentence(said))
            };
            let unknown = unknown.filter(|said| !is_known(said));
            more.extend(unknown.map(|said| Misread::new(at.clone(), of.sentence(&said))));
        }
        error.with(more)
    }

    /// What a name in a document refers to: what the document describes, or what this runtime knows.
    fn found_for(
        &self,
        agents: &[ErasedAgent],
        inner: &[Arc<Spec>],
        (kind, name): (ReferenceKind, &str),
        document: &Document,
    ) -> Result<Callee, String> {
        let agent = agents.iter().find(|agent| **agent.name() == *name).filter(|_| kind == ReferenceKind::Agent);
        let workflow = inner.iter().find(|spec| *spec.name == *name).filter(|_| kind == ReferenceKind::Workflow);
        match (agent, workflow) {
            (Some(agent), _) => Ok(Callee::Agent(agent.clone())),
            (None, Some(spec)) => Ok(Callee::Workflow(Arc::clone(spec))),
            (None, None) if kind == ReferenceKind::Workflow && name == document.name() => Err(calls_itself(name)),
            // What is wrong with it is said by itself.
            (None, None) if kind == ReferenceKind::Workflow && document.inner().iter().any(|of| of.name == name) => {
                Err(String::new())
            }
            (None, None) => found(self.host(), kind, name, &[document.name()]),
        }
    }
}
