//! `Expression`: a condition or a value as one line of CEL, over JSON. It is read once, checked against what is known of the
//! types, and evaluated within fixed limits; it knows no nodes and no state.
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

/// The most bytes of an expression that an error shows.
const SHOWN: usize = 200;

/// A line of CEL that was read.
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
    /// The text of the author, where other names were put into this one.
    written: Option<Arc<str>>,
}

/// Why a text is not an [`Expression`], or why an expression has no value. It names the place and the remedy.
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

    /// Where it is, in bytes from the beginning of the expression.
    pub fn at(&self) -> usize {
        self.at
    }
}

impl Expression {
    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same expression, shown as the text of its author in error messages.
    pub fn shown_as(self, written: &str) -> Self {
        Self { written: (written != &*self.text).then(|| written.into()), ..self }
    }

    /// The text for error messages.
    pub fn shown(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.text)
    }

    /// The value, with the fields of a JSON object as variables.
    ///
    /// # Errors
    /// When a variable, a field or an item is not there, when an operator or a function does not take its values, and when
    /// the evaluation would take more than 100,000 steps.
    pub fn evaluate(&self, variables: &Value) -> Result<Value, ExpressionError> {
        self.value(&Fields(variables))
    }

    /// The same with variables from anywhere.
    pub fn value(&self, names: &dyn Variables) -> Result<Value, ExpressionError> {
        evaluate::value(&self.root, names)
    }

    /// Its variables, each with the fields that are read of it.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// What is wrong with it as a condition, as far as the types of its variables are known.
    pub fn problems_of_condition(&self, known: &dyn KnownKinds) -> Vec<ExpressionError> {
        types::problems_of_condition(&self.root, known)
    }

    /// What is wrong with it as a value of any type.
    pub fn problems_of_value(&self, known: &dyn KnownKinds) -> Vec<ExpressionError> {
        types::problems_of_value(&self.root, known)
    }
}

/// The fields of a JSON object as variables.
struct Fields<'v>(&'v Value);

impl Variables for Fields<'_> {
    fn variable(&self, name: &str) -> Result<Option<Value>, String> {
        Ok(self.0.get(name).cloned())
    }

    fn all(&self) -> Vec<String> {
        self.0.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    /// Reads an expression.
    ///
    /// # Errors
    /// When it is not CEL, or uses a part of CEL that is not supported; when it has more than 16 KiB or is nested more than 64
    /// levels deep.
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
        // Whoever reads a document finds the place by the text.
        text.parse().map_err(|error| D::Error::custom(format!("`{}`: {error}", head(&text, SHOWN))))
    }
}

#[cfg(test)]
mod tests;
