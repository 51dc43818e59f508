//! Diagnostics as data: [`Diagnostic`] has a stable [`Code`], a [`Severity`], a [`Location`],
//! named arguments and an optional [`Suggestion`]. The sentence is rendered last, from the table of
//! codes.
//!
//! `argument.rs` has the arguments, `code.rs` the tables, `location.rs` the positions. `custom.rs`
//! passes a diagnostic through the error of a deserializer.

mod argument;
mod code;
mod custom;
mod location;

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use serde::ser::{SerializeStruct as _, Serializer};
use serde::{Deserialize, Serialize};

pub use self::argument::{Argument, ArgumentKind, ArgumentValue};
pub use self::code::Code;
use self::code::Piece;
#[doc(hidden)]
pub use self::custom::{custom, take_custom};
pub use self::location::{
    DiagnosticSubject, Excerpt, ExcerptKind, Location, Position, SourceSpan, SubjectKind,
};
#[doc(hidden)]
pub use crate::diagnostic_codes as codes;

/// Effect of a diagnostic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// The checked item cannot be used.
    #[default]
    Error,
    /// The checked item can be used, but probably does not do what its author wants.
    Warning,
}

impl Severity {
    /// Returns the name: `error` or `warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A remedy that depends on the data of the problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Suggestion {
    /// A known name that is similar to the unknown one.
    Replace(String),
    /// What to do instead.
    Advice(String),
}

impl Suggestion {
    /// Suggests a known name, if there is a similar one.
    pub fn similar(near: Option<impl fmt::Display>) -> Option<Self> {
        near.map(|near| Self::Replace(near.to_string()))
    }

    /// Creates an advice.
    pub fn advice(text: impl Into<String>) -> Self {
        Self::Advice(text.into())
    }
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replace(name) => write!(f, "did you mean `{name}`?"),
            Self::Advice(text) => f.write_str(text),
        }
    }
}

/// A problem of a document, a graph, a schema or another checked item.
///
/// The display is the sentence: the subject, the problem and the remedy. Serialized, it also has
/// the code, the location and the arguments, so that no program has to parse the sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Boxed, since results with a diagnostic are returned by many functions that rarely fail.
    parts: Box<DiagnosticParts>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct DiagnosticParts {
    code: Code,
    severity: Severity,
    /// Item that the sentence starts with, such as ``the node `search`: ``.
    subject: Option<DiagnosticSubject>,
    arguments: Vec<Argument>,
    suggestion: Option<Suggestion>,
    /// The remedy of the code follows the suggestion.
    has_both_remedies: bool,
    location: Location,
    /// Position in an expression or a template that the sentence names, in bytes.
    byte: Option<usize>,
    /// The problem that an argument of the sentence describes.
    cause: Option<Diagnostic>,
}

impl Diagnostic {
    /// Creates an error without a location.
    pub fn new(code: Code) -> Self {
        Self {
            parts: Box::new(DiagnosticParts {
                code,
                severity: Severity::Error,
                subject: None,
                arguments: Vec::new(),
                suggestion: None,
                has_both_remedies: false,
                location: Location::default(),
                byte: None,
                cause: None,
            }),
        }
    }

    /// Adds a name that is written at the location. The sentence shows it in backticks.
    #[must_use]
    pub fn name(self, name: &'static str, value: impl fmt::Display) -> Self {
        self.with(name, ArgumentKind::Name, ArgumentValue::Text(value.to_string()))
    }

    /// Adds source text of the location, such as an expression or a placeholder. The sentence shows
    /// it in backticks.
    #[must_use]
    pub fn source(self, name: &'static str, value: impl fmt::Display) -> Self {
        self.with(name, ArgumentKind::Source, ArgumentValue::Text(value.to_string()))
    }

    /// Adds a name that is not written at the location, such as that of a missing field. The
    /// sentence shows it in backticks.
    #[must_use]
    pub fn absent(self, name: &'static str, value: impl fmt::Display) -> Self {
        self.with(name, ArgumentKind::Absent, ArgumentValue::Text(value.to_string()))
    }

    /// Adds words of the sentence.
    #[must_use]
    pub fn text(self, name: &'static str, value: impl fmt::Display) -> Self {
        self.with(name, ArgumentKind::Text, ArgumentValue::Text(value.to_string()))
    }

    /// Adds a number.
    #[must_use]
    pub fn number(self, name: &'static str, value: impl TryInto<u64>) -> Self {
        let value = value.try_into().unwrap_or(u64::MAX);
        self.with(name, ArgumentKind::Number, ArgumentValue::Number(value))
    }

    /// Adds the sentence of another problem, which becomes the [cause](Self::cause). Its names and
    /// source texts count as written at the location too.
    #[must_use]
    pub fn nested(self, name: &'static str, problem: &Self) -> Self {
        let mut outer = self.text(name, problem);
        outer.parts.cause = Some(problem.clone());
        for argument in &problem.parts.arguments {
            if outer.argument(argument.name).is_none() {
                outer.parts.arguments.push(argument.clone());
            }
        }
        outer
    }

    /// Adds names, of which the sentence shows each in backticks.
    #[must_use]
    pub fn names<N: fmt::Display>(
        self,
        name: &'static str,
        values: impl IntoIterator<Item = N>,
    ) -> Self {
        let mut texts = Vec::new();
        for value in values {
            texts.push(value.to_string());
        }
        self.with(name, ArgumentKind::Absent, ArgumentValue::List(texts))
    }

    fn with(mut self, name: &'static str, kind: ArgumentKind, value: ArgumentValue) -> Self {
        self.parts.arguments.push(Argument { name, kind, value });
        self
    }

    /// Sets the remedy. It replaces the remedy of the code.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<Option<Suggestion>>) -> Self {
        if let Some(suggestion) = suggestion.into() {
            self.parts.suggestion = Some(suggestion);
        }
        self
    }

    /// Sets a suggestion that the remedy of the code follows.
    #[must_use]
    pub fn remedy_after(mut self, suggestion: Option<Suggestion>) -> Self {
        self.parts.has_both_remedies = suggestion.is_some();
        self.suggest(suggestion)
    }

    /// Returns true if both describe the same problem, of any item at any location.
    pub fn is_same_problem(&self, other: &Self) -> bool {
        self.parts.code == other.parts.code
            && self.parts.arguments == other.parts.arguments
            && self.parts.location.excerpts == other.parts.location.excerpts
    }

    /// Sets the item that the sentence starts with, unless it is known already.
    #[must_use]
    pub fn of(mut self, subject: impl Into<Option<DiagnosticSubject>>) -> Self {
        if self.parts.subject.is_none() {
            self.parts.subject = subject.into();
        }
        self
    }

    /// Turns the error into a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.parts.severity = Severity::Warning;
        self
    }

    /// Sets the byte range in the text.
    #[must_use]
    pub fn at(mut self, range: Range<usize>) -> Self {
        self.parts.location.span = Some(SourceSpan::from_range(range));
        self
    }

    /// Sets the position of a token in an expression or a template, which the sentence names as
    /// `{at}`. A sentence without `{at}` ends with it.
    #[must_use]
    pub fn at_byte(mut self, at: usize) -> Self {
        self.parts.byte = Some(at);
        self.at(at..at)
    }

    /// Sets the byte range of the token whose position is set by [`at_byte`](Self::at_byte). The
    /// sentence names its start.
    #[must_use]
    pub fn at_token(mut self, range: Range<usize>) -> Self {
        if self.parts.byte.is_some() {
            self.parts.byte = Some(range.start);
        }
        self.at(range)
    }

    /// Sets the text that the current span is a part of. The span of the whole document is then
    /// unknown. Without a span, the whole text is marked.
    #[must_use]
    pub fn within(mut self, kind: ExcerptKind, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let location = &mut self.parts.location;
        let bytes = location.span.take().map_or(0..text.len(), |span| span.bytes);
        location.excerpts.insert(0, Excerpt { kind, text, bytes });
        self
    }

    /// Sets the JSON Pointer, in the node if there is one, or else in the whole document.
    #[must_use]
    pub fn at_pointer(mut self, pointer: impl Into<String>) -> Self {
        self.parts.location.pointer = Some(pointer.into());
        self
    }

    /// Sets the document.
    #[must_use]
    pub fn in_document(mut self, document: &Arc<str>) -> Self {
        self.parts.location.document = Some(Arc::clone(document));
        self
    }

    /// Sets the graph, unless it is known already.
    #[must_use]
    pub fn in_graph(mut self, graph: &str) -> Self {
        self.parts.location.graph.get_or_insert_with(|| graph.into());
        self
    }

    /// Sets the node, unless it is known already.
    #[must_use]
    pub fn in_node(mut self, node: &str) -> Self {
        self.parts.location.node.get_or_insert_with(|| node.into());
        self
    }

    /// Sets the position in a text.
    #[must_use]
    pub fn at_span(mut self, span: SourceSpan) -> Self {
        self.parts.location.span = Some(span);
        self
    }

    /// The code, which is stable across releases.
    pub fn code(&self) -> Code {
        self.parts.code
    }

    /// The effect of the problem.
    pub fn severity(&self) -> Severity {
        self.parts.severity
    }

    /// Where the problem is.
    pub fn location(&self) -> &Location {
        &self.parts.location
    }

    /// The item that the sentence starts with.
    pub fn subject(&self) -> Option<&DiagnosticSubject> {
        self.parts.subject.as_ref()
    }

    /// The arguments of the sentence, in order.
    pub fn arguments(&self) -> &[Argument] {
        &self.parts.arguments
    }

    /// Returns the argument with this name as text.
    pub fn argument(&self, name: &str) -> Option<&Argument> {
        self.parts.arguments.iter().find(|argument| argument.name == name)
    }

    /// The problem of a part, which this diagnostic describes as a problem of the whole. For
    /// example, an invalid key of a node that reads it.
    pub fn cause(&self) -> Option<&Self> {
        self.parts.cause.as_ref()
    }

    /// The remedy that depends on the data of the problem.
    pub fn suggestion(&self) -> Option<&Suggestion> {
        self.parts.suggestion.as_ref()
    }

    /// Renders the sentence: problem and remedy.
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// Line in the text, from 1, or 0 without a position.
    pub fn line(&self) -> usize {
        self.parts.location.span.as_ref().map_or(0, |span| span.start.line)
    }

    /// Column in characters, from 1, or 0 without a position.
    pub fn column(&self) -> usize {
        self.parts.location.span.as_ref().map_or(0, |span| span.start.column)
    }

    /// Byte range in the text. Empty without a position.
    pub fn span(&self) -> Range<usize> {
        self.parts.location.span.as_ref().map_or(0..0, |span| span.bytes.clone())
    }

    /// Renders the sentence with the number of the line in `text`.
    pub fn in_line(&self, text: &str) -> String {
        let before = text.as_bytes().iter().take(self.span().start);
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: {self}")
    }

    fn render(&self, template: &'static str, out: &mut impl fmt::Write) -> fmt::Result {
        let mut is_in_backticks = false;
        for piece in code::pieces(template) {
            match piece {
                Piece::Text(text) => {
                    is_in_backticks ^= text.matches('`').count() % 2 == 1;
                    out.write_str(text)?;
                }
                Piece::Argument("at") if self.parts.byte.is_some() => {
                    write!(out, "{}", self.parts.byte.unwrap_or_default())?;
                }
                Piece::Argument(name) => match self.argument(name) {
                    Some(argument) => {
                        debug_assert!(
                            !is_in_backticks || argument.is_plain(),
                            "{}: `{name}` is in backticks already; add it with `text`",
                            self.parts.code.name()
                        );
                        write!(out, "{argument}")?;
                    }
                    None => {
                        debug_assert!(false, "{} has no argument {name}", self.parts.code.name());
                        write!(out, "{{{name}}}")?;
                    }
                },
            }
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(subject) = &self.parts.subject {
            write!(f, "{subject}: ")?;
        }
        for excerpt in &self.parts.location.excerpts {
            write!(f, "{excerpt}: ")?;
        }
        self.render(self.parts.code.problem(), f)?;
        if let Some(at) = self.parts.byte.filter(|_| !self.parts.code.names_position()) {
            write!(f, " at byte {at}")?;
        }
        if let Some(suggestion) = &self.parts.suggestion {
            write!(f, "; {suggestion}")?;
        }
        if !self.parts.code.remedy().is_empty()
            && (self.parts.suggestion.is_none() || self.parts.has_both_remedies)
        {
            f.write_str("; ")?;
            self.render(self.parts.code.remedy(), f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

impl Serialize for Diagnostic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer
            .serialize_struct("Diagnostic", 7 + usize::from(self.parts.cause.is_some()))?;
        map.serialize_field("code", self.parts.code.name())?;
        map.serialize_field("severity", &self.parts.severity)?;
        map.serialize_field("message", &self.message())?;
        map.serialize_field("subject", &self.parts.subject)?;
        map.serialize_field("location", &self.parts.location)?;
        map.serialize_field("arguments", &argument::AsMap(&self.parts.arguments))?;
        map.serialize_field("suggestion", &self.parts.suggestion)?;
        match &self.parts.cause {
            Some(cause) => map.serialize_field("cause", cause)?,
            None => map.skip_field("cause")?,
        }
        map.end()
    }
}

/// Renders diagnostics as one sentence per line.
pub fn sentences(all: &[Diagnostic]) -> String {
    let mut text = String::new();
    for (at, diagnostic) in all.iter().enumerate() {
        let between = if at == 0 { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{between}{diagnostic}");
    }
    text
}

#[cfg(test)]
mod tests;
