//! A schema of those values of another schema of which something more is known, such as that a part is not `null`. It
//! may allow more than these; it never leaves one out.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::accepts::Validator;
use super::embedded::part_of;
use super::part_at::{is_note, pointer_names, target};
use super::schema_at::At;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fact {
    /// It is there, and it is not `null`.
    Present,
    /// It is this one.
    Is(Value),
}

/// How deep references and choices are followed.
const DEPTH: u32 = 16;
/// The most schemas that are looked at: references to the same schema in several choices double them at each level.
const LOOKS: u32 = 1_000;

/// The values of a schema whose part at a JSON Pointer is so.
pub(crate) fn narrowed(whole: &Value, at: &str, fact: &Fact) -> Value {
    let names: Vec<String> = pointer_names(at).collect();
    let narrowing = Narrowing { whole, fact, validator: Validator::default(), left: Cell::new(LOOKS) };
    part_of(&narrowing.narrow(whole, &names, DEPTH), whole)
}

struct Narrowing<'s> {
    whole: &'s Value,
    fact: &'s Fact,
    validator: Validator,
    /// How many schemas are still looked at.
    left: Cell<u32>,
}

impl Narrowing<'_> {
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
                        "object" => has_field(&mut keywords, name, inner),
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

/// Notes that an object has a field; `false` when it cannot have it.
fn has_field(keywords: &mut Map<String, Value>, name: &str, inner: impl Fn(&Value) -> Value) -> bool {
    let any = Value::Bool(true);
    let own = keywords.get("properties").and_then(|properties| properties.get(name));
    let of = match own {
        Some(of) => of,
        // A pattern may say more of it.
        None if keywords.contains_key("patternProperties") => return true,
        None => keywords.get("additionalProperties").unwrap_or(&any),
    };
    let of = inner(of);
    if of == Value::Bool(false) {
        return false;
    }
    let required = keywords.entry("required").or_insert_with(|| json!([]));
    if let Some(names) = required.as_array_mut().filter(|names| !names.iter().any(|of| of == name)) {
        names.push(name.into());
    }
    if let Some(properties) = keywords.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        properties.insert(name.to_owned(), of);
    }
    true
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
