//! What is wrong with a document: every problem with its place, shown with the line it stands on.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::text::{OneLine, word_in};
use agentflow_schema::text_tree::{Misread, Tree};
use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};

use super::written_names::{self, Described, WrittenName};
use super::{Document, DocumentForm};

/// The most problems that are shown.
const MOST_SHOWN: usize = 100;

/// One problem of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// What is wrong, and what to do about it: one sentence.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Where it stands, in bytes of the text.
    pub span: Range<usize>,
}

/// All that is wrong with a document. Its text has each problem with the place and the line of the document:
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
    problems: Vec<Problem>,
    /// For who knows more of what the document calls.
    checkable: Arc<Checkable>,
}

/// What can be checked of a document although it has mistakes.
#[derive(Default)]
pub(crate) struct Checkable {
    pub(crate) names: Vec<WrittenName>,
    /// What others could call, had it no mistakes.
    pub(crate) describes: Vec<Described>,
    /// What was read, unless a node or an agent is missing in it.
    pub(crate) draft: Option<Document>,
}

impl Checkable {
    /// Of a document of a form, and what was read of it.
    pub(super) fn of(form: DocumentForm, tree: &Tree, draft: Option<Document>) -> Self {
        Self { names: written_names::of(form, tree), describes: written_names::described_by(tree), draft }
    }
}

impl DocumentError {
    pub(super) fn new(name: &Arc<str>, text: &Arc<str>, misread: Vec<Misread>) -> Self {
        let none =
            Self { name: Arc::clone(name), text: Arc::clone(text), problems: Vec::new(), checkable: Arc::default() };
        none.with(misread)
    }

    pub(super) fn checkable_as(self, checkable: Checkable) -> Self {
        Self { checkable: Arc::new(checkable), ..self }
    }

    pub(crate) fn checkable(&self) -> &Arc<Checkable> {
        &self.checkable
    }

    /// With more problems, each once.
    pub(crate) fn with(self, more: Vec<Misread>) -> Self {
        let more = problems(&self.text, more);
        self.with_problems(more)
    }

    fn with_problems(mut self, more: impl IntoIterator<Item = Problem>) -> Self {
        self.problems.extend(more);
        self.problems.sort_by(|one, other| (one.span.start, &one.message).cmp(&(other.span.start, &other.message)));
        self.problems.dedup();
        self
    }

    /// With the problems of what was read in spite of mistakes, but for those of the parts that have these mistakes: they may
    /// be of nothing else.
    pub(crate) fn with_those_of(self, draft: &Self, part_at: impl Fn(&Range<usize>) -> Option<Range<usize>>) -> Self {
        let mistakes: Vec<&Problem> = self.problems.iter().filter(|of| !draft.problems.contains(of)).collect();
        let has_mistake = |part: Range<usize>| mistakes.iter().any(|of| part.contains(&of.span.start));
        let more = draft.problems.iter().filter(|of| !part_at(&of.span).is_some_and(has_mistake));
        let more: Vec<Problem> = more.cloned().collect();
        self.with_problems(more)
    }

    /// Returns the place of a word in a value, or of the whole value.
    pub(crate) fn word_at(&self, value: &Range<usize>, word: &str) -> Range<usize> {
        let found = self.text.get(value.clone()).and_then(|text| word_in(text, word));
        found.map_or_else(|| value.clone(), |at| value.start + at..value.start + at + word.len())
    }

    /// The name that the document was read under, such as a file's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The problems, as they stand in the document.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// Problems with their lines and columns, which are counted once for all of them.
fn problems(text: &str, mut misread: Vec<Misread>) -> Vec<Problem> {
    let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    misread.sort_by_key(|misread| misread.at.start);
    let (mut counted, mut line, mut column) = (0, 1, 1);
    let mut line_end: Option<usize> = None;
    let problem = |Misread { at, message }: Misread| {
        let start = boundary(at.start);
        for letter in text[counted..start].chars() {
            (line, column) = if letter == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        counted = start;
        let line_end = match line_end.filter(|end| *end >= start) {
            Some(end) => end,
            None => *line_end.insert(text[start..].find('\n').map_or(text.len(), |line| start + line)),
        };
        // A block of many lines is shown by its first one.
        let end = boundary(at.end).max(start).min(line_end);
        Problem { message, line, column, span: start..end }
    };
    misread.into_iter().map(problem).collect()
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renderer = Renderer::plain();
        let name = OneLine(&self.name).to_string();
        for (at, problem) in self.problems.iter().take(MOST_SHOWN).enumerate() {
            let message = OneLine(&problem.message).to_string();
            let title = Level::ERROR.primary_title(&*message);
            // A file that cannot be read has no line to show.
            let report = match self.text.is_empty() {
                true => [title.element(Origin::path(&*name))],
                false => {
                    let mark = AnnotationKind::Primary.span(problem.span.clone());
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
        f.debug_struct("DocumentError").field("name", &self.name).field("problems", &self.problems).finish()
    }
}

impl Error for DocumentError {}
