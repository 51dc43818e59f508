//! A schema of those values of another schema of which something more is known, such as that a part is not `null`. It
//! may allow more than these; it never leaves one out.

use std::cell::Cell;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::accepts::Validator;
use super::embedded::part_of;
use super::part_at::{is_note, pointer_names, target};
use super::schema_at::At;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// It is there, and it is not `null`.
    Present,
    /// It is this one.
    Is(Value),
}

/// How deep references and choices are followed.
const DEPTH: u32 = 16;
/// The most schemas that are looked at: references to the same schema in several choices double them at each level.
const LOOKS: u32 = 1_000;

/// A schema to which is added, fact after fact, what is known of its values.
#[derive(Clone, Debug)]
pub struct NarrowedSchema {
    schema: Arc<Value>,
    /// Whether it refers to nothing: then a part of it can change by itself.
    is_alone: bool,
}

impl NarrowedSchema {
    /// A schema of whose values nothing more is known.
    pub fn of(schema: &Value) -> Self {
        Self { schema: Arc::new(schema.clone()), is_alone: !refers(schema) }
    }

    /// Leaves those values whose part at a JSON Pointer is so, as far as that is said.
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

    /// The same of one field of an object, in place: all else stays what it is, however much that is. `false` when that cannot
    /// be done.
    fn add_to_field(&mut self, at: &str, fact: &Fact) -> bool {
        let names: Vec<String> = pointer_names(at).collect();
        let Some((name, rest)) = names.split_first() else { return false };
        let Some(keywords) = self.schema.as_object() else { return false };
        let is_plain = |keyword: &String| !["anyOf", "oneOf", "const", "enum"].contains(&keyword.as_str());
        if keywords.get("type").and_then(Value::as_str) != Some("object") || !keywords.keys().all(is_plain) {
            return false;
        }
        let narrowing = Narrowing::new(&self.schema, fact);
        // The object itself was looked at.
        narrowing.left.set(LOOKS - 1);
        let Some(of) = field(keywords, name, |of| narrowing.narrow(of, rest, DEPTH - 1)) else { return true };
        let is_possible = of != Value::Bool(false);
        if let (true, Some(keywords)) = (is_possible, Arc::make_mut(&mut self.schema).as_object_mut()) {
            add_field(keywords, name, of);
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

/// Whether anything in a schema refers to something.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| key.starts_with('$') || key == "definitions" || refers(value))
        }
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

/// The values of a schema whose part at a JSON Pointer is so.
fn narrowed(whole: &Value, at: &str, fact: &Fact) -> Value {
    let names: Vec<String> = pointer_names(at).collect();
    part_of(&Narrowing::new(whole, fact).narrow(whole, &names, DEPTH), whole)
}

struct Narrowing<'s> {
    whole: &'s Value,
    fact: &'s Fact,
    validator: Validator,
    /// How many schemas are still looked at.
    left: Cell<u32>,
}

impl<'s> Narrowing<'s> {
    fn new(whole: &'s Value, fact: &'s Fact) -> Self {
        Self { whole, fact, validator: Validator::default(), left: Cell::new(LOOKS) }
    }

    fn narrow(&self, of: &Value, names: &[String], depth: u32) -> Value {
        if let (true, Fact::Is(value)) = (names.is_empty(), self.fact) {
            return match self.validator.accepts(At { root: self.whole, schema: of }, value) {
                Some(false) => Value::Bool(false),
                _ => json!({"const": value}),
            };
        }
        let left = self.left.get();
        let (Some(keywords), true) = (of.as_object(), depth > 0 && left > 0) else { return of.clone() };
        self.left.set(left - 1);
        let others = |own: &str| keywords.keys().any(|keyword| keyword != own && !is_note(keyword));
        if keywords.contains_key("$ref") {
            return match target(self.whole, of).filter(|_| !others("$ref")) {
                Some(to) => self.narrow(to, names, depth - 1),
                None => of.clone(),
            };
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(branches) = keywords.get(keyword).and_then(Value::as_array).filter(|_| !others(keyword)) {
                let mut branches: Vec<Value> = branches.iter().map(|of| self.narrow(of, names, depth - 1)).collect();
                branches.retain(|branch| *branch != Value::Bool(false));
                return match branches.len() {
                    0 => Value::Bool(false),
                    1 => branches.remove(0),
                    _ => json!({keyword: branches}),
                };
            }
        }
        if let Some(value) = keywords.get("const") {
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
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
            _ => return of.clone(),
        };
        let can_be = |of: &String| match names.is_empty() {
            true => of != "null",
            false => of == "object" || of == "array",
        };
        let mut types: Vec<String> = types.into_iter().filter(can_be).collect();
        match types.len() {
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
                                add_field(&mut keywords, name, of);
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
            _ => drop(keywords.insert("type".to_owned(), types.into())),
        }
        Value::Object(keywords)
    }
}

/// Whether a value has a part that is not `null`.
fn holds(value: &Value, names: &[String]) -> bool {
    let part = names.iter().try_fold(value, |value, name| match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    });
    part.is_some_and(|part| !part.is_null())
}

/// What an object's field is when it is there, `false` when it cannot be; nothing where that is not known.
fn field(keywords: &Map<String, Value>, name: &str, inner: impl Fn(&Value) -> Value) -> Option<Value> {
    let any = Value::Bool(true);
    let own = keywords.get("properties").and_then(|properties| properties.get(name));
    let of = match own {
        Some(of) => of,
        // A pattern may say more of it.
        None if keywords.contains_key("patternProperties") => return None,
        None => keywords.get("additionalProperties").unwrap_or(&any),
    };
    Some(inner(of))
}

/// Notes that an object has a field.
fn add_field(keywords: &mut Map<String, Value>, name: &str, of: Value) {
    let required = keywords.entry("required").or_insert_with(|| json!([]));
    if let Some(names) = required.as_array_mut().filter(|names| !names.iter().any(|of| of == name)) {
        names.push(name.into());
    }
    if let Some(properties) = keywords.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        properties.insert(name.to_owned(), of);
    }
}

/// Notes that a list has an item; `false` when it cannot have it.
fn has_item(keywords: &mut Map<String, Value>, name: &str, inner: impl Fn(&Value) -> Value) -> bool {
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
        is(json!({"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "n"}), "", json!({"type": "integer"}));
        is(json!({"enum": ["a", null], "type": ["string", "null"]}), "", json!({"enum": ["a"], "type": "string"}));
        is(json!({"type": "null"}), "", json!(false));
        is(json!(true), "", json!(true));
        is(
            json!({"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}),
            "/a",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        );
        is(json!({"type": "object", "properties": {}, "additionalProperties": false}), "/a", json!(false));
        is(json!({"type": "array", "items": {}}), "/2", json!({"type": "array", "items": {}, "minItems": 3}));
    }

    #[test]
    fn a_type_that_contains_itself_stays_so_within() {
        let next = json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]});
        let chain = json!({"title": "Chain", "type": "object", "properties": {"next": next}});
        let of_next =
            |to: Value| json!({"title": "Chain", "type": "object", "properties": {"next": to}, "required": ["next"]});
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
