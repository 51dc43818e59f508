//! Workflows as documents: YAML or JSON that is read, checked like code, and executed like any
//! other workflow.
//!
//! [`Document::read`] parses the text to a tree of values with positions, recognizes the
//! [`DocumentForm`] and calls the reader of the form. The reader generates a [`Graph`], inner
//! graphs and agents (`*_document`, `edges_*`). Problems of the text and of the graphs are
//! collected in a [`DocumentError`] with their positions in the text. `export_*` converts a graph
//! back to a document, and `form_schema` describes the forms as JSON Schemas. A runtime that
//! receives a document resolves the names of tools, agents and workflows, and executes the graph.
#![doc = include_str!("../docs/document.md")]

mod agents_document;
mod bound_server;
mod document_agent;
pub(crate) mod document_codes;
mod document_error;
mod document_export;
mod document_folder;
mod document_form;
mod edges_document;
mod edges_node;
mod edges_pool;
mod edges_schema;
mod edges_wiring;
mod excerpt_place;
pub(crate) mod export_codes;
mod export_edges;
mod export_tools;
mod export_tree;
mod export_tree_labels;
mod export_tree_values;
mod export_tree_walk;
mod file_of_values;
mod form_schema;
mod graph_document;
pub(crate) mod included;
mod object_fields;
mod orchestration;
mod plan_schema;
mod schema_keywords;
mod steps_document;
mod template_text;
mod tool_document;
mod tree_document;
mod value_error;
mod written_names;

use agentflow_schema::diagnostic::{Argument, ArgumentKind, Diagnostic};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use agentflow_schema::text::word_in;
use agentflow_schema::text_tree::{self, Tree};
use serde_json::Value;

use self::document_agent::DocumentAgent;
use self::document_error::CheckableParts;
pub use self::document_error::DocumentError;
pub use self::document_export::{ExportError, to_yaml};
pub use self::document_folder::FolderError;
pub use self::document_form::{DocumentForm, UnknownForm};
use self::excerpt_place::place_in;
#[doc(hidden)]
pub use self::file_of_values::{open_values, read_values};
pub(crate) use self::included::{DocumentTypes, included};
use self::object_fields::{Fields, Problems};
pub(crate) use self::written_names::Described;
use crate::agent::Agent;
use crate::definition::hash_of;
use crate::event::DocumentVersion;
use crate::model::{ModelRef, ModelSource};
use crate::text_file;
use crate::tool::ToolList;
use crate::workflow::{Decider, Graph, ReferenceKind, RunLimits};

/// A workflow that was read from a document.
///
/// Reading does all checks that do not depend on the program: the form, the types of values,
/// the names of nodes, cycles. [`Documents::check`](crate::runtime::Documents::check) checks the rest, and
/// [`RuntimeBuilder::document`](crate::runtime::RuntimeBuilder::document) registers the workflow by
/// its name.
///
/// ```
/// use agentflow::document::Document;
///
/// let text = "id: hello\nnodes:\n  - id: greeting\n    tool: greet\n    arg_template: {name: '{name}'}\n";
/// let error = Document::read("hello.yaml", text).unwrap_err();
/// assert_eq!(error.problems()[0].code().name(), "document.unknown-field");
/// assert_eq!(error.problems()[0].message(), "a node has no `arg_template`; did you mean `args_template`?");
/// assert_eq!((error.problems()[0].line(), error.problems()[0].column()), (5, 5));
/// ```
#[derive(Clone)]
#[doc(alias = "WorkflowDefinition")]
pub struct Document {
    source: Arc<Source>,
    form: DocumentForm,
    graph: Graph,
    /// Inner workflows, which only this workflow calls.
    inner: Vec<Graph>,
    agents: Vec<DocumentAgent>,
    card: Option<Value>,
    /// Types of the input and output that the program declares, for an included document.
    types: Option<DocumentTypes>,
    /// Its version in the store, for a stored document.
    version: Option<Arc<DocumentVersion>>,
}

/// The text of a document and the positions of its parts.
pub(crate) struct Source {
    name: Arc<str>,
    text: Arc<str>,
    tree: Tree,
    parts: PartRanges,
    /// Positions of the parts of inner workflows with separate namespaces, by workflow.
    inner_parts: HashMap<String, PartRanges>,
}

/// Byte ranges of the values that nodes and agents were generated from, by name.
type PartRanges = HashMap<String, Range<usize>>;

/// The result of reading a form.
struct DraftedDocument {
    graph: Graph,
    inner: Vec<Graph>,
    agents: Vec<DocumentAgent>,
    parts: PartRanges,
    inner_parts: HashMap<String, PartRanges>,
    card: Option<Value>,
    /// `true` if all nodes and agents could be read, although some may have mistakes.
    is_whole: bool,
}

impl DraftedDocument {
    fn new(graph: Graph, parts: PartRanges) -> Self {
        let inner_parts = HashMap::new();
        Self {
            graph,
            inner: Vec::new(),
            agents: Vec::new(),
            parts,
            inner_parts,
            card: None,
            is_whole: true,
        }
    }
}

impl Document {
    /// Reads the text of a document. Its problems name `name`, for example the file.
    ///
    /// Limits: 4 MiB of text, nesting 64 levels deep, 200,000 values and 16 MiB of strings,
    /// including repeated aliases.
    ///
    /// # Errors
    /// All problems of the document that can be found without a runtime.
    #[doc(alias = "Hydrator")]
    #[doc(alias = "hydrate")]
    pub fn read(
        name: impl Into<Arc<str>>,
        text: impl Into<Arc<str>>,
    ) -> Result<Self, DocumentError> {
        let (name, text) = (name.into(), text.into());
        let failed = |found: Vec<Diagnostic>| DocumentError::new(&name, &text, found);
        let (tree, repeated) = Tree::read_with_repeated(&text).map_err(failed)?;
        let mut problems = Problems::new(&text, repeated);
        let form = match DocumentForm::detect(&tree) {
            Ok(form) => form,
            Err(unknown) => {
                let error = failed([problems.found, vec![unknown]].concat());
                let describes = written_names::described_by(&tree);
                return Err(
                    error.with_checkable(CheckableParts { describes, ..CheckableParts::default() })
                );
            }
        };
        let drafted = match form {
            DocumentForm::Agents => agents_document::read(&tree, &mut problems),
            DocumentForm::Edges => edges_document::read(&tree, &mut problems),
            DocumentForm::Steps => steps_document::read(&tree, &mut problems),
            DocumentForm::Graph => graph_document::read(&tree, &mut problems),
            DocumentForm::Tools => tool_document::read(&tree, &mut problems),
            DocumentForm::Tree => tree_document::read(&tree, &mut problems),
        };
        let error = failed(problems.found);
        let Some(DraftedDocument { graph, inner, agents, parts, inner_parts, card, is_whole }) =
            drafted
        else {
            return Err(error.with_checkable(CheckableParts::new(form, &tree, None)));
        };
        let source = Arc::new(Source { name, text, tree, parts, inner_parts });
        let document =
            Self { source, form, graph, inner, agents, card, types: None, version: None };
        // With two nodes of the same name, a message about one of them would be ambiguous.
        let is_whole =
            is_whole && document.graphs().all(|graph| graph.problems_of_names().is_empty());
        let error = document.with_problems_of_graphs(error, is_whole);
        if error.problems().is_empty() {
            return Ok(document);
        }
        let source = Arc::clone(&document.source);
        Err(error.with_checkable(CheckableParts::new(
            form,
            &source.tree,
            is_whole.then_some(document),
        )))
    }

    /// Adds the problems of the graphs that do not depend on names outside of the document. If
    /// mistakes were found before, they may be the cause of problems of the same node, which are
    /// then omitted. Duplicate names and cycles are reported in any case, even if some nodes could
    /// not be read.
    fn with_problems_of_graphs(&self, error: DocumentError, is_whole: bool) -> DocumentError {
        let source = &self.source;
        let is_draft = !error.problems().is_empty();
        let mut found = Vec::new();
        if is_whole || !is_draft {
            for graph in self.graphs() {
                found.extend(in_graph(graph, graph.problems_but_names(is_draft)));
            }
        }
        if !is_draft {
            return if found.is_empty() { error } else { source.error(found) };
        }
        let error = source.with_those_of_graphs(error, found);
        let mut of_order = Vec::new();
        for graph in self.graphs() {
            of_order.extend(in_graph(graph, graph.problems_of_order()));
        }
        error.with_draft_problems(&source.error(of_order), |_| None)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), and if the file cannot be read, is not UTF-8, or is not
    /// a regular file, such as a pipe.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DocumentError> {
        let path = path.as_ref();
        Self::of_file(path, text_of(path))
    }

    fn of_file(path: &Path, text: std::io::Result<String>) -> Result<Self, DocumentError> {
        let name: Arc<str> = path.display().to_string().into();
        match text {
            Ok(text) => Self::read(name, text),
            Err(error) => Err(unreadable(&name, &error)),
        }
    }

    /// The form of the document.
    pub fn form(&self) -> DocumentForm {
        self.form
    }

    /// The text from which the document was read.
    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.source.text)
    }

    /// The name of the workflow.
    pub fn name(&self) -> &str {
        &self.graph.name
    }

    /// The workflow that the document describes.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The inner workflows, called workflows before their callers: parts of a
    /// [`Tree`](DocumentForm::Tree) that are called as a unit, rounds of agents, and choices from
    /// pools.
    pub fn inner(&self) -> &[Graph] {
        &self.inner
    }

    /// The names of the agents that the document describes.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|agent| &*agent.name)
    }

    /// The agent card for other programs: the field `a2a` of the form
    /// [`Agents`](DocumentForm::Agents), as written.
    pub fn card(&self) -> Option<&Value> {
        self.card.as_ref()
    }

    /// The tools that the document names, sorted and without duplicates: the tools that its nodes call
    /// and the tools of its agents.
    pub fn tools(&self) -> Vec<&str> {
        let calls =
            self.graphs().flat_map(|graph| &graph.nodes).filter_map(|node| node.does.as_ref());
        let deciders = self.graphs().filter_map(|graph| graph.decider.as_ref());
        let calls = calls
            .flat_map(|does| does.callees())
            .chain(deciders.map(|of| (of.kind, of.name.as_str())));
        let calls = calls.filter(|(kind, _)| *kind == ReferenceKind::Tool);
        let of_agents = self.agents.iter().flat_map(|agent| &agent.tools).map(|tool| &**tool);
        let mut tools: Vec<&str> = calls.map(|(_, name)| name).chain(of_agents).collect();
        tools.sort_unstable();
        tools.dedup();
        tools
    }

    /// The version of the document: the SHA-256 of its values as 64 hexadecimal digits. Comments,
    /// layout and the order of fields do not matter.
    pub fn hash(&self) -> Arc<str> {
        hash_of(&self.source.tree.to_json())
    }

    /// Returns the document as a version of a stored document.
    pub(crate) fn with_version(mut self, version: DocumentVersion) -> Self {
        self.version = Some(Arc::new(version));
        self
    }

    /// Returns the version of a stored document.
    pub(crate) fn version(&self) -> Option<&Arc<DocumentVersion>> {
        self.version.as_ref()
    }

    pub(crate) fn types(&self) -> Option<DocumentTypes> {
        self.types
    }

    /// The workflow and the agents that other documents can call.
    pub(crate) fn describes(&self) -> Vec<Described> {
        written_names::described_by(&self.source.tree)
    }

    /// The models of the agents, each with the agent's name.
    pub(crate) fn models(&self) -> impl Iterator<Item = (&str, &str)> {
        self.agents.iter().filter_map(|agent| Some((&*agent.name, agent.model.as_deref()?)))
    }

    /// All workflows, called workflows before their callers.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.inner.iter().chain([&self.graph])
    }

    /// Returns the name of the file or text that the document was read from.
    #[doc(hidden)]
    pub fn source_name(&self) -> &str {
        self.source.name()
    }

    pub(crate) fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Creates the agents. `model` returns a replacement for an agent's model, and `find` resolves
    /// the names of tools. Also returns a problem for each missing item.
    pub(crate) fn build_agents(
        &self,
        model: &dyn Fn(&str) -> Option<ModelSource>,
        find: FindTools<'_>,
    ) -> (Vec<Agent>, Vec<Diagnostic>) {
        let mut problems = Vec::new();
        let made = |agent: &DocumentAgent| agent.made(model(&agent.name), find, &mut problems);
        let agents = self.agents.iter().map(made).collect();
        (agents, problems)
    }
}

/// Resolves a name in an agent's list of tools. The error describes the missing tool.
pub(crate) type FindTools<'a> = &'a dyn Fn(&str) -> Result<ToolList, Diagnostic>;

/// Reads the model of the agents that are generated for nodes.
fn model_of<'t>(fields: &mut Fields<'t>, problems: &mut Problems) -> Option<&'t str> {
    let tree = fields.text("model", problems)?;
    let model = tree.text()?;
    if let Err(error) = model.parse::<ModelRef>() {
        problems.note(&tree.at, error.into());
    }
    Some(model)
}

/// Reads the decider: the name of an agent, or an object with `kind` and `name`.
fn decider_of(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Decider> {
    let tree = fields.get("decider")?;
    match tree.text() {
        Some(name) if name.trim().is_empty() => {
            problems.note(&tree.at, Diagnostic::new(document_codes::EMPTY_DECIDER));
            None
        }
        Some(name) => Some(Decider::agent(name)),
        None => object_fields::read(tree, problems),
    }
}

/// Reads the limits of each run.
fn limits_of(fields: &mut Fields<'_>, problems: &mut Problems) -> RunLimits {
    fields.read("limits", problems).unwrap_or_default()
}

fn unreadable(name: &Arc<str>, error: &std::io::Error) -> DocumentError {
    let found = Diagnostic::new(document_codes::UNREADABLE_FILE).text("problem", error).at(0..0);
    DocumentError::new(name, &"".into(), vec![found])
}

fn text_of(path: &Path) -> std::io::Result<String> {
    text_file::read(path, text_tree::MOST_BYTES)
}

/// Maximum number of problems whose positions are determined. Each can take a search of the whole
/// document.
const MOST_PLACED: usize = 300;

impl Source {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Creates the error of problems, whose positions are determined.
    pub(crate) fn error(&self, found: Vec<Diagnostic>) -> DocumentError {
        let mut seen = HashSet::new();
        let mut distinct = Vec::new();
        for problem in found {
            if seen.insert((problem.location().graph.clone(), problem.message())) {
                distinct.push(problem);
            }
        }
        let more = distinct.len().saturating_sub(MOST_PLACED);
        distinct.truncate(MOST_PLACED);
        let by_place = self.tree.by_place();
        let mut placed = Vec::with_capacity(distinct.len() + 1);
        for problem in distinct {
            let at = self.place(&problem, &by_place);
            placed.push(problem.at(at));
        }
        if more > 0 {
            let end = self.tree.at.end;
            placed.push(
                Diagnostic::new(document_codes::MORE_PROBLEMS).number("count", more).at(end..end),
            );
        }
        DocumentError::new(&self.name, &self.text, placed)
    }

    /// Adds the problems of the graphs that were read despite mistakes.
    pub(crate) fn with_those_of_graphs(
        &self,
        error: DocumentError,
        found: Vec<Diagnostic>,
    ) -> DocumentError {
        // Parts can be nested. The smallest part around a position is relevant.
        let parts =
            || [&self.parts].into_iter().chain(self.inner_parts.values()).flat_map(HashMap::values);
        error.with_draft_problems(&self.error(found), |place| {
            let around = parts().filter(|part| part.start <= place.start && place.end <= part.end);
            around.min_by_key(|part| part.len()).cloned()
        })
    }

    /// Determines the position of a problem from its data: the node, the JSON Pointer, and the
    /// arguments that are written in the document.
    fn place(&self, problem: &Diagnostic, by_place: &HashMap<Range<usize>, &Tree>) -> Range<usize> {
        let location = problem.location();
        if let (None, Some(pointer)) = (&location.node, &location.pointer) {
            return self.tree.at_pointer(pointer).unwrap_or_else(|| self.tree.at.clone());
        }
        let inner = location.graph.as_ref().and_then(|graph| self.inner_parts.get(&**graph));
        let parts = inner.unwrap_or(&self.parts);
        let part = |name: &str| by_place.get(parts.get(name)?).copied();
        let written = WrittenArguments::new(problem);
        let mut found = None;
        for (at, name) in written.names.iter().enumerate() {
            if let Some(part) = part(name)
                && (at == 0 || part.place_of(written.names[0]).is_some())
            {
                found = Some((at, part));
                break;
            }
        }
        let Some((own, part)) = found else {
            let found = written.names.iter().find_map(|name| self.word(&self.tree, name));
            return found.unwrap_or_else(|| self.tree.at.clone());
        };
        if let Some(excerpt) = location.excerpts.first()
            && let Some(place) = part.place_of(&excerpt.text)
        {
            return place_in(&self.text, place, &excerpt.text, excerpt.bytes.clone());
        }
        // An expression or a placeholder is unambiguous.
        for source in &written.sources {
            if let Some(place) = self.word(part, source) {
                return place;
            }
        }
        // A node and its server can have the same name.
        if let Some(server) = problem.argument("server").and_then(Argument::as_str)
            && let Some(place) = written_names::place_of_server(part, server)
                .and_then(|place| self.word_at(place, server))
        {
            return place;
        }
        if let Some(field) = location.pointer.as_ref().and_then(|pointer| part.at_pointer(pointer))
        {
            return field;
        }
        // The wrong word is the last one: the tool `search` has no argument `qeury`.
        for (at, name) in written.names.iter().enumerate().rev() {
            if at == own {
                continue;
            }
            // The name of an MCP tool is split over two fields, the server and the tool.
            let of_server = || {
                let (_, tool) = name.strip_prefix("mcp.")?.rsplit_once('.')?;
                self.word(part, tool)
            };
            if let Some(place) = self.word(part, name).or_else(of_server) {
                return place;
            }
        }
        self.word(part, written.names[own]).unwrap_or_else(|| part.at.clone())
    }

    /// Returns the position of a word in a part, also within a longer text.
    fn word(&self, part: &Tree, word: &str) -> Option<Range<usize>> {
        self.word_at(part.place_of(word)?, word)
    }

    fn word_at(&self, place: Range<usize>, word: &str) -> Option<Range<usize>> {
        let found = self.text.get(place.clone()).and_then(|text| word_in(text, word));
        Some(found.map_or(place.clone(), |at| place.start + at..place.start + at + word.len()))
    }
}

/// Arguments of a problem that are written in the document.
struct WrittenArguments<'d> {
    /// Names, in the order of the sentence.
    names: Vec<&'d str>,
    /// Expressions and placeholders.
    sources: Vec<&'d str>,
}

impl<'d> WrittenArguments<'d> {
    fn new(problem: &'d Diagnostic) -> Self {
        let mut names: Vec<&str> = problem.location().node.as_deref().into_iter().collect();
        if let Some(subject) = problem.subject() {
            names.push(&subject.name);
        }
        let mut sources = Vec::new();
        for argument in problem.arguments() {
            match (argument.kind(), argument.as_str()) {
                (ArgumentKind::Name, Some(name)) => names.push(name),
                (ArgumentKind::Source, Some(source)) => sources.push(source),
                _ => {}
            }
        }
        names.dedup();
        Self { names, sources }
    }
}

/// Sets the graph of problems.
fn in_graph(graph: &Graph, found: Vec<Diagnostic>) -> impl Iterator<Item = Diagnostic> {
    found.into_iter().map(|problem| problem.in_graph(&graph.name))
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Document");
        debug
            .field("source", &self.source.name)
            .field("form", &self.form)
            .field("name", &self.graph.name);
        debug.finish_non_exhaustive()
    }
}
