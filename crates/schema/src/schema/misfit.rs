//! Describes the places where a value does not conform to a schema: the expectation, and the type
//! that the other schema gives there.

use std::cell::Cell;

use serde_json::Value;

use super::accepts::Validator;
use super::schema_at::{At, Type};
use super::{MOST, SchemaMismatch};

/// Maximum number of schemas that are read to distinguish a wrong type from a wrong value.
const LOOKS: u32 = 1_000;

/// Collects the mismatches.
pub(super) struct MismatchCollector<'s> {
    from: At<'s>,
    as_stated: bool,
    validator: Validator,
    pub(super) places: Vec<SchemaMismatch>,
}

#[derive(Clone)]
enum PathStep {
    Field(String),
    Item(usize),
}

/// The reason of a mismatch.
#[derive(Clone, Copy, PartialEq)]
enum Why {
    /// The value has the wrong type.
    Type,
    /// The type matches but the value does not, for example because of a limit.
    Value,
    /// A field is missing.
    Missing,
    /// A field is not allowed.
    Unknown,
}

impl<'s> MismatchCollector<'s> {
    pub(super) fn new(from: At<'s>, as_stated: bool) -> Self {
        Self { from, as_stated, validator: Validator::default(), places: Vec::new() }
    }

    fn add(&mut self, whole: &Value, path: &[PathStep], why: Why, expected: String) {
        let places = reached(self.from, path);
        let holder = reached(self.from, &path[..path.len().saturating_sub(1)]);
        if self.as_stated && !is_stated(&places, &holder, why) {
            return;
        }
        let given = match why {
            Why::Missing => "sometimes nothing".to_owned(),
            _ => {
                let mut given: Vec<String> = places.iter().map(|at| words(*at)).collect();
                given.dedup();
                if given.is_empty() { "another field".to_owned() } else { given.join(" or ") }
            }
        };
        let path = path.iter().fold(String::new(), |path, step| match step {
            PathStep::Item(at) => format!("{path}[{at}]"),
            PathStep::Field(name) if path.is_empty() => name.clone(),
            PathStep::Field(name) => format!("{path}.{name}"),
        });
        // Several items of one list count as one place.
        let known =
            self.places.iter().any(|other| other.path == path && other.expected == expected);
        if !known && self.places.len() < MOST {
            self.places.push(SchemaMismatch { path, expected, given, example: whole.clone() });
        }
    }
}

/// Adds the places where a value does not conform to a schema.
pub(super) fn misfits(to: At<'_>, value: &Value, into: &mut MismatchCollector<'_>) {
    note(to, value, value, &mut Vec::new(), into);
}

fn note(
    to: At<'_>,
    whole: &Value,
    value: &Value,
    path: &mut Vec<PathStep>,
    into: &mut MismatchCollector<'_>,
) {
    if into.validator.accepts(to, value) != Some(false) {
        return;
    }
    if let Some(referred) = to.referred()
        && into.validator.accepts(referred, value) == Some(false)
    {
        return note(referred, whole, value, path, into);
    }
    let is_of_type =
        Type::declared_by(to).is_none_or(|types| types.into_iter().any(|of| of.has(value)));
    if !is_of_type || to.keywords().is_none() {
        return into.add(whole, path, Why::Type, words(to));
    }
    // Every part of `allOf` applies, so the mismatches of all parts are reported.
    for part in to.list("allOf").into_iter().flatten() {
        note(part, whole, value, path, into);
    }
    for keyword in ["anyOf", "oneOf"] {
        // If only one alternative matches the type of the value, its mismatches are reported.
        let of_type = |of: &At<'_>| {
            let of = of.referred().unwrap_or(*of);
            Type::declared_by(of).is_none_or(|types| types.into_iter().any(|of| of.has(value)))
        };
        let mut near = to.list(keyword).into_iter().flatten().filter(of_type);
        if let (Some(only), None) = (near.next(), near.next())
            && into.validator.accepts(only, value) == Some(false)
        {
            return note(only, whole, value, path, into);
        }
    }
    // The mismatches within `allOf` are already recorded above.
    let mut found = to
        .list("allOf")
        .into_iter()
        .flatten()
        .any(|part| into.validator.accepts(part, value) == Some(false));
    match value {
        Value::Object(fields) => {
            for name in to.required().filter(|name| !fields.contains_key(*name)) {
                path.push(PathStep::Field(name.to_owned()));
                into.add(
                    whole,
                    path,
                    Why::Missing,
                    to.property(name).map_or_else(|| "a value".to_owned(), words),
                );
                path.pop();
                found = true;
            }
            for (name, value) in fields {
                let of = to.property(name).map(|of| (of, Why::Value));
                // A field that the schema does not name is checked against `additionalProperties`.
                let other =
                    || Some((to.with_schema(to.get("additionalProperties")?), Why::Unknown));
                let Some((of, why)) = of.or_else(other) else { continue };
                if into.validator.accepts(of, value) == Some(false) {
                    path.push(PathStep::Field(name.clone()));
                    match why {
                        Why::Unknown if *of.schema == Value::Bool(false) => {
                            into.add(whole, path, why, "no such field".to_owned());
                        }
                        _ => note(of, whole, value, path, into),
                    }
                    path.pop();
                    found = true;
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if into.validator.accepts(to.item(at), item) == Some(false) {
                    path.push(PathStep::Item(at));
                    note(to.item(at), whole, item, path, into);
                    path.pop();
                    found = true;
                    if at >= to.prefix().len() {
                        // The other items have the same schema.
                        break;
                    }
                }
            }
        }
        _ => {}
    }
    if !found {
        into.add(
            whole,
            path,
            if is_other_type(to, value, 8, &Cell::new(LOOKS)) { Why::Type } else { Why::Value },
            words(to),
        );
    }
}

/// Returns true if a schema accepts no value of the value's type. `left` is the number of schemas
/// that may still be read. At zero, the result is false.
fn is_other_type(to: At<'_>, value: &Value, depth: u32, left: &Cell<u32>) -> bool {
    let other = |to: At<'_>| {
        let Some(fewer) = left.get().checked_sub(1).filter(|_| depth > 0) else { return false };
        left.set(fewer);
        is_other_type(to, value, depth - 1, left)
    };
    let is_like = |of: &Value| std::mem::discriminant(of) == std::mem::discriminant(value);
    Type::declared_by(to).is_some_and(|types| !types.into_iter().any(|of| of.has(value)))
        || to.get("const").is_some_and(|of| !is_like(of))
        || to.get("enum").and_then(Value::as_array).is_some_and(|all| !all.iter().any(is_like))
        || to.referred().is_some_and(other)
        || to.list("allOf").is_some_and(|mut all| all.any(other))
        || to.list("anyOf").is_some_and(|mut all| all.all(other))
        || to.list("oneOf").is_some_and(|mut all| all.all(other))
}

/// Returns the schemas that apply to a place within the values of `from`: one for each alternative.
fn reached<'s>(from: At<'s>, path: &[PathStep]) -> Vec<At<'s>> {
    let mut at = vec![from];
    for step in path {
        let mut next = Vec::new();
        for of in at.into_iter().flat_map(parts) {
            match step {
                PathStep::Field(name) => {
                    next.extend(
                        of.property(name)
                            .or_else(|| Some(of.with_schema(of.get("additionalProperties")?))),
                    );
                }
                PathStep::Item(place) => {
                    if of.get("items").is_some() || of.get("prefixItems").is_some() {
                        next.push(of.item(*place));
                    }
                }
            }
        }
        next.retain(|at| *at.schema != Value::Bool(false));
        at = next;
    }
    at
}

/// Returns a schema with its references and its alternatives, transitively.
fn parts(at: At<'_>) -> Vec<At<'_>> {
    let mut all = vec![at];
    let mut next = 0;
    while let Some(at) = all.get(next).copied() {
        let branches = ["allOf", "anyOf", "oneOf"]
            .into_iter()
            .filter_map(|keyword| at.list(keyword))
            .flatten();
        for part in at.referred().into_iter().chain(branches) {
            if !all.iter().any(|known| std::ptr::eq(known.schema, part.schema)) {
                all.push(part);
            }
        }
        next += 1;
    }
    all
}

/// Returns true if the schema explicitly declares the value at a place. A constraint that the
/// schema does not declare must not be reported as a mismatch.
fn is_stated(places: &[At<'_>], holder: &[At<'_>], why: Why) -> bool {
    let all = |places: &[At<'_>], keywords: &[&str]| {
        let says = |at: &At<'_>| keywords.iter().any(|keyword| at.get(keyword).is_some());
        !places.is_empty() && places.iter().all(|at| parts(*at).iter().any(says))
    };
    match why {
        Why::Missing => all(holder, &["properties", "additionalProperties"]),
        // A field that no schema names is not declared.
        Why::Type | Why::Unknown => all(places, &["type", "const", "enum"]),
        Why::Value => all(places, &["const", "enum"]),
    }
}

/// Describes a schema briefly, such as `integer from 0`, `list of string` or `"a" or "b"`.
pub(super) fn words(at: At<'_>) -> String {
    described(at, 3)
}

fn described(at: At<'_>, depth: u32) -> String {
    const ANY: &str = "any value";
    if depth == 0 {
        return "a value".to_owned();
    }
    // The most specific keyword wins: a value, then values, then types, then alternatives.
    if let Some(value) = at.get("const") {
        return value.to_string();
    }
    if let Some(values) = at.get("enum").and_then(Value::as_array) {
        let shown: Vec<String> = values.iter().take(5).map(Value::to_string).collect();
        let more = if values.len() > shown.len() { " or others" } else { "" };
        return format!("{}{more}", shown.join(" or "));
    }
    if let Some(types) = Type::declared_by(at) {
        let of = |of: Type| match of {
            Type::Null => "null".to_owned(),
            Type::Boolean => "boolean".to_owned(),
            Type::Integer | Type::Number => {
                format!("{}{}", if of == Type::Integer { "integer" } else { "number" }, limits(at))
            }
            Type::String => {
                format!("string{}", lengths(at, "minLength", "maxLength", "characters"))
            }
            Type::Array => {
                let of = at
                    .get("items")
                    .map(|of| format!(" of {}", described(at.with_schema(of), depth - 1)));
                format!(
                    "list{}{}",
                    of.unwrap_or_default(),
                    lengths(at, "minItems", "maxItems", "items")
                )
            }
            Type::Object => "object".to_owned(),
        };
        return types.into_iter().map(of).collect::<Vec<_>>().join(" or ");
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(branches) = at.list(keyword) {
            let mut all: Vec<String> =
                branches.take(5).map(|of| described(of, depth - 1)).collect();
            all.dedup();
            return all.join(" or ");
        }
    }
    if let Some(first) = at.list("allOf").and_then(|mut all| all.next()) {
        return described(first, depth - 1);
    }
    match at.referred() {
        Some(to) => described(to, depth - 1),
        None if at.get("properties").is_some() => "object".to_owned(),
        None if *at.schema == Value::Bool(false) => "nothing".to_owned(),
        None => ANY.to_owned(),
    }
}

fn limits(at: At<'_>) -> String {
    let mut text = String::new();
    for (keyword, word) in [
        ("minimum", "from"),
        ("exclusiveMinimum", "above"),
        ("maximum", "to"),
        ("exclusiveMaximum", "below"),
        ("multipleOf", "that is a multiple of"),
    ] {
        if let Some(limit) = at.get(keyword) {
            text.push_str(&format!(" {word} {limit}"));
        }
    }
    text
}

fn lengths(at: At<'_>, least: &str, most: &str, what: &str) -> String {
    match (at.count(least), at.count(most)) {
        (Some(least), Some(most)) => format!(" of {least} to {most} {what}"),
        (Some(least), None) => format!(" of at least {least} {what}"),
        (None, Some(most)) => format!(" of at most {most} {what}"),
        (None, None) => String::new(),
    }
}
