//! Documents that are included in the program at compile time, with the types that the program
//! declares for them.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::sync::OnceLock;

use agentflow_schema::schema::{Assignable, is_assignable_as_stated};
use agentflow_schema::text::nearest;
use serde_json::Value;

use super::document_codes;
use super::{Document, DocumentError};
use crate::workflow::Graph;

/// Types of a document's input and output that the program declares.
#[derive(Clone, Copy)]
pub(crate) struct DocumentTypes {
    /// Inputs with the JSON Schemas of their types.
    pub(crate) inputs: fn() -> Vec<(&'static str, Value)>,
    /// JSON Schema of the output's type.
    pub(crate) output: fn() -> Value,
}

impl DocumentTypes {
    /// Returns the graph with the types of its inputs. Types that the document declares are kept.
    pub(crate) fn typed(self, graph: &Graph) -> Graph {
        let mut graph = graph.clone();
        for (name, schema) in (self.inputs)() {
            let input =
                // The schema `true` is the one of an input without a declared type.
                graph.nodes.iter_mut().find(|node| node.name == name && node.schema.to_value() == Value::Bool(true));
            if let Some(input) = input {
                input.schema = schema.into();
            }
        }
        graph
    }

    /// Returns a problem for each type that does not match the document: its inputs, and its
    /// output, which has this schema.
    pub(crate) fn misfits(self, graph: &Graph, output: &Value) -> Vec<Diagnostic> {
        let mut problems = Vec::new();
        for (name, schema) in (self.inputs)() {
            let asked =
                graph.node(name).map(|node| node.schema.to_value()).unwrap_or(Value::Bool(true));
            if let Assignable::No(places) = is_assignable_as_stated(&schema, &asked) {
                let why: Vec<String> = places.iter().map(ToString::to_string).collect();
                let found = Diagnostic::new(document_codes::INPUT_TYPE).name("input", name);
                problems.push(found.text("problem", why.join("; ")));
            }
        }
        if let Assignable::No(places) = is_assignable_as_stated(output, &(self.output)()) {
            let why: Vec<String> = places.iter().map(ToString::to_string).collect();
            let name = &graph.output;
            let found = Diagnostic::new(document_codes::OUTPUT_TYPE).name("node", name);
            problems.push(found.text("problem", why.join("; ")));
        }
        problems
    }
}

/// A document that is included in the program.
#[derive(Clone, Copy)]
pub struct IncludedDocument {
    pub(crate) name: &'static str,
    text: &'static str,
    types: DocumentTypes,
}

impl IncludedDocument {
    /// Creates an included document. Its problems name `name`.
    pub const fn new(
        name: &'static str,
        text: &'static str,
        inputs: fn() -> Vec<(&'static str, Value)>,
        output: fn() -> Value,
    ) -> Self {
        Self { name, text, types: DocumentTypes { inputs, output } }
    }

    fn read(self) -> Result<Document, DocumentError> {
        let document = Document::read(self.name, self.text)?;
        Ok(Document { types: Some(self.types), ..document })
    }
}

inventory::collect!(IncludedDocument);

/// Returns the included documents, sorted by file name. Each was checked at compile time, so a
/// document that cannot be read comes from another release; it is omitted with a warning.
pub(crate) fn included() -> &'static [Document] {
    static ALL: OnceLock<Vec<Document>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: Vec<&IncludedDocument> =
            inventory::iter::<IncludedDocument>.into_iter().collect();
        all.sort_by_key(|document| document.name);
        let read = all.into_iter().filter_map(|document| {
            document
                .read()
                .map_err(|error| tracing::warn!(%error, "an included document cannot be read"))
                .ok()
        });
        read.collect()
    })
}

/// Checks that a document uses only the tools in `known` and the library's tools. A name with a dot
/// is not checked, since it may be a tool of a toolset.
///
/// # Errors
/// Each unknown tool, with its position.
pub fn unknown_tools(document: &Document, known: &[&str]) -> Result<(), DocumentError> {
    let of_library = crate::tool::BUILT_IN;
    let is_known =
        |name: &&str| known.contains(name) || of_library.contains(name) || name.contains('.');
    let mut found = Vec::new();
    for name in document.tools().into_iter().filter(|name| !is_known(name)) {
        let near = Suggestion::similar(nearest(name, known.iter().copied()));
        found
            .push(Diagnostic::new(document_codes::TOOL_NOT_GIVEN).name("tool", name).suggest(near));
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(document.source.error(found)),
    }
}
