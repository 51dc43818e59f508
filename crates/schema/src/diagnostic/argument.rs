//! Named arguments of a diagnostic.

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

/// A named argument of a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Argument {
    pub(super) name: &'static str,
    pub(super) kind: ArgumentKind,
    pub(super) value: ArgumentValue,
}

/// Relation of an argument to the checked text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArgumentKind {
    /// A name that is written at the location.
    Name,
    /// A longer source text of the location, such as an expression or a placeholder.
    Source,
    /// A name that is not written at the location.
    Absent,
    /// Words of the sentence.
    Text,
    /// A number.
    Number,
}

/// Value of an argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ArgumentValue {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
    /// Several texts.
    List(Vec<String>),
}

impl Argument {
    /// The name in the table of codes.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns `true` if the sentence shows the value without backticks.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.kind, ArgumentKind::Text | ArgumentKind::Number)
    }

    /// The relation to the checked text.
    pub fn kind(&self) -> ArgumentKind {
        self.kind
    }

    /// The value.
    pub fn value(&self) -> &ArgumentValue {
        &self.value
    }

    /// The value, if it is a single text.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            ArgumentValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Renders the value as the sentence shows it.
impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = matches!(self.kind, ArgumentKind::Text | ArgumentKind::Number);
        match &self.value {
            ArgumentValue::Text(text) if is_plain => f.write_str(text),
            ArgumentValue::Text(text) => write!(f, "`{text}`"),
            ArgumentValue::Number(number) => number.fmt(f),
            ArgumentValue::List(texts) => write!(f, "`{}`", texts.join("`, `")),
        }
    }
}

/// Serializes arguments as a map from names to values.
pub(super) struct AsMap<'a>(pub(super) &'a [Argument]);

impl Serialize for AsMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for argument in self.0 {
            map.serialize_entry(argument.name, &argument.value)?;
        }
        map.end()
    }
}
