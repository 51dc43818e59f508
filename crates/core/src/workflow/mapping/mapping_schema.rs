//! Derives the JSON Schema of a mapping's value from the schemas of the outputs that it reads. An
//! unknown schema accepts any value.

use std::collections::HashMap;

use agentflow_schema::schema::{Definitions, NarrowedSchema, part_at};
use agentflow_schema::template::Template;
use serde_json::{Value, json};

use super::super::input_schema::input_object_schema;
use super::{Mapping, PlaceholderRoot};

/// Schemas of the outputs of nodes by name, with the facts that are known at a position in the
/// graph.
#[derive(Clone, Copy)]
pub(in crate::workflow) struct Schemas<'s> {
    pub(in crate::workflow) all: &'s HashMap<&'s str, Value>,
    /// Schemas that facts known at this position narrow down.
    pub(in crate::workflow) narrow: &'s HashMap<String, NarrowedSchema>,
}

impl<'s> Schemas<'s> {
    pub(in crate::workflow) fn get(self, node: &str) -> Option<&'s Value> {
        self.narrow.get(node).map(NarrowedSchema::schema).or_else(|| self.all.get(node))
    }
}

/// Maximum number of values in a derived schema. Each node may double the schemas before it, so a
/// small graph could otherwise have a schema that fills the memory. A larger schema is replaced by
/// a schema that accepts any value.
const LARGEST: usize = 1 << 13;

/// Derives the schema of a mapping's value. `item` is the schema of `{"item": ""}`.
pub(in crate::workflow) fn schema_of(
    mapping: &Mapping,
    outputs: Schemas<'_>,
    item: &Value,
) -> Value {
    let schema = whole_schema_of(mapping, outputs, item);
    let mut left = LARGEST;
    match fits(&schema, &mut left) {
        true => schema,
        false => Value::Bool(true),
    }
}

/// Returns true if the schema has fewer than `left` values. Stops counting there.
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
        // The values that steps save are unknown before they run.
        Mapping::State { .. } => Value::Bool(true),
        // The type is checked where the expression is a condition.
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
            // JSON Schema does not allow an empty list of schemas.
            let mut list = match items.is_empty() {
                true => json!({"type": "array", "maxItems": 0}),
                false => {
                    json!({"type": "array", "prefixItems": items, "items": false, "minItems": count})
                }
            };
            definitions.add_to(&mut list);
            list
        }
    }
}

/// Derives the schema of a filled template: a string, or the schema of the only placeholder's
/// value.
fn schema_of_text(template: &Template, outputs: Schemas<'_>) -> Value {
    let Some(only) = template.only() else { return json!({"type": "string"}) };
    match PlaceholderRoot::resolve(only, &|name| outputs.get(name).is_some()) {
        (PlaceholderRoot::Node(node), parts) if !only.is_optional() => outputs
            .get(node)
            .map_or(Value::Bool(true), |schema| part_at(schema, &pointer_of(parts))),
        _ => Value::Bool(true),
    }
}

/// Returns the JSON Pointer of a path.
pub(in crate::workflow) fn pointer_of(parts: &[String]) -> String {
    parts.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Returns the schema of a list of values.
pub(in crate::workflow) fn list_of(schema: &Value) -> Value {
    let mut definitions = Definitions::default();
    let mut list = json!({"type": "array", "items": definitions.embed(schema)});
    definitions.add_to(&mut list);
    list
}

/// Returns the schema of a value that fits one of several schemas.
pub(in crate::workflow) fn one_of(mut schemas: Vec<Value>) -> Value {
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
