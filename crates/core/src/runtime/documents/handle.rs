//! `Documents`: reads and checks documents with the items of a runtime. `reload.rs` reloads the
//! documents of folders.

use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::text::OneLine;
use agentflow_schema::text_tree::Misread;

use crate::agent::{AgentModels, ErasedAgent};
use crate::document::{Document, DocumentError, GraphProblems, Problem};
use crate::model::{ModelRef, problem_of_provider};
use crate::run::Host;
use crate::runtime::Runtime;
use crate::runtime::builder::runtime_builder::set_name_lookups;
use crate::runtime::catalogue::graphs::{
    calls_itself, could_have, found, toolsets_named, unknown_server,
};
use crate::runtime::catalogue::registered_items::{RegisteredItems, given_now};
use crate::runtime::documents::registered::{fits_types, tools_of, unread_of};
use crate::runtime::documents::set::{DocumentSet, models};
use crate::tool::ToolsetRef;
use crate::workflow::ReferenceKind;
use crate::workflow::reference_steps::Callee;
use crate::workflow::spec::Spec;

/// The documents of a runtime, returned by [`Runtime::documents`].
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
        let (sentences, of_graphs) = self.problems_of(document, false).await;
        let all = [vec![(String::new(), sentences.join("\n"))], of_graphs].concat();
        let error = document.source().error_of(&all);
        if error.problems().is_empty() { Ok(()) } else { Err(error) }
    }

    /// Returns the problems for [`check`](Self::check): those of toolsets and agents, and those of
    /// graphs.
    async fn problems_of(
        self,
        document: &Document,
        is_draft: bool,
    ) -> (Vec<String>, Vec<GraphProblems>) {
        let given = given_now(self.0.host());
        let mut unfetched = Vec::new();
        let of_graphs = document.graphs().flat_map(|graph| toolsets_named(&given.toolsets, graph));
        let mut fetched: Vec<ToolsetRef> = Vec::new();
        for toolset in of_graphs {
            if fetched.iter().any(|other| other.name() == toolset.name()) {
                continue;
            }
            fetched.push(toolset.clone());
            unfetched.extend(toolset.tools().await.err().map(|error| OneLine(error).to_string()));
        }
        let no_models = AgentModels::default();
        let models = self.0.host().part::<AgentModels>().unwrap_or(&no_models);
        let find = |name: &str| tools_of(&given, name);
        let (agents, problems) = document.build_agents(&|name| models.replacement(name), &find);
        let agents: Vec<ErasedAgent> = agents.into_iter().map(ErasedAgent::new).collect();
        let mut inner: Vec<Arc<Spec>> = Vec::new();
        let mut sentences = [unfetched, problems].concat();
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
                    sentences.push(format!("the agent `{agent}`: {problem}"));
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
                Err(problems) => of_graphs.push((graph.name.clone(), problems)),
            }
        }
        (sentences, of_graphs)
    }

    /// Adds to the errors of an unreadable document the problems that [`check`](Self::check) finds
    /// in its readable parts, and all unresolved names.
    #[doc(hidden)]
    pub async fn check_readable_parts(self, error: DocumentError) -> DocumentError {
        let checkable = Arc::clone(error.checkable());
        let mut error = error;
        if let Some(draft) = &checkable.draft {
            let (of_agents, of_graphs) = self.problems_of(draft, true).await;
            error = draft.source().with_those_of_graphs(error, &of_graphs);
            error =
                error.with_draft_problems(&draft.source().error(&of_agents.join("\n")), |_| None);
        }
        let given = given_now(self.0.host());
        let mut more: Vec<Misread> = Vec::new();
        for (toolset, _) in &given.toolsets {
            let Some(first) = checkable.names.iter().find(|of| could_have(toolset, &of.name))
            else {
                continue;
            };
            let unfetched = toolset.tools().await.err().map(|error| OneLine(error).to_string());
            let unknown = unfetched
                .filter(|said| error.problems().iter().all(|known| known.message != *said));
            more.extend(unknown.map(|said| Misread::new(first.at.clone(), said)));
        }
        for of in &checkable.names {
            let is_own =
                |kind| checkable.describes.iter().any(|own| own.0 == kind && own.1 == of.name);
            let unknown = match of.kind {
                Some(ReferenceKind::Workflow) if is_own(ReferenceKind::Workflow) => {
                    Some(calls_itself(&of.name))
                }
                Some(ReferenceKind::Agent) if is_own(ReferenceKind::Agent) => None,
                Some(kind) => found(self.0.host(), kind, &of.name, &[]).err(),
                None => tools_of(&given, &of.name).err(),
            };
            let at = match unknown_server(&given, &of.name) {
                // Points at the wrong word, as in the report of a readable document.
                Some((server, _)) => error.word_at(of.server_at.as_ref().unwrap_or(&of.at), server),
                None => of.at.clone(),
            };
            let overlaps = |known: &Range<usize>| known.start < at.end && at.start < known.end;
            let is_known = |said: &str| {
                let is_it =
                    |known: &Problem| overlaps(&known.span) && known.message.ends_with(said);
                error
                    .problems()
                    .iter()
                    .any(|known| is_it(known) || known.message == of.sentence(said))
            };
            let unknown = unknown.filter(|said| !is_known(said));
            more.extend(unknown.map(|said| Misread::new(at.clone(), of.sentence(&said))));
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
    ) -> Result<Callee, String> {
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
                Err(calls_itself(name))
            }
            // The errors of this part are reported separately.
            (None, None)
                if kind == ReferenceKind::Workflow
                    && document.inner().iter().any(|of| of.name == name) =>
            {
                Err(String::new())
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
