//! [`ValueError`]: an error of reading a value, with the data that serde provides. serde_json renders
//! its errors at once, so values of documents are read with the deserializer of this module.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use agentflow_schema::diagnostic::{Diagnostic, Suggestion, take_custom};
use agentflow_schema::text::nearest;
use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::document_codes;
use super::excerpt_place::place_in;

/// An error of reading a value.
#[derive(Debug)]
pub(super) enum ValueError {
    UnknownField {
        name: String,
        known: &'static [&'static str],
    },
    UnknownVariant {
        name: String,
        known: &'static [&'static str],
    },
    MissingField(&'static str),
    Unexpected {
        is_type: bool,
        found: String,
        expected: String,
    },
    /// A problem that a type reports itself as data, and the text that it is about, if it is one.
    Reported {
        problem: Diagnostic,
        text: Option<String>,
    },
    /// A problem that a type reports itself as a sentence.
    Other {
        problem: String,
        text: Option<String>,
    },
}

impl ValueError {
    /// Returns the known name that is most similar to the unknown one.
    pub(super) fn nearest_name(&self) -> Option<&'static str> {
        match self {
            Self::UnknownField { name, known } | Self::UnknownVariant { name, known } => {
                nearest(name, known.iter().copied())
            }
            _ => None,
        }
    }

    /// Returns the text that the error is about.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::UnknownField { name, .. } | Self::UnknownVariant { name, .. } => Some(name),
            Self::Other { text, .. } | Self::Reported { text, .. } => text.as_deref(),
            _ => None,
        }
    }

    /// Returns the range of the wrong token, if the problem is one of an expression or a template
    /// that the document writes at `at`.
    pub(super) fn place_in(&self, document: &str, at: Range<usize>) -> Range<usize> {
        let Self::Reported { problem, text } = self else { return at };
        let location = problem.location();
        match (location.excerpts.first(), &location.span, text) {
            (Some(excerpt), ..) => place_in(document, at, &excerpt.text, excerpt.bytes.clone()),
            (None, Some(span), Some(text)) => place_in(document, at, text, span.bytes.clone()),
            _ => at,
        }
    }

    pub(super) fn diagnostic(&self) -> Diagnostic {
        match self {
            Self::UnknownField { name, known } => {
                let found = Diagnostic::new(document_codes::UNEXPECTED_FIELD).name("field", name);
                found.suggest(self.suggestion(name, known))
            }
            Self::UnknownVariant { name, known } => {
                let found = Diagnostic::new(document_codes::UNEXPECTED_WORD).name("value", name);
                found.suggest(self.suggestion(name, known))
            }
            Self::MissingField(name) => {
                Diagnostic::new(document_codes::ABSENT_FIELD).absent("field", name)
            }
            Self::Unexpected { is_type: true, found, expected } => {
                let problem = Diagnostic::new(document_codes::UNEXPECTED_TYPE).text("found", found);
                problem.text("expected", expected)
            }
            Self::Unexpected { is_type: false, found, expected } => {
                let problem =
                    Diagnostic::new(document_codes::UNEXPECTED_VALUE).text("found", found);
                problem.text("expected", expected)
            }
            Self::Reported { problem, .. } => problem.clone(),
            Self::Other { problem, .. } => {
                Diagnostic::new(document_codes::INVALID_VALUE).text("problem", problem)
            }
        }
    }

    fn suggestion(&self, name: &str, known: &[&str]) -> Suggestion {
        if let Some(near) = self.nearest_name() {
            return Suggestion::Replace(near.to_owned());
        }
        // The only enum that can be written as a line of CEL is a condition.
        if known.first() == Some(&"cel") && name.contains(' ') {
            let example = "a line of CEL is written as `{\"cel\": \"order.total > 100\"}`";
            return Suggestion::advice(example);
        }
        Suggestion::advice(match known {
            [] => "none is expected".to_owned(),
            [one] => format!("expected `{one}`"),
            [one, other] => format!("expected `{one}` or `{other}`"),
            all => format!("expected one of `{}`", all.join("`, `")),
        })
    }
}

/// Describes a value in the terms of JSON.
fn described(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Map => "an object".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Unit => "null".to_owned(),
        other => other.to_string(),
    }
}

/// Describes an expected type in the terms of JSON.
fn expectation(expected: &dyn Expected) -> String {
    let expected = expected.to_string();
    let words = match expected.as_str() {
        "a sequence" => "a list",
        "map with a single key" => "an object with one key",
        "string or map" => "a text, or an object with one key",
        "tuple variant" => "a list of two mappings",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        _ => return expected,
    };
    words.to_owned()
}

impl Error for ValueError {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        match take_custom() {
            Some(problem) => Self::Reported { problem, text: None },
            None => Self::Other { problem: problem.to_string(), text: None },
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let (found, expected) = (described(found), expectation(expected));
        Self::Unexpected { is_type: true, found, expected }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let (found, expected) = (described(found), expectation(expected));
        Self::Unexpected { is_type: false, found, expected }
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownVariant { name: name.to_owned(), known }
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownField { name: name.to_owned(), known }
    }

    fn missing_field(name: &'static str) -> Self {
        Self::MissingField(name)
    }
}

impl ValueError {
    /// Adds the text that a type was reading when it reported its problem.
    pub(super) fn with_text(self, last: Option<String>) -> Self {
        match self {
            Self::Other { problem, .. } => Self::Other { problem, text: last },
            Self::Reported { problem, .. } => Self::Reported { problem, text: last },
            other => other,
        }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic().fmt(f)
    }
}

impl std::error::Error for ValueError {}

/// A deserializer of JSON values with errors as data.
pub(super) struct ValueReader<'a> {
    pub(super) value: Value,
    /// The text that was read last. A type that parses it reports its problem before it reads more,
    /// so that the problem is about this text.
    pub(super) last: &'a RefCell<Option<String>>,
}

impl ValueReader<'_> {
    fn items(self, items: Vec<Value>) -> impl Iterator<Item = Self> {
        let last = self.last;
        let end = std::iter::from_fn(move || {
            last.take();
            None
        });
        items.into_iter().map(move |value| Self { value, last }).chain(end)
    }

    fn fields(self, fields: Map<String, Value>) -> impl Iterator<Item = (String, Self)> {
        let last = self.last;
        let end = std::iter::from_fn(move || {
            last.take();
            None
        });
        fields.into_iter().map(move |(name, value)| (name, Self { value, last })).chain(end)
    }
}

impl IntoDeserializer<'_, ValueError> for ValueReader<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for ValueReader<'_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let last = self.last;
        let Self { value, .. } = self;
        let reader = Self { value: Value::Null, last };
        match value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => {
                last.replace(Some(text.clone()));
                visitor.visit_string(text)
            }
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(reader.items(items));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(fields) => {
                let mut fields = MapDeserializer::new(reader.fields(fields));
                let value = visitor.visit_map(&mut fields)?;
                fields.end()?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let last = self.last;
        match self.value {
            Value::String(word) => visitor.visit_enum(word.into_deserializer()),
            Value::Object(fields) if fields.len() == 1 => {
                let reader = Self { value: Value::Null, last };
                let fields = MapDeserializer::new(reader.fields(fields));
                visitor.visit_enum(MapAccessDeserializer::new(fields))
            }
            Value::Object(_) => {
                Err(ValueError::invalid_value(Unexpected::Map, &"map with a single key"))
            }
            other => Err(ValueError::invalid_type(kind_of(&other), &"string or map")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

fn kind_of(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Unexpected::Unsigned(number),
            (None, Some(number)) => Unexpected::Signed(number),
            (None, None) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}
