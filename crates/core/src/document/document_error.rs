//! [`DocumentError`]: the problems of a document with their positions, displayed with the affected
//! lines.

use agentflow_schema::diagnostic::{Diagnostic, Position, Severity, SourceSpan};
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::text::{OneLine, word_in};
use agentflow_schema::text_tree::Tree;
use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};

use super::written_names::{self, Described, NameReference};
use super::{Document, DocumentForm};

/// Maximum number of displayed problems.
const MOST_SHOWN: usize = 100;

/// The problems of a document. The text shows each problem with its position and the line of the
/// document:
///
/// ```text
/// error: this program has no tool `web_serach`; did you mean `web_search`?
///  --> research.yaml:4:11
///   |
/// 4 |     tool: web_serach
///   |           ^^^^^^^^^^
/// ```
#[derive(Clone)]
pub struct DocumentError {
    name: Arc<str>,
    text: Arc<str>,
    problems: Vec<Diagnostic>,
    /// Data for further checks of the document.
    checkable: Arc<CheckableParts>,
}

/// Parts of a document with mistakes that can still be checked.
#[derive(Default)]
pub(crate) struct CheckableParts {
    pub(crate) names: Vec<NameReference>,
    /// Workflows and agents that other documents could call if this document had no mistakes.
    pub(crate) describes: Vec<Described>,
    /// The draft of the document, unless a node or an agent is missing in it.
    pub(crate) draft: Option<Document>,
}

impl CheckableParts {
    /// Collects the names in a document, with its draft.
    pub(super) fn new(form: DocumentForm, tree: &Tree, draft: Option<Document>) -> Self {
        Self {
            names: written_names::references(form, tree),
            describes: written_names::described_by(tree),
            draft,
        }
    }
}

impl DocumentError {
    pub(super) fn new(name: &Arc<str>, text: &Arc<str>, found: Vec<Diagnostic>) -> Self {
        let none = Self {
            name: Arc::clone(name),
            text: Arc::clone(text),
            problems: Vec::new(),
            checkable: Arc::default(),
        };
        none.with(found)
    }

    pub(super) fn with_checkable(self, checkable: CheckableParts) -> Self {
        Self { checkable: Arc::new(checkable), ..self }
    }

    pub(crate) fn checkable(&self) -> &Arc<CheckableParts> {
        &self.checkable
    }

    /// Adds problems, without duplicates.
    pub(crate) fn with(self, more: Vec<Diagnostic>) -> Self {
        let more = located(&self.name, &self.text, more);
        self.with_problems(more)
    }

    fn with_problems(mut self, more: impl IntoIterator<Item = Diagnostic>) -> Self {
        self.problems.extend(more);
        self.problems.sort_by_cached_key(|problem| (problem.span().start, problem.message()));
        self.problems
            .dedup_by(|one, other| one.span() == other.span() && one.message() == other.message());
        self
    }

    /// Adds the problems of the draft, except those in parts with other mistakes, since these
    /// mistakes may be their cause.
    pub(crate) fn with_draft_problems(
        self,
        draft: &Self,
        part_at: impl Fn(&Range<usize>) -> Option<Range<usize>>,
    ) -> Self {
        let mistakes: Vec<&Diagnostic> =
            self.problems.iter().filter(|of| !draft.problems.contains(of)).collect();
        let has_mistake =
            |part: Range<usize>| mistakes.iter().any(|of| part.contains(&of.span().start));
        let more = draft.problems.iter().filter(|of| !part_at(&of.span()).is_some_and(has_mistake));
        let more: Vec<Diagnostic> = more.cloned().collect();
        self.with_problems(more)
    }

    /// Returns the byte range of a word in a value, or of the whole value if the value does not
    /// contain it.
    pub(crate) fn word_at(&self, value: &Range<usize>, word: &str) -> Range<usize> {
        let found = self.text.get(value.clone()).and_then(|text| word_in(text, word));
        found.map_or_else(|| value.clone(), |at| value.start + at..value.start + at + word.len())
    }

    /// Name of the document, such as the name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The problems, in the order of their positions.
    pub fn problems(&self) -> &[Diagnostic] {
        &self.problems
    }
}

/// Adds the name of the document, lines and columns. The problems are sorted, so that the text is
/// scanned only once.
fn located(name: &Arc<str>, text: &str, mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let boundary = |at: usize| {
        (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    };
    found.sort_by_key(|problem| problem.span().start);
    let (mut counted, mut position) = (0, Position { line: 1, column: 1 });
    let mut line_end: Option<usize> = None;
    let mut all = Vec::with_capacity(found.len());
    for problem in found {
        let at = problem.span();
        let start = boundary(at.start);
        for letter in text[counted..start].chars() {
            position = match letter {
                '\n' => Position { line: position.line + 1, column: 1 },
                _ => Position { column: position.column + 1, ..position },
            };
        }
        counted = start;
        let line_end = match line_end.filter(|end| *end >= start) {
            Some(end) => end,
            None => {
                *line_end.insert(text[start..].find('\n').map_or(text.len(), |line| start + line))
            }
        };
        // Only the first line of a multi-line range is shown.
        let end = boundary(at.end).max(start).min(line_end);
        all.push(problem.in_document(name).at_span(SourceSpan::new(start..end, position)));
    }
    all
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renderer = Renderer::plain();
        let name = OneLine(&self.name).to_string();
        for (at, problem) in self.problems.iter().take(MOST_SHOWN).enumerate() {
            let message = OneLine(problem).to_string();
            let level = match problem.severity() {
                Severity::Warning => Level::WARNING,
                _ => Level::ERROR,
            };
            let title = level.primary_title(&*message);
            // A file that cannot be read has no lines.
            let report = match self.text.is_empty() {
                true => [title.element(Origin::path(&*name))],
                false => {
                    let mark = AnnotationKind::Primary.span(problem.span());
                    [title.element(Snippet::source(&*self.text).path(&*name).annotation(mark))]
                }
            };
            let between = if at == 0 { "" } else { "\n\n" };
            write!(f, "{between}{}", renderer.render(&report))?;
        }
        match self.problems.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}

impl fmt::Debug for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentError")
            .field("name", &self.name)
            .field("problems", &self.problems)
            .finish()
    }
}

impl Error for DocumentError {}
