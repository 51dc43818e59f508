//! The JSON form of a [`Mapping`]. It is read key by key, so that an error has the position of the
//! mistake.

use std::fmt;

use agentflow_schema::diagnostic::{Diagnostic, Suggestion, custom};
use agentflow_schema::text::nearest;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::super::mapping_codes;
use super::Mapping;

/// Keys of the JSON form. A mapping has one of them.
const KEYS: [&str; 10] =
    ["from", "state", "template", "error_of", "item", "value", "cel", "first", "object", "list"];

impl From<Mapping> for Value {
    fn from(mapping: Mapping) -> Self {
        match mapping {
            Mapping::From { node, at, or } => read_form("from", node, at, or),
            Mapping::State { key, at, or, optional } => {
                let mut form = read_form("state", key, at, or);
                if optional {
                    form["optional"] = Self::Bool(true);
                }
                form
            }
            Mapping::Template(template) => json!({"template": template}),
            Mapping::ErrorOf(node) => json!({"error_of": node}),
            Mapping::Item(at) => json!({"item": at}),
            Mapping::Value(value) => json!({"value": value}),
            Mapping::Cel(expression) => json!({"cel": expression}),
            Mapping::First(all) => {
                json!({"first": all.into_iter().map(Self::from).collect::<Vec<_>>()})
            }
            Mapping::Object(fields) => {
                let fields: Map<String, Self> =
                    fields.into_iter().map(|(name, value)| (name, value.into())).collect();
                json!({"object": fields})
            }
            Mapping::List(all) => {
                json!({"list": all.into_iter().map(Self::from).collect::<Vec<_>>()})
            }
        }
    }
}

/// Builds the form of a `from` or `state` mapping.
fn read_form(kind: &str, name: String, at: String, or: Option<Value>) -> Value {
    let mut fields = Map::from_iter([(kind.to_owned(), Value::String(name))]);
    if !at.is_empty() {
        fields.insert("at".to_owned(), Value::String(at));
    }
    if let Some(or) = or {
        fields.insert("or".to_owned(), or);
    }
    Value::Object(fields)
}

impl<'de> Deserialize<'de> for Mapping {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MappingReader)
    }
}

/// Reads a mapping key by key, so that the deserializer knows the position of a mistake.
struct MappingReader;

impl<'de> Visitor<'de> for MappingReader {
    type Value = Mapping;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping, such as {\"from\": \"page\"} or {\"value\": 5}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Mapping, A::Error> {
        let mut mapping: Option<(String, Mapping)> = None;
        let (mut part, mut other, mut left_out) = (None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            let of = match key.as_str() {
                "from" => Mapping::from(map.next_value::<String>()?),
                "state" => Mapping::state(map.next_value::<String>()?),
                "template" => Mapping::Template(map.next_value()?),
                "error_of" => Mapping::ErrorOf(map.next_value()?),
                "item" => Mapping::Item(map.next_value::<Pointer>()?.0),
                "value" => Mapping::Value(map.next_value()?),
                "cel" => Mapping::Cel(map.next_value()?),
                "first" => Mapping::First(map.next_value()?),
                "object" => Mapping::Object(map.next_value()?),
                "list" => Mapping::List(map.next_value()?),
                "at" => {
                    part = Some(map.next_value::<Pointer>()?.0);
                    continue;
                }
                "or" => {
                    other = Some(map.next_value()?);
                    continue;
                }
                "optional" => {
                    left_out = Some(map.next_value::<bool>()?);
                    continue;
                }
                unknown => {
                    let near = nearest(unknown, KEYS.into_iter().chain(["at", "or", "optional"]));
                    let found = Diagnostic::new(mapping_codes::UNKNOWN_KEY).name("key", unknown);
                    return Err(custom(found.suggest(Suggestion::similar(near))));
                }
            };
            if let Some((first, _)) = &mapping {
                let found = Diagnostic::new(mapping_codes::TWO_KEYS).name("first", first);
                return Err(custom(found.name("key", key)));
            }
            mapping = Some((key, of));
        }
        // Keys come in any order, so the keys are combined only now. `at` and `or` belong to `from`
        // and `state`, and `optional` to `state`.
        match (mapping, part, other, left_out) {
            (Some((_, Mapping::State { key, .. })), at, or, optional) => {
                let optional = optional.unwrap_or_default();
                if optional && or.is_some() {
                    let found = Diagnostic::new(mapping_codes::TWO_KEYS).name("first", "or");
                    return Err(custom(found.name("key", "optional")));
                }
                Ok(Mapping::State { key, at: at.unwrap_or_default(), or, optional })
            }
            (Some((_, Mapping::From { node, .. })), at, or, None) => {
                Ok(Mapping::From { node, at: at.unwrap_or_default(), or })
            }
            (Some((_, mapping)), None, None, None) => Ok(mapping),
            (Some((key, _)), part, other, _) => {
                let extra = match (part.is_some(), other.is_some()) {
                    (true, _) => "at",
                    (false, true) => "or",
                    (false, false) => "optional",
                };
                let found = Diagnostic::new(mapping_codes::EXTRA_KEY).name("key", key);
                Err(custom(found.name("extra", extra)))
            }
            (None, ..) => Err(custom(Diagnostic::new(mapping_codes::NO_KEY).names("keys", KEYS))),
        }
    }
}

/// A JSON Pointer.
struct Pointer(String);

impl<'de> Deserialize<'de> for Pointer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pointer(String::deserialize(deserializer)?).map(Self).map_err(custom)
    }
}

/// Checks that a string is a JSON Pointer: empty, or with `/` as its first character.
pub(in crate::workflow) fn pointer(text: String) -> Result<String, Diagnostic> {
    match text.is_empty() || text.starts_with('/') {
        true => Ok(text),
        false => {
            // Suggest a pointer for a path in the syntax of other languages, such as `$.a.b`.
            let path = text.trim_start_matches(['$', '.']).replace('.', "/");
            let found = Diagnostic::new(mapping_codes::NOT_A_POINTER).name("pointer", &text);
            Err(found.text("path", path))
        }
    }
}
