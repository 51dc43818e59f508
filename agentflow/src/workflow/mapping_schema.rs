//! The JSON Schema of what a mapping makes, from those of the outputs that it reads. What is not known of an output is any
//! value; nothing is computed at run time.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::input_schema::input_object_schema;
use super::mapping::Mapping;
use crate::schema::words;
use crate::text::nearest;

/// The schemas of the outputs of nodes, by their names.
pub(super) type Schemas<'g> = HashMap<&'g str, Value>;

/// The schema of what a mapping makes; `item` is that of `{"item": ""}`.
pub(super) fn schema_of(mapping: &Mapping, outputs: &Schemas<'_>, item: &Value) -> Value {
    let inner = |mapping: &Mapping| schema_of(mapping, outputs, item);
    match mapping {
        Mapping::From { node, at, or } => {
            let of = outputs.get(node.as_str()).map_or(Value::Bool(true), |schema| part(schema, at));
            match or {
                Some(or) => one_of(vec![of, json!({"const": or})]),
                None => of,
            }
        }
        Mapping::ErrorOf(_) => json!({"anyOf": [{"type": "null"}, {
            "type": "object",
            "properties": {"kind": {"type": "string"}, "message": {"type": "string"}},
            "required": ["kind", "message"],
            "additionalProperties": false
        }]}),
        Mapping::Item(at) => part(item, at),
        Mapping::Value(value) => json!({"const": value}),
        Mapping::Object(fields) => {
            input_object_schema(fields.iter().map(|(name, mapping)| (name.clone(), inner(mapping))))
        }
        Mapping::List(all) => {
            let (items, definitions) = together(all.iter().map(inner).collect());
            let count = items.len();
            // An empty list of schemas is not one.
            let list = match items.is_empty() {
                true => json!({"type": "array", "maxItems": 0}),
                false => json!({"type": "array", "prefixItems": items, "items": false, "minItems": count}),
            };
            with_definitions(list, definitions)
        }
    }
}

/// A list of values of a schema.
pub(super) fn list_of(schema: Value) -> Value {
    let (mut items, definitions) = together(vec![schema]);
    with_definitions(json!({"type": "array", "items": items.pop()}), definitions)
}

/// A value of one of several schemas.
pub(super) fn one_of(schemas: Vec<Value>) -> Value {
    let (mut branches, definitions) = together(schemas);
    if branches.contains(&Value::Bool(true)) {
        return Value::Bool(true);
    }
    branches.dedup();
    match branches.len() {
        1 => with_definitions(branches.remove(0), definitions),
        _ => with_definitions(json!({"anyOf": branches}), definitions),
    }
}

/// Schemas that stand in one whole, with what they refer to.
fn together(schemas: Vec<Value>) -> (Vec<Value>, Option<Value>) {
    let count = schemas.len();
    let named = schemas.into_iter().enumerate().map(|(at, schema)| (at.to_string(), schema));
    let mut whole = input_object_schema(named);
    let definitions = whole.as_object_mut().and_then(|whole| whole.remove("$defs"));
    ((0..count).map(|at| whole["properties"][at.to_string()].take()).collect(), definitions)
}

fn with_definitions(mut schema: Value, definitions: Option<Value>) -> Value {
    if let (Some(keywords), Some(definitions)) = (schema.as_object_mut(), definitions) {
        keywords.insert("$defs".to_owned(), definitions);
    }
    schema
}

/// What a schema says of the part of a value at a JSON Pointer.
pub(super) fn part(whole: &Value, at: &str) -> Value {
    let mut of = whole;
    for name in at.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let Some(next) = referred(whole, of, 8).and_then(|of| step(of, &name)) else { return Value::Bool(true) };
        of = next;
    }
    if at.is_empty() {
        return whole.clone();
    }
    let mut part = of.clone();
    if let (Some(keywords), Some(definitions)) = (part.as_object_mut(), whole.get("$defs"))
        && keywords.contains_key("$ref") | of.to_string().contains("\"$ref\"")
    {
        keywords.insert("$defs".to_owned(), definitions.clone());
    }
    match refers_elsewhere(&part) {
        true => Value::Bool(true),
        false => part,
    }
}

/// Why a value of a schema has nothing at a JSON Pointer, as far as that is stated; also why it may have nothing, unless
/// that `may_miss`.
pub(super) fn lacks(whole: &Value, at: &str, may_miss: bool) -> Option<String> {
    let mut of = whole;
    for name in at.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        of = referred(whole, of, 8)?;
        if let Some(lack) = lacks_step(of, whole, &name, may_miss) {
            return Some(lack);
        }
        of = step(of, &name)?;
    }
    None
}

fn lacks_step(of: &Value, whole: &Value, name: &str, may_miss: bool) -> Option<String> {
    let keywords = of.as_object().filter(|keywords| is_plain(keywords))?;
    match keywords.get("type")?.as_str()? {
        "object" => {
            let properties = keywords.get("properties").and_then(Value::as_object)?;
            let required = keywords.get("required").and_then(Value::as_array);
            let is_required = || required.is_some_and(|names| names.iter().any(|required| required == name));
            let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false));
            match properties.contains_key(name) {
                true if may_miss || is_required() => None,
                true => Some(format!("`{name}` may be missing; say what is read then with `or`")),
                false if !is_closed => None,
                false => Some(match nearest(name, properties.keys().map(String::as_str)) {
                    Some(near) => format!("it has no `{name}`; did you mean `{near}`?"),
                    None if properties.is_empty() => "it has no fields".to_owned(),
                    None => {
                        let all: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
                        format!("it has no `{name}`; it has {}", all.join(", "))
                    }
                }),
            }
        }
        "array" => {
            let Ok(place) = name.parse::<u64>() else {
                return Some(format!("it is a list, whose items are at numbers from `0`, and not at `{name}`"));
            };
            let prefix = keywords.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len) as u64;
            let is_closed = keywords.get("items") == Some(&Value::Bool(false));
            let most = keywords.get("maxItems").and_then(Value::as_u64).or(is_closed.then_some(prefix));
            most.filter(|most| place >= *most).map(|most| format!("it is a list of at most {most} items"))
        }
        _ => Some(format!("`{name}` is looked for in a value that has no parts: {}", words(of, whole))),
    }
}

fn referred<'s>(whole: &'s Value, of: &'s Value, depth: u32) -> Option<&'s Value> {
    match of.get("$ref").and_then(Value::as_str) {
        _ if depth == 0 => None,
        Some(to) => referred(whole, whole.pointer(to.strip_prefix('#')?)?, depth - 1),
        None => Some(of),
    }
}

fn step<'s>(of: &'s Value, name: &str) -> Option<&'s Value> {
    let keywords = of.as_object()?;
    let is_plain = is_plain(keywords);
    match keywords.get("type")?.as_str()? {
        "object" if is_plain => {
            let properties = keywords.get("properties").and_then(Value::as_object);
            properties
                .and_then(|all: &Map<String, Value>| all.get(name))
                .or_else(|| keywords.get("additionalProperties"))
        }
        "array" if is_plain => {
            let place: usize = name.parse().ok()?;
            keywords.get("prefixItems").and_then(|all| all.get(place)).or_else(|| keywords.get("items"))
        }
        _ => None,
    }
}

/// Whether nothing but its own keywords says which parts there are.
fn is_plain(keywords: &Map<String, Value>) -> bool {
    ["anyOf", "oneOf", "allOf", "if", "not", "patternProperties", "unevaluatedProperties"]
        .iter()
        .all(|choice| !keywords.contains_key(*choice))
}

/// Whether it refers to what is not among its definitions.
fn refers_elsewhere(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => keywords.iter().any(|(keyword, value)| match (keyword.as_str(), value) {
            ("$ref", Value::String(to)) => !to.starts_with("#/$defs/"),
            (_, value) => refers_elsewhere(value),
        }),
        Value::Array(all) => all.iter().any(refers_elsewhere),
        _ => false,
    }
}
