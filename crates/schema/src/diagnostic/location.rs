//! Locations of diagnostics: document, graph, node, JSON Pointer and source span.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use crate::text::head;

/// Location of a problem. Each part is present if it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Location {
    /// Name of the document, such as the name of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<Arc<str>>,
    /// Name of the graph. A document can describe several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<Arc<str>>,
    /// Path of the node in the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// JSON Pointer in the node if there is one, or else in the whole document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Position in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<SourceSpan>,
    /// Texts that contain the problem, the outermost first, such as a question and a placeholder in
    /// it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excerpts: Vec<Excerpt>,
}

/// A text that is parsed on its own, such as an expression, with the position of the problem in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Excerpt {
    /// Kind of the text.
    pub kind: ExcerptKind,
    /// The text as its author wrote it.
    pub text: Arc<str>,
    /// Byte range of the problem in the text.
    pub bytes: Range<usize>,
}

impl Excerpt {
    /// Returns the marked part of the text.
    pub fn marked(&self) -> &str {
        self.text.get(self.bytes.clone()).unwrap_or_default()
    }
}

/// Kind of an [`Excerpt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExcerptKind {
    /// An expression that is checked.
    Expression,
    /// An expression that a run evaluates.
    Evaluated,
    /// A condition of a pipeline.
    Condition,
    /// A text with placeholders.
    Text,
    /// A question to a person.
    Question,
    /// A placeholder of a text.
    Placeholder,
}

/// Maximum number of bytes of an excerpt in a sentence.
const SHOWN: usize = 200;

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = head(&self.text, SHOWN);
        match self.kind {
            ExcerptKind::Expression => write!(f, "`{text}`"),
            ExcerptKind::Evaluated => write!(f, "`{text}` cannot be evaluated"),
            ExcerptKind::Condition => write!(f, "the condition `{text}`"),
            ExcerptKind::Text => write!(f, "the text `{text}`"),
            ExcerptKind::Question => write!(f, "the question `{text}`"),
            ExcerptKind::Placeholder => write!(f, "the placeholder `{text}`"),
        }
    }
}

/// A range of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceSpan {
    /// Byte range.
    pub bytes: Range<usize>,
    /// Line and column of the first character.
    pub start: Position,
}

/// A line and a column, both from 1. Both are 0 as long as the text is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column in characters.
    pub column: usize,
}

impl SourceSpan {
    /// Creates a span whose line and column are not known yet.
    pub fn from_range(bytes: Range<usize>) -> Self {
        Self { bytes, start: Position::default() }
    }

    /// Creates a span.
    pub fn new(bytes: Range<usize>, start: Position) -> Self {
        Self { bytes, start }
    }
}

/// Kind of the item that a sentence starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SubjectKind {
    /// A node of a graph.
    Node,
    /// An agent.
    Agent,
    /// The `decider` of a workflow.
    Decider,
    /// A part of a pipeline.
    Part,
    /// An input of a workflow.
    Input,
    /// A field of a document.
    Field,
}

/// The item that a sentence starts with, such as ``the node `search` ``.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct DiagnosticSubject {
    /// Kind of the item.
    pub kind: SubjectKind,
    /// Name of the item.
    pub name: Arc<str>,
}

impl DiagnosticSubject {
    /// Creates a subject with one name.
    pub fn new(kind: SubjectKind, name: impl Into<Arc<str>>) -> Self {
        Self { kind, name: name.into() }
    }

    /// Creates the subject for a node.
    pub fn node(name: impl Into<Arc<str>>) -> Self {
        Self::new(SubjectKind::Node, name)
    }
}

impl fmt::Display for DiagnosticSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.kind {
            SubjectKind::Node => write!(f, "the node `{name}`"),
            SubjectKind::Agent => write!(f, "the agent `{name}`"),
            SubjectKind::Decider => write!(f, "the `decider` `{name}`"),
            SubjectKind::Part => write!(f, "the part `{name}`"),
            SubjectKind::Input => write!(f, "the input `{name}`"),
            SubjectKind::Field => write!(f, "`{name}`"),
        }
    }
}
