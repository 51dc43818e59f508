//! Reads JSON Schemas: schemas with their root, references, types and numbers. It compares no
//! schemas.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Formats that are validated. Other formats are annotations.
const CHECKED_FORMATS: [&str; 19] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// Returns true if this format is validated, in every draft.
pub(super) fn is_checked_format(format: &Value) -> bool {
    format.as_str().is_some_and(|format| CHECKED_FORMATS.contains(&format))
}

/// A schema, with the root schema into which its references point.
#[derive(Clone, Copy)]
pub(super) struct At<'s> {
    pub(super) root: &'s Value,
    pub(super) schema: &'s Value,
}

pub(super) static ANY: Value = Value::Bool(true);

impl<'s> At<'s> {
    pub(super) const fn root(schema: &'s Value) -> Self {
        Self { root: schema, schema }
    }

    pub(super) const fn with_schema(self, schema: &'s Value) -> Self {
        Self { root: self.root, schema }
    }

    pub(super) fn keywords(self) -> Option<&'s Map<String, Value>> {
        self.schema.as_object()
    }

    pub(super) fn get(self, keyword: &str) -> Option<&'s Value> {
        self.keywords()?.get(keyword)
    }

    /// Returns the schemas of a list such as `anyOf`.
    pub(super) fn list(self, keyword: &str) -> Option<impl Iterator<Item = At<'s>> + Clone> {
        let list = self.get(keyword)?.as_array()?;
        Some(list.iter().map(move |schema| self.with_schema(schema)))
    }

    /// Returns the target of `$ref`, within the same root.
    pub(super) fn referred(self) -> Option<At<'s>> {
        let to = self.get("$ref")?.as_str()?.strip_prefix('#')?;
        Some(self.with_schema(self.root.pointer(to)?))
    }

    /// Returns true if the schema has the same meaning in draft 2020-12, and uses only supported
    /// keywords.
    pub(super) fn is_supported(self) -> bool {
        let Some(keywords) = self.keywords() else { return self.schema.is_boolean() };
        let has = |keyword: &str| keywords.contains_key(keyword);
        let of_draft = |draft: &Value| {
            draft.as_str().is_some_and(|draft| {
                draft.contains("2020-12") || draft.contains("2019-09") || draft.contains("draft-0")
            })
        };
        let elsewhere = [
            "$id",
            "$anchor",
            "$dynamicRef",
            "$dynamicAnchor",
            "$recursiveRef",
            "id",
            "dependencies",
        ]
        .into_iter()
        .any(has);
        // In earlier drafts, keywords next to a reference are ignored.
        let is_earlier =
            || self.root.get("$schema").is_some_and(|draft| !draft.to_string().contains("2020-12"));
        let reference = !has("$ref") || (self.referred().is_some() && !is_earlier());
        let is_list = keywords.get("items").is_some_and(Value::is_array);
        reference && !elsewhere && !is_list && keywords.get("$schema").is_none_or(of_draft)
    }

    pub(super) fn required(self) -> impl Iterator<Item = &'s str> {
        self.get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    pub(super) fn properties(self) -> impl Iterator<Item = (&'s String, At<'s>)> {
        let properties = self.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten().map(move |(name, schema)| (name, self.with_schema(schema)))
    }

    pub(super) fn property(self, name: &str) -> Option<At<'s>> {
        Some(self.with_schema(self.get("properties")?.as_object()?.get(name)?))
    }

    pub(super) fn has_patterns(self) -> bool {
        self.get("patternProperties")
            .and_then(Value::as_object)
            .is_some_and(|patterns| !patterns.is_empty())
    }

    pub(super) fn prefix(self) -> &'s [Value] {
        self.get("prefixItems").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns the schema of an item at a position of a list.
    pub(super) fn item(self, at: usize) -> At<'s> {
        self.with_schema(self.prefix().get(at).or_else(|| self.get("items")).unwrap_or(&ANY))
    }

    pub(super) fn count(self, keyword: &str) -> Option<u64> {
        let count = self.get(keyword)?;
        count.as_u64().or_else(|| {
            count
                .as_f64()
                .filter(|count| count.fract() == 0.0 && *count >= 0.0)
                .map(|count| count as u64)
        })
    }
}

/// The types of JSON Schema. `Integer` is a subset of `Number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Type {
    /// Disjoint types that together contain all values. `Number` includes the integers.
    pub(super) const ALL: [Self; 6] =
        [Self::Null, Self::Boolean, Self::Number, Self::String, Self::Array, Self::Object];

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::String,
            "array" => Self::Array,
            "object" => Self::Object,
            _ => return None,
        })
    }

    /// Returns the types that a schema names, or `None` if it has no `type`.
    pub(super) fn declared_by(at: At<'_>) -> Option<Vec<Self>> {
        match at.get("type")? {
            Value::String(name) => Some(Self::named(name).into_iter().collect()),
            Value::Array(names) => {
                Some(names.iter().filter_map(|name| Self::named(name.as_str()?)).collect())
            }
            _ => Some(Vec::new()),
        }
    }

    pub(super) fn has(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Null, Value::Null)
            | (Self::Boolean, Value::Bool(_))
            | (Self::Number, Value::Number(_))
            | (Self::String, Value::String(_))
            | (Self::Array, Value::Array(_))
            | (Self::Object, Value::Object(_)) => true,
            (Self::Integer, Value::Number(number)) => is_integer(number),
            _ => false,
        }
    }

    /// Returns true if every value of this type has the other type.
    pub(super) fn is_within(self, other: Self) -> bool {
        self == other || (self == Self::Integer && other == Self::Number)
    }
}

pub(super) fn is_integer(number: &Number) -> bool {
    number.is_i64()
        || number.is_u64()
        || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Compares two numbers. The comparison is exact for 64-bit integers.
pub(super) fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Returns true if two values are equal. `1` equals `1.0`.
pub(super) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Some(Ordering::Equal),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|other| equal(value, other)))
        }
        _ => one == other,
    }
}
