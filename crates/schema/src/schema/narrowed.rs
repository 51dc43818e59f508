//! Narrows a schema to the values for which more is known, for example that a part is not `null`.
//! The result may allow more values than these, but never fewer.

use std::cell::Cell;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::accepts::Validator;
use super::embedded::part_of;
use super::part_at::{is_note, pointer_names, target};
use super::schema_at::At;

/// A fact about a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// The value exists and is not `null`.
    Present,
    /// The value is equal to this value.
    Is(Value),
}

/// Maximum depth of references and alternatives.
const DEPTH: u32 = 16;
/// Maximum number of visited schemas. References to the same schema in several alternatives double
/// the number at each level.
const LOOKS: u32 = 1_000;

/// A schema that is narrowed by facts about its values, one after the other.
#[derive(Clone, Debug)]
pub struct NarrowedSchema {
    schema: Arc<Value>,
    /// `true` if the schema contains no references, so that a part of it can change independently.
    is_alone: bool,
}

impl NarrowedSchema {
    /// Returns a schema without further facts.
    pub fn of(schema: &Value) -> Self {
        Self { schema: Arc::new(schema.clone()), is_alone: !refers(schema) }
    }

    /// Narrows the schema to the values for which a fact about the part at a JSON Pointer is true.
    /// A fact that cannot be expressed is ignored.
    pub fn add(&mut self, at: &str, fact: &Fact) {
        let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
        let is_simple = match fact {
            Fact::Present => true,
            Fact::Is(value) => is_scalar(value),
        };
        if !(is_simple && self.is_alone && self.add_to_field(at, fact)) {
            let schema = narrowed(&self.schema, at, fact);
            *self = Self { is_alone: !refers(&schema), schema: Arc::new(schema) };
        }
    }

    /// Adds a fact about one field of an object in place, without visiting the rest of a large
    /// schema. Returns false if this is not possible.
    fn add_to_field(&mut self, at: &str, fact: &Fact) -> bool {
        let names: Vec<String> = pointer_names(at).collect();
        let Some((name, rest)) = names.split_first() else { return false };
        let Some(keywords) = self.schema.as_object() else { return false };
        let is_plain =
            |keyword: &String| !["anyOf", "oneOf", "const", "enum"].contains(&keyword.as_str());
        if keywords.get("type").and_then(Value::as_str) != Some("object")
            || !keywords.keys().all(is_plain)
        {
            return false;
        }
        let narrowing = SchemaNarrowing::new(&self.schema, fact);
        // The visit of the object itself counts too.
        narrowing.left.set(LOOKS - 1);
        let Some(of) = field(keywords, name, |of| narrowing.narrow(of, rest, DEPTH - 1)) else {
            return true;
        };
        let is_possible = of != Value::Bool(false);
        if let (true, Some(keywords)) =
            (is_possible, Arc::make_mut(&mut self.schema).as_object_mut())
        {
            require_field(keywords, name, of);
        } else {
            self.schema = Arc::new(Value::Bool(false));
        }
        true
    }

    /// Returns the schema with all facts so far.
    pub fn schema(&self) -> &Value {
        &self.schema
    }
}

/// Returns true if a schema contains a reference or definitions.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key.starts_with('$') || key == "definitions" || refers(value)),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

/// Returns the schema of the values for which a fact about the part at a JSON Pointer is true.
fn narrowed(whole: &Value, at: &str, fact: &Fact) -> Value {
    let names: Vec<String> = pointer_names(at).collect();
    part_of(&SchemaNarrowing::new(whole, fact).narrow(whole, &names, DEPTH), whole)
}

struct SchemaNarrowing<'s> {
    whole: &'s Value,
    fact: &'s Fact,
    validator: Validator,
    /// Remaining number of schemas to visit.
    left: Cell<u32>,
}

impl<'s> SchemaNarrowing<'s> {
    fn new(whole: &'s Value, fact: &'s Fact) -> Self {
        Self { whole, fact, validator: Validator::default(), left: Cell::new(LOOKS) }
    }

    fn narrow(&self, of: &Value, names: &[String], depth: u32) -> Value {
        // The path is consumed, so the fact applies to this schema. A known value replaces it.
        if let (true, Fact::Is(value)) = (names.is_empty(), self.fact) {
            return match self.validator.accepts(At { root: self.whole, schema: of }, value) {
                Some(false) => Value::Bool(false),
                _ => json!({"const": value}),
            };
        }
        let left = self.left.get();
        // Without budget the schema stays as it is: it may allow more values, but never fewer.
        let (Some(keywords), true) = (of.as_object(), depth > 0 && left > 0) else {
            return of.clone();
        };
        self.left.set(left - 1);
        // References and alternatives are followed only if no other keyword restricts the value.
        let others = |own: &str| keywords.keys().any(|keyword| keyword != own && !is_note(keyword));
        if keywords.contains_key("$ref") {
            return match target(self.whole, of).filter(|_| !others("$ref")) {
                Some(to) => self.narrow(to, names, depth - 1),
                None => of.clone(),
            };
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(branches) =
                keywords.get(keyword).and_then(Value::as_array).filter(|_| !others(keyword))
            {
                let mut branches: Vec<Value> =
                    branches.iter().map(|of| self.narrow(of, names, depth - 1)).collect();
                branches.retain(|branch| *branch != Value::Bool(false));
                return match branches.len() {
                    0 => Value::Bool(false),
                    1 => branches.remove(0),
                    _ => json!({keyword: branches}),
                };
            }
        }
        if let Some(value) = keywords.get("const") {
            // A constant either satisfies the fact or makes the schema impossible.
            return if holds(value, names) { of.clone() } else { Value::Bool(false) };
        }
        let mut keywords = keywords.clone();
        if let Some(values) = keywords.get_mut("enum").and_then(Value::as_array_mut) {
            values.retain(|value| holds(value, names));
            if values.is_empty() {
                return Value::Bool(false);
            }
        }
        let types: Vec<String> = match keywords.get("type") {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => {
                all.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
            }
            _ => return of.clone(),
        };
        // Only objects and lists have parts.
        let can_be = |of: &String| match names.is_empty() {
            true => of != "null",
            false => of == "object" || of == "array",
        };
        let mut types: Vec<String> = types.into_iter().filter(can_be).collect();
        match types.len() {
            // No type satisfies the fact, so the schema has no values.
            0 => return Value::Bool(false),
            1 => {
                let only = types.remove(0);
                keywords.insert("type".to_owned(), only.as_str().into());
                if let Some((name, rest)) = names.split_first() {
                    let inner = |of: &Value| self.narrow(of, rest, depth - 1);
                    let is_possible = match only.as_str() {
                        "object" => match field(&keywords, name, inner) {
                            Some(Value::Bool(false)) => false,
                            Some(of) => {
                                require_field(&mut keywords, name, of);
                                true
                            }
                            None => true,
                        },
                        _ => has_item(&mut keywords, name, inner),
                    };
                    if !is_possible {
                        return Value::Bool(false);
                    }
                }
            }
            // With several types, the part cannot be narrowed: its keywords apply to one of them
            // only.
            _ => drop(keywords.insert("type".to_owned(), types.into())),
        }
        Value::Object(keywords)
    }
}

/// Returns true if a value has a part at this path that is not `null`.
fn holds(value: &Value, names: &[String]) -> bool {
    let part = names.iter().try_fold(value, |value, name| match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    });
    part.is_some_and(|part| !part.is_null())
}

/// Returns the narrowed schema of a field: `false` if the field cannot exist, and `None` if its
/// schema is unknown.
fn field(
    keywords: &Map<String, Value>,
    name: &str,
    inner: impl Fn(&Value) -> Value,
) -> Option<Value> {
    let any = Value::Bool(true);
    let own = keywords.get("properties").and_then(|properties| properties.get(name));
    let of = match own {
        Some(of) => of,
        // A pattern may constrain the field further.
        None if keywords.contains_key("patternProperties") => return None,
        None => keywords.get("additionalProperties").unwrap_or(&any),
    };
    Some(inner(of))
}

/// Marks a field as required and sets its schema.
fn require_field(keywords: &mut Map<String, Value>, name: &str, of: Value) {
    let required = keywords.entry("required").or_insert_with(|| json!([]));
    if let Some(names) = required.as_array_mut().filter(|names| !names.iter().any(|of| of == name))
    {
        names.push(name.into());
    }
    if let Some(properties) =
        keywords.entry("properties").or_insert_with(|| json!({})).as_object_mut()
    {
        properties.insert(name.to_owned(), of);
    }
}

/// Marks an item of a list as existing. Returns false if the list cannot have it.
fn has_item(
    keywords: &mut Map<String, Value>,
    name: &str,
    inner: impl Fn(&Value) -> Value,
) -> bool {
    let Ok(at) = name.parse::<usize>() else { return false };
    let is_closed = keywords.get("items") == Some(&Value::Bool(false));
    let prefix = keywords.get_mut("prefixItems").and_then(Value::as_array_mut);
    match prefix.and_then(|prefix| prefix.get_mut(at)) {
        Some(of) => {
            *of = inner(of);
            if *of == Value::Bool(false) {
                return false;
            }
        }
        None if is_closed => return false,
        None => {}
    }
    let least = keywords.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    keywords.insert("minItems".to_owned(), least.max(at as u64 + 1).into());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_present_is_not_null() {
        let is = |schema: Value, at: &str, says: Value| {
            assert_eq!(narrowed(&schema, at, &Fact::Present), says, "{schema} at {at}");
        };
        is(json!({"type": ["string", "null"]}), "", json!({"type": "string"}));
        is(
            json!({"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "n"}),
            "",
            json!({"type": "integer"}),
        );
        is(
            json!({"enum": ["a", null], "type": ["string", "null"]}),
            "",
            json!({"enum": ["a"], "type": "string"}),
        );
        is(json!({"type": "null"}), "", json!(false));
        is(json!(true), "", json!(true));
        is(
            json!({"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}),
            "/a",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        );
        is(
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
            "/a",
            json!(false),
        );
        is(
            json!({"type": "array", "items": {}}),
            "/2",
            json!({"type": "array", "items": {}, "minItems": 3}),
        );
    }

    #[test]
    fn a_type_that_contains_itself_stays_so_within() {
        let next = json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]});
        let chain = json!({"title": "Chain", "type": "object", "properties": {"next": next}});
        let of_next = |to: Value| json!({"title": "Chain", "type": "object", "properties": {"next": to}, "required": ["next"]});
        let within = json!({"anyOf": [{"$ref": "#/$defs/Chain"}, {"type": "null"}]});
        let plain = json!({"title": "Chain", "type": "object", "properties": {"next": within}});
        let mut expected = of_next(plain.clone());
        expected["$defs"] = json!({"Chain": plain});
        assert_eq!(narrowed(&chain, "/next", &Fact::Present), expected);
    }

    #[test]
    fn a_tag_says_which_form_it_is() {
        let form = |tag: &str, field: &str| json!({"type": "object", "properties": {"kind": {"const": tag}, field: {"type": "number"}}, "required": ["kind", field]});
        let shape = json!({"oneOf": [form("circle", "radius"), form("box", "width")]});
        let circle = narrowed(&shape, "/kind", &Fact::Is("circle".into()));
        assert_eq!(circle, form("circle", "radius"));
        assert_eq!(narrowed(&shape, "/kind", &Fact::Is("line".into())), json!(false));
    }
}
