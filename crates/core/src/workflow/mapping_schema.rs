//! The JSON Schema of what a mapping makes, from those of the outputs that it reads. What is not known of an output is any
//! value; nothing is computed at run time.

use std::collections::HashMap;

use agentflow_schema::schema::{Definitions, NarrowedSchema, part_at};
use agentflow_schema::template::Template;
use serde_json::{Value, json};

use super::input_schema::input_object_schema;
use super::mapping::{Mapping, Root};

/// The schemas of the outputs of nodes, by their names, as far as they are known at a place.
#[derive(Clone, Copy)]
pub(super) struct Schemas<'s> {
    pub(super) all: &'s HashMap<&'s str, Value>,
    /// Those of which more is known there.
    pub(super) narrow: &'s HashMap<String, NarrowedSchema>,
}

impl<'s> Schemas<'s> {
    pub(super) fn get(self, node: &str) -> Option<&'s Value> {
        self.narrow.get(node).map(NarrowedSchema::schema).or_else(|| self.all.get(node))
    }
}

/// As many values a schema may have that a mapping makes of others. Each node may double what the nodes before it gave, so
/// a small graph could otherwise have a schema that no memory holds; of a larger one nothing is said.
const LARGEST: usize = 1 << 13;

/// The schema of what a mapping makes; `item` is that of `{"item": ""}`.
pub(super) fn schema_of(mapping: &Mapping, outputs: Schemas<'_>, item: &Value) -> Value {
    let schema = whole_schema_of(mapping, outputs, item);
    let mut left = LARGEST;
    match fits(&schema, &mut left) {
        true => schema,
        false => Value::Bool(true),
    }
}

/// Whether there are no more values than may be left; looks at no more than that.
fn fits(schema: &Value, left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    *left > 0
        && match schema {
            Value::Object(fields) => fields.values().all(|value| fits(value, left)),
            Value::Array(items) => items.iter().all(|value| fits(value, left)),
            _ => true,
        }
}

fn whole_schema_of(mapping: &Mapping, outputs: Schemas<'_>, item: &Value) -> Value {
    let inner = |mapping: &Mapping| schema_of(mapping, outputs, item);
    match mapping {
        Mapping::From { node, at, or } => {
            let of = outputs.get(node).map_or(Value::Bool(true), |schema| part_at(schema, at));
            match or {
                Some(or) => one_of(vec![of, json!({"const": or})]),
                None => of,
            }
        }
        // What steps save is not known before they run.
        Mapping::State { .. } => Value::Bool(true),
        // Its type is checked where it is a condition.
        Mapping::Cel(_) => Value::Bool(true),
        Mapping::Template(template) => schema_of_text(template, outputs),
        Mapping::ErrorOf(_) => json!({"anyOf": [{"type": "null"}, {
            "type": "object",
            "properties": {"kind": {"type": "string"}, "message": {"type": "string"}},
            "required": ["kind", "message"],
            "additionalProperties": false
        }]}),
        Mapping::Item(at) => part_at(item, at),
        Mapping::Value(value) => json!({"const": value}),
        Mapping::First(all) if all.is_empty() => Value::Bool(true),
        Mapping::First(all) => one_of(all.iter().map(inner).collect()),
        Mapping::Object(fields) => {
            input_object_schema(fields.iter().map(|(name, mapping)| (name.clone(), inner(mapping))))
        }
        Mapping::List(all) => {
            let mut definitions = Definitions::default();
            let items: Vec<Value> = all.iter().map(|of| definitions.embed(&inner(of))).collect();
            let count = items.len();
            // An empty list of schemas is not one.
            let mut list = match items.is_empty() {
                true => json!({"type": "array", "maxItems": 0}),
                false => json!({"type": "array", "prefixItems": items, "items": false, "minItems": count}),
            };
            definitions.add_to(&mut list);
            list
        }
    }
}

/// The schema of a filled template: a text, or what its only placeholder stands for.
fn schema_of_text(template: &Template, outputs: Schemas<'_>) -> Value {
    let Some(only) = template.only() else { return json!({"type": "string"}) };
    match Root::of(only, &|name| outputs.get(name).is_some()) {
        (Root::Node(node), parts) if !only.is_optional() => {
            outputs.get(node).map_or(Value::Bool(true), |schema| part_at(schema, &pointer_of(parts)))
        }
        _ => Value::Bool(true),
    }
}

/// The JSON Pointer of the names of a path.
pub(super) fn pointer_of(parts: &[String]) -> String {
    parts.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

/// A list of values of a schema.
pub(super) fn list_of(schema: &Value) -> Value {
    let mut definitions = Definitions::default();
    let mut list = json!({"type": "array", "items": definitions.embed(schema)});
    definitions.add_to(&mut list);
    list
}

/// A value of one of several schemas.
pub(super) fn one_of(mut schemas: Vec<Value>) -> Value {
    if schemas.contains(&Value::Bool(true)) {
        return Value::Bool(true);
    }
    schemas.dedup();
    if schemas.len() == 1 {
        return schemas.remove(0);
    }
    let mut definitions = Definitions::default();
    let branches: Vec<Value> = schemas.iter().map(|schema| definitions.embed(schema)).collect();
    let mut one = json!({"anyOf": branches});
    definitions.add_to(&mut one);
    one
}
