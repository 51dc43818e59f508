//! `Documents`: reads and checks documents with the items of a runtime. `reload.rs` reloads the
//! documents of folders.

use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject, SubjectKind};

use crate::agent::{AgentModels, ErasedAgent};
use crate::document::{Document, DocumentError};
use crate::model::{ModelRef, problem_of_provider};
use crate::run::Host;
use crate::runtime::Runtime;
use crate::runtime::builder::runtime_builder::set_name_lookups;
use crate::runtime::catalogue::graphs::{
    calls_itself, could_have, found, toolsets_named, unknown_server,
};
use crate::runtime::catalogue::registered_items::{RegisteredItems, given_now};
use crate::runtime::catalogue::unusable_item::unusable;
use crate::runtime::documents::registered::{fits_types, tools_of, unread_of};
use crate::runtime::documents::set::{DocumentSet, models};
use crate::tool::ToolsetRef;
use crate::workflow::ReferenceKind;
use crate::workflow::of_graph::Unresolved;
use crate::workflow::reference_steps::Callee;
use crate::workflow::spec::Spec;

/// Problems of a document that a runtime finds.
struct DocumentProblems {
    /// Problems of toolsets, agents and models.
    of_names: Vec<Diagnostic>,
    of_graphs: Vec<Diagnostic>,
}

/// The documents of a runtime, returned by [`Runtime::documents`].
///
/// # Cancel safety
/// [`read`](Self::read) and [`check`](Self::check) change nothing, so their futures can be dropped
/// at any time.
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to the documents"]
pub struct Documents<'a>(pub(crate) &'a Runtime);

impl Documents<'_> {
    /// Reads a document like [`Document::read`] and checks it like [`check`](Self::check). If the
    /// document cannot be read, unresolved names of tools, agents and workflows are reported too,
    /// so that all errors are found at once.
    ///
    /// # Errors
    /// All errors, each with its position in the document.
    #[doc(alias = "read_document")]
    pub async fn read(
        self,
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
    pub async fn check(self, document: &Document) -> Result<(), DocumentError> {
        let found = self.problems_of(document, false).await;
        let error = document.source().error([found.of_names, found.of_graphs].concat());
        if error.problems().is_empty() { Ok(()) } else { Err(error) }
    }

    /// Returns the problems for [`check`](Self::check).
    async fn problems_of(self, document: &Document, is_draft: bool) -> DocumentProblems {
        let given = given_now(self.0.host());
        let mut unfetched = Vec::new();
        let of_graphs = document.graphs().flat_map(|graph| toolsets_named(&given.toolsets, graph));
        let mut fetched: Vec<ToolsetRef> = Vec::new();
        for toolset in of_graphs {
            if fetched.iter().any(|other| other.name() == toolset.name()) {
                continue;
            }
            fetched.push(toolset.clone());
            unfetched.extend(
                toolset
                    .tools()
                    .await
                    .err()
                    .map(|error| unusable("toolset", toolset.name(), &error)),
            );
        }
        let no_models = AgentModels::default();
        let models = self.0.host().part::<AgentModels>().unwrap_or(&no_models);
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
            let providers = self.0.catalogue().model_providers().await;
            let known = || providers.iter().map(|provider| &*provider.name);
            for (agent, model) in &named {
                if let Some(problem) = problem_of_provider(model.provider(), known()) {
                    of_names.push(problem.of(DiagnosticSubject::new(SubjectKind::Agent, *agent)));
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
    pub async fn check_readable_parts(self, error: DocumentError) -> DocumentError {
        let checkable = Arc::clone(error.checkable());
        let mut error = error;
        if let Some(draft) = &checkable.draft {
            let found = self.problems_of(draft, true).await;
            error = draft.source().with_those_of_graphs(error, found.of_graphs);
            error = error.with_draft_problems(&draft.source().error(found.of_names), |_| None);
        }
        let given = given_now(self.0.host());
        let mut more: Vec<Diagnostic> = Vec::new();
        for (toolset, _) in &given.toolsets {
            let Some(first) = checkable.names.iter().find(|of| could_have(toolset, &of.name))
            else {
                continue;
            };
            let Some(problem) = toolset
                .tools()
                .await
                .err()
                .map(|error| unusable("toolset", toolset.name(), &error))
            else {
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
                Some(kind) => found(self.0.host(), kind, &of.name, &[]).err().flatten(),
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
        self,
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
            (None, None) => found(self.0.host(), kind, name, &[document.name()]),
        }
    }

    /// Returns the runtime with additional documents. `unread` are errors of documents that these
    /// may refer to.
    #[doc(hidden)]
    pub fn with_more<'e>(
        self,
        documents: &[Document],
        unread: impl IntoIterator<Item = &'e DocumentError>,
    ) -> Runtime {
        let mut host = Host::clone(self.0.host());
        DocumentSet::from_host(&host).beside(documents, unread_of(unread)).put_into(&mut host);
        set_name_lookups(&mut host);
        Runtime(Arc::new(host))
    }

    /// Returns the runtime with this document instead of its document with the same name.
    #[doc(hidden)]
    pub fn with_only(self, document: &Document) -> Runtime {
        let mut host = Host::clone(self.0.host());
        let (set, models) = (DocumentSet::from_host(&host), models(self.0.host()));
        let others: Vec<Document> =
            set.all().filter(|other| other.name() != document.name()).collect();
        let given = set.given_with_only(others.iter().chain([document]), models);
        host.set_part(RegisteredItems::new(given));
        Runtime(Arc::new(host))
    }
}
