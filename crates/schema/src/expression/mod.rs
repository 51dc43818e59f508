//! Parses and evaluates expressions: conditions or values as a line of CEL over JSON. An
//! [`Expression`] is parsed once, can be checked against known types, and is evaluated within fixed
//! limits. This module does not depend on workflows or state.
//!
//! `tokens.rs` and `parse.rs` build the syntax tree, `types.rs` checks it, and `evaluate.rs`
//! computes values with the functions of `functions.rs`. [`Variables`] provides the values of
//! variables.
#![doc = include_str!("../docs/expression.md")]

mod evaluate;
mod functions;
mod parse;
mod tokens;
mod types;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use self::evaluate::Variables;
use self::parse::Node;
pub use self::parse::Path;
pub use self::types::{KnownKind, KnownKinds};
use crate::text::head;

/// Maximum number of bytes of an expression in an error message.
const SHOWN: usize = 200;

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
    written: Option<Arc<str>>,
}

/// The error of a string that is not a valid [`Expression`], or of an expression that cannot be
/// evaluated. The message contains the position and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ExpressionError {
    problem: String,
    at: usize,
}

impl ExpressionError {
    fn new(at: usize, problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), at }
    }

    /// Returns the position in bytes from the start of the expression.
    pub fn at(&self) -> usize {
        self.at
    }
}

impl Expression {
    /// Returns the text of the expression.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the same expression, for which error messages show the text `written`.
    pub fn shown_as(self, written: &str) -> Self {
        Self { written: (written != &*self.text).then(|| written.into()), ..self }
    }

    /// Returns the text for error messages.
    pub fn shown(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.text)
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
        evaluate::value(&self.root, names)
    }

    /// Returns the variables, each with the fields that the expression reads.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// Checks the expression as a condition against the known types of its variables. Returns the
    /// problems.
    pub fn problems_of_condition(&self, known: &dyn KnownKinds) -> Vec<ExpressionError> {
        types::problems_of_condition(&self.root, known)
    }

    /// Checks the expression as a value of any type. Returns the problems.
    pub fn problems_of_value(&self, known: &dyn KnownKinds) -> Vec<ExpressionError> {
        types::problems_of_value(&self.root, known)
    }
}

/// The fields of a JSON object as variables.
struct ObjectVariables<'v>(&'v Value);

impl Variables for ObjectVariables<'_> {
    fn variable(&self, name: &str) -> Result<Option<Value>, String> {
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
        let root = parse::expression(text)?;
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
        text.parse().map_err(|error| D::Error::custom(format!("`{}`: {error}", head(&text, SHOWN))))
    }
}

#[cfg(test)]
mod tests;
