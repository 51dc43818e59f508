//! Documents that are included in the program when it is compiled, with the types that the program says they have. It
//! reads each once and executes none.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::sync::OnceLock;

use agentflow_schema::schema::{Assignable, is_assignable_as_stated};
use agentflow_schema::text::{did_you_mean, nearest};
use serde_json::Value;

use super::{Document, DocumentError};
use crate::workflow::Graph;

/// What a program says of the input and output of a document.
#[derive(Clone, Copy)]
pub(crate) struct DocumentTypes {
    /// The inputs, each with the JSON Schema of its type.
    pub(crate) inputs: fn() -> Vec<(&'static str, Value)>,
    /// The JSON Schema of the output's type.
    pub(crate) output: fn() -> Value,
}

impl DocumentTypes {
    /// The graph with the types of its inputs, where the document says nothing of them.
    pub(crate) fn typed(self, graph: &Graph) -> Graph {
        let mut graph = graph.clone();
        for (name, schema) in (self.inputs)() {
            let input =
                graph.nodes.iter_mut().find(|node| node.name == name && node.schema.to_value() == Value::Bool(true));
            if let Some(input) = input {
                input.schema = schema.into();
            }
        }
        graph
    }

    /// What does not fit what the document says of its inputs, and of its output by this schema: a sentence each.
    pub(crate) fn misfits(self, graph: &Graph, output: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, schema) in (self.inputs)() {
            let asked = graph.node(name).map(|node| node.schema.to_value()).unwrap_or(Value::Bool(true));
            if let Assignable::No(places) = is_assignable_as_stated(&schema, &asked) {
                let why: Vec<String> = places.iter().map(ToString::to_string).collect();
                problems.push(format!("the input `{name}`: its type in the program does not fit: {}", why.join("; ")));
            }
        }
        if let Assignable::No(places) = is_assignable_as_stated(output, &(self.output)()) {
            let why: Vec<String> = places.iter().map(ToString::to_string).collect();
            let name = &graph.output;
            problems.push(format!("the output of `{name}` does not fit its type in the program: {}", why.join("; ")));
        }
        problems
    }
}

/// A document in the program.
#[derive(Clone, Copy)]
pub struct IncludedDocument {
    pub(crate) name: &'static str,
    text: &'static str,
    types: DocumentTypes,
}

impl IncludedDocument {
    /// One with the name that is shown with its problems, and its text.
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

/// The documents that are linked into the program, ordered by the names of their files. Each was read when the program was
/// compiled, so one that cannot be read is of another release, and is left out with a warning.
pub(crate) fn included() -> &'static [Document] {
    static ALL: OnceLock<Vec<Document>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: Vec<&IncludedDocument> = inventory::iter::<IncludedDocument>.into_iter().collect();
        all.sort_by_key(|document| document.name);
        let read = all.into_iter().filter_map(|document| {
            document.read().map_err(|error| tracing::warn!(%error, "an included document cannot be read")).ok()
        });
        read.collect()
    })
}

/// Checks that a document names no other tools than these and those of the library, as far as the names have no dot:
/// one with a dot may be that of a toolset.
///
/// # Errors
/// Each of them, with its place.
pub fn unknown_tools(document: &Document, known: &[&str]) -> Result<(), DocumentError> {
    let of_library = crate::tool::BUILT_IN;
    let is_known = |name: &&str| known.contains(name) || of_library.contains(name) || name.contains('.');
    let sentences: Vec<String> = document
        .tools()
        .into_iter()
        .filter(|name| !is_known(name))
        .map(|name| {
            let near = did_you_mean(nearest(name, known.iter().copied()));
            let add = if near.is_empty() { "; add it to `tools = [..]`" } else { "" };
            format!("`{name}` is not one of the tools that the document is given{near}{add}")
        })
        .collect();
    match sentences.is_empty() {
        true => Ok(()),
        false => Err(document.source.error(&sentences.join("\n"))),
    }
}
