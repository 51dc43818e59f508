//! Parses and evaluates expressions: conditions or values as a line of CEL over JSON. An
//! [`Expression`] is parsed once, can be checked against known types, and is evaluated within fixed
//! limits. This module does not depend on workflows or state.
//!
//! `tokens.rs` and `parse.rs` build the syntax tree, `types.rs` checks it, and `evaluate.rs`
//! computes values with the functions of `functions.rs`. [`Variables`] provides the values of
//! variables. `expression_codes.rs` has the codes of all problems.
#![doc = include_str!("../docs/expression.md")]

mod evaluate;
#[doc(hidden)]
pub mod expression_codes;
mod functions;
mod parse;
mod tokens;
mod types;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use self::evaluate::Variables;
use self::parse::Node;
pub use self::parse::Path;
pub use self::types::{KnownKind, KnownKinds};
use crate::diagnostic::{Diagnostic, ExcerptKind, custom};
use crate::text::Renaming;

/// A parsed line of CEL.
///
/// ```
/// use agentflow::expression::Expression;
/// use serde_json::json;
///
/// let large: Expression = "order.total > 100 && order.kind in ['a', 'b']".parse().unwrap();
/// assert_eq!(large.evaluate(&json!({"order": {"total": 120, "kind": "b"}})).unwrap(), json!(true));
///
/// let error = "order.total >".parse::<Expression>().unwrap_err();
/// assert_eq!(error.to_string(), "the expression ends at byte 13, and a value should follow");
/// ```
#[derive(Clone)]
pub struct Expression {
    text: Arc<str>,
    root: Arc<Node>,
    paths: Arc<[Path]>,
    /// The author's text, if names were replaced in this expression.
    written: Option<(Arc<str>, Arc<Renaming>)>,
}

/// The error of a string that is not a valid [`Expression`], or of an expression that cannot be
/// evaluated. The message contains the position and the fix.
///
/// ```
/// use agentflow::expression::Expression;
///
/// let error = "siez(order)".parse::<Expression>().unwrap_err();
/// assert_eq!(error.diagnostic().code().name(), "expression.unknown-function");
/// assert_eq!(error.diagnostic().argument("function").unwrap().as_str(), Some("siez"));
/// assert_eq!(error.range(), 0..4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{diagnostic}")]
pub struct ExpressionError {
    diagnostic: Diagnostic,
}

impl ExpressionError {
    /// Returns the position in bytes from the start of the expression.
    pub fn at(&self) -> usize {
        self.range().start
    }

    /// Returns the byte range of the wrong part of the expression. It is empty if the expression
    /// ends too early.
    pub fn range(&self) -> Range<usize> {
        self.diagnostic.span()
    }

    /// Returns the problem as data. Its span is a range of the expression.
    pub fn diagnostic(&self) -> &Diagnostic {
        &self.diagnostic
    }
}

impl From<ExpressionError> for Diagnostic {
    fn from(error: ExpressionError) -> Self {
        error.diagnostic
    }
}

impl Expression {
    /// Returns the text of the expression.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the same expression, whose errors have positions in the text `written`.
    /// `renaming` is the change from `written` to this expression.
    #[doc(hidden)]
    #[must_use]
    pub fn shown_as(self, written: &str, renaming: Renaming) -> Self {
        let written = (written != &*self.text).then(|| (written.into(), Arc::new(renaming)));
        Self { written, ..self }
    }

    /// Returns the text for error messages.
    pub fn shown(&self) -> &str {
        self.written.as_ref().map_or(&self.text, |(written, _)| written)
    }

    /// Returns the problem of a check with its excerpt: the author's text.
    fn checked(&self, found: Diagnostic) -> Diagnostic {
        let found =
            located(&self.text, self.written.as_ref().map(|(_, renaming)| &**renaming), found);
        found.within(ExcerptKind::Expression, self.shown())
    }

    /// Evaluates the expression. The fields of a JSON object are its variables.
    ///
    /// # Errors
    /// Returns an error if
    ///
    /// - a variable, a field or an item is missing;
    /// - an operator or a function does not accept its values;
    /// - the evaluation takes more than 100,000 steps.
    pub fn evaluate(&self, variables: &Value) -> Result<Value, ExpressionError> {
        self.value(&ObjectVariables(variables))
    }

    /// Evaluates the expression with variables from any source.
    ///
    /// # Errors
    /// Same as [`evaluate`](Self::evaluate), and the errors of `names`.
    pub fn value(&self, names: &dyn Variables) -> Result<Value, ExpressionError> {
        evaluate::value(&self.root, names).map_err(|found| {
            let renaming = self.written.as_ref().map(|(_, renaming)| &**renaming);
            ExpressionError { diagnostic: located(&self.text, renaming, found) }
        })
    }

    /// Returns the variables, each with the fields that the expression reads.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// Checks the expression as a condition against the known types of its variables. Returns the
    /// problems, with the expression as their excerpt.
    pub fn problems_of_condition(&self, known: &dyn KnownKinds) -> Vec<Diagnostic> {
        let found = types::problems_of_condition(&self.root, known);
        found.into_iter().map(|problem| self.checked(problem)).collect()
    }

    /// Checks the expression as a value of any type. Returns the problems, with the expression as
    /// their excerpt.
    pub fn problems_of_value(&self, known: &dyn KnownKinds) -> Vec<Diagnostic> {
        let found = types::problems_of_value(&self.root, known);
        found.into_iter().map(|problem| self.checked(problem)).collect()
    }
}

/// Sets the end of the token that a problem is about, and converts its range to the author's text.
fn located(text: &str, renaming: Option<&Renaming>, found: Diagnostic) -> Diagnostic {
    let span = found.span();
    // The last part of a path can be an index, which ends with the bracket.
    let last = span.end.max(span.start);
    let mut end = tokens::end_of_token(text, last);
    if text.get(last..end) == Some("[") && last > span.start {
        end = text.get(end..).and_then(|rest| rest.find(']')).map_or(end, |at| end + at + 1);
    }
    let range = span.start..end;
    found.at_token(renaming.map_or(range.clone(), |renaming| renaming.written(range)))
}

/// The fields of a JSON object as variables.
struct ObjectVariables<'v>(&'v Value);

impl Variables for ObjectVariables<'_> {
    fn variable(&self, name: &str) -> Result<Option<Value>, Diagnostic> {
        Ok(self.0.get(name).cloned())
    }

    fn all(&self) -> Vec<String> {
        self.0.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    /// Parses an expression.
    ///
    /// # Errors
    /// Returns an error if the text is not CEL or uses an unsupported part of CEL, if it exceeds 16
    /// KiB, or if it has more than 64 levels of nesting.
    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let root = parse::expression(text)
            .map_err(|found| ExpressionError { diagnostic: located(text, None, found) })?;
        let mut paths = Vec::new();
        root.paths(&mut Vec::new(), false, &mut paths);
        Ok(Self { text: text.into(), root: Arc::new(root), paths: paths.into(), written: None })
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The text helps the reader of a document to find the expression.
        text.parse().map_err(|error: ExpressionError| {
            custom(error.diagnostic.within(ExcerptKind::Expression, text))
        })
    }
}

#[cfg(test)]
mod tests;
