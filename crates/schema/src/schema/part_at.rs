//! Finds the schema of a part of a value, and decides if the part may be missing. It reads schemas
//! only.

use serde_json::{Map, Value, json};

use super::embedded::{Definitions, part_of};
use super::{schema_codes, words};
use crate::diagnostic::{Diagnostic, Suggestion};
use crate::text::nearest;

/// Maximum depth of references and alternatives.
const DEPTH: u32 = 16;
/// Maximum number of visited forms. References to the same schema in several alternatives double
/// the number at each level.
const FORMS: usize = 1_000;

/// Returns the decoded names of a JSON Pointer.
pub(super) fn pointer_names(at: &str) -> impl Iterator<Item = String> + '_ {
    at.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~"))
}

/// Returns true if a keyword is an annotation or contains definitions, so that it restricts no
/// values.
pub(super) fn is_note(keyword: &str) -> bool {
    matches!(
        keyword,
        "title"
            | "description"
            | "default"
            | "examples"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "format"
            | "$comment"
            | "$schema"
            | "$defs"
            | "definitions"
    )
}

/// Returns the target of a schema's `$ref`, within `whole`.
pub(super) fn target<'s>(whole: &'s Value, of: &Value) -> Option<&'s Value> {
    whole.pointer(of.get("$ref")?.as_str()?.strip_prefix('#')?)
}

/// Returns the schema of the part at a JSON Pointer. Returns `true`, which allows any value, if
/// nothing is known about the part.
pub fn part_at(whole: &Value, at: &str) -> Value {
    if at.is_empty() {
        return whole.clone();
    }
    let mut places = vec![whole];
    for name in pointer_names(at) {
        let reached = step(whole, &places, &name);
        if reached.is_unknown || reached.parts.is_empty() {
            return Value::Bool(true);
        }
        places = reached.parts;
    }
    // Equal adjacent schemas give one alternative.
    places.dedup();
    if let [only] = places.as_slice() {
        return part_of(only, whole);
    }
    let mut definitions = Definitions::default();
    let branches: Vec<Value> =
        places.into_iter().map(|part| definitions.embed_part(part, whole)).collect();
    let mut one = json!({"anyOf": branches});
    definitions.add_to(&mut one);
    one
}

/// The reason that a value of a schema has no part at a JSON Pointer.
#[derive(Clone, Debug, PartialEq)]
pub enum Lack {
    /// No value has the part.
    Never(Diagnostic),
    /// Some values may not have the part.
    Sometimes(Diagnostic),
}

/// Returns a reason if no value of a schema has a part at the JSON Pointer. Unless `may_miss` is
/// set, also returns a reason if some values may not have it.
pub fn lacks(whole: &Value, at: &str, may_miss: bool) -> Option<Lack> {
    let mut places = vec![whole];
    let mut holder = "it".to_owned();
    for name in pointer_names(at) {
        let reached = step(whole, &places, &name);
        if let Some(why) = reached.never {
            return Some(Lack::Never(why));
        }
        if let Some(why) = reached.sometimes.filter(|_| !may_miss) {
            let problem = match why {
                Why::Null => Diagnostic::new(schema_codes::MAY_BE_NULL).text("holder", holder),
                Why::Missing => Diagnostic::new(schema_codes::MAY_BE_MISSING),
                Why::Form => Diagnostic::new(schema_codes::SEVERAL_FORMS).text("holder", holder),
            };
            return Some(Lack::Sometimes(problem.absent("field", name)));
        }
        places = reached.parts;
        holder = format!("`{name}`");
    }
    None
}

/// The reason that a part may be missing.
#[derive(Clone, Copy)]
enum Why {
    /// The enclosing value may be `null`.
    Null,
    /// The field is not required.
    Missing,
    /// Some alternatives of the enclosing value do not have the part.
    Form,
}

/// The result of a step from values to one of their parts.
struct PartStep<'s> {
    parts: Vec<&'s Value>,
    /// The reason that no value has the part.
    never: Option<Diagnostic>,
    sometimes: Option<Why>,
    is_unknown: bool,
}

/// An alternative form of a value.
enum ValueForm<'s> {
    /// A schema that is completely described by its keywords and one type.
    Plain(&'s Map<String, Value>, &'s str),
    Unknown,
}

fn step<'s>(whole: &'s Value, places: &[&'s Value], name: &str) -> PartStep<'s> {
    let mut forms = Vec::new();
    places.iter().for_each(|of| forms_of(whole, of, DEPTH, &mut forms));
    let mut reached =
        PartStep { parts: Vec::new(), never: None, sometimes: None, is_unknown: false };
    let (mut lack, mut null, mut is_missing) = (None, None, false);
    let no_parts = |found: String| {
        Diagnostic::new(schema_codes::NO_PARTS).absent("field", name).text("found", found)
    };
    for form in forms {
        let ValueForm::Plain(keywords, of) = form else {
            reached.is_unknown = true;
            continue;
        };
        match of {
            "null" => null = Some(no_parts("null".to_owned())),
            "object" => match field(keywords, name) {
                Ok((part, is_required)) => {
                    is_missing |= !is_required;
                    match part {
                        Some(part) => reached.parts.push(part),
                        None => reached.is_unknown = true,
                    }
                }
                Err(why) => lack = lack.or(Some(why)),
            },
            "array" => match item(keywords, name) {
                Ok(Some(part)) => reached.parts.push(part),
                Ok(None) => reached.is_unknown = true,
                Err(why) => lack = lack.or(Some(why)),
            },
            _ => {
                let schema = json!({"type": of});
                lack = lack.or_else(|| Some(no_parts(words(&schema, &schema))));
            }
        }
    }
    // If some form has the part, or a form is unknown, the part may exist.
    if reached.parts.is_empty() && !reached.is_unknown {
        reached.never = lack.or(null);
        return reached;
    }
    reached.sometimes = match (null, lack) {
        (Some(_), _) => Some(Why::Null),
        (None, _) if is_missing => Some(Why::Missing),
        (None, Some(_)) => Some(Why::Form),
        (None, None) => None,
    };
    reached
}

fn forms_of<'s>(whole: &'s Value, of: &'s Value, depth: u32, forms: &mut Vec<ValueForm<'s>>) {
    let Some(keywords) = of.as_object().filter(|_| depth > 0 && forms.len() < FORMS) else {
        // The schema `false` has no values.
        if *of != Value::Bool(false) {
            forms.push(ValueForm::Unknown);
        }
        return;
    };
    let others = |own: &str| keywords.keys().any(|keyword| keyword != own && !is_note(keyword));
    if keywords.contains_key("$ref") {
        return match target(whole, of).filter(|_| !others("$ref")) {
            Some(to) => forms_of(whole, to, depth - 1, forms),
            None => forms.push(ValueForm::Unknown),
        };
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(branches) =
            keywords.get(keyword).and_then(Value::as_array).filter(|_| !others(keyword))
        {
            return branches.iter().for_each(|of| forms_of(whole, of, depth - 1, forms));
        }
    }
    // These keywords combine with the others in ways that this module does not compute.
    let choices =
        ["anyOf", "oneOf", "allOf", "if", "not", "patternProperties", "unevaluatedProperties"];
    match keywords.get("type") {
        _ if choices.iter().any(|choice| keywords.contains_key(*choice)) => {
            forms.push(ValueForm::Unknown);
        }
        Some(Value::String(of)) => forms.push(ValueForm::Plain(keywords, of)),
        Some(Value::Array(all)) => {
            forms.extend(all.iter().map(|of| {
                of.as_str().map_or(ValueForm::Unknown, |of| ValueForm::Plain(keywords, of))
            }));
        }
        _ => forms.push(ValueForm::Unknown),
    }
}

/// Returns the schema of a field, if it is known, and `true` if every value has the field.
fn field<'s>(
    keywords: &'s Map<String, Value>,
    name: &str,
) -> Result<(Option<&'s Value>, bool), Diagnostic> {
    let no_fields = Map::new();
    let properties = keywords.get("properties").and_then(Value::as_object);
    if let Some(of) = properties.and_then(|all| all.get(name)) {
        let required = keywords.get("required").and_then(Value::as_array);
        return Ok((
            Some(of),
            required.is_some_and(|names| names.iter().any(|required| required == name)),
        ));
    }
    match (keywords.get("additionalProperties"), properties) {
        (Some(Value::Bool(false)), properties) => {
            let properties = properties.unwrap_or(&no_fields);
            let found = Diagnostic::new(schema_codes::NO_FIELD).absent("field", name);
            Err(match nearest(name, properties.keys().map(String::as_str)) {
                Some(near) => found.suggest(Suggestion::similar(Some(near))),
                None if properties.is_empty() => Diagnostic::new(schema_codes::NO_FIELDS),
                None => {
                    let all: Vec<String> =
                        properties.keys().map(|name| format!("`{name}`")).collect();
                    found.suggest(Suggestion::advice(format!("it has {}", all.join(", "))))
                }
            })
        }
        // The keys of a map are not declared, so a key counts as always present.
        (others, _) => Ok((others, true)),
    }
}

/// Returns the schema of an item, if it is known.
fn item<'s>(keywords: &'s Map<String, Value>, name: &str) -> Result<Option<&'s Value>, Diagnostic> {
    let Ok(place) = name.parse::<u64>() else {
        return Err(Diagnostic::new(schema_codes::NOT_AN_ITEM).absent("field", name));
    };
    let prefix =
        keywords.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let items = keywords.get("items");
    let is_closed = items == Some(&Value::Bool(false));
    let most = keywords
        .get("maxItems")
        .and_then(Value::as_u64)
        .or(is_closed.then_some(prefix.len() as u64));
    match most.filter(|most| place >= *most) {
        Some(most) => Err(Diagnostic::new(schema_codes::FEW_ITEMS).number("most", most)),
        None => Ok(usize::try_from(place).ok().and_then(|place| prefix.get(place)).or(items)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(whole: &Value, at: &str, may_miss: bool) -> Option<String> {
        super::lacks(whole, at, may_miss).map(|lack| match lack {
            Lack::Never(why) => why.message(),
            Lack::Sometimes(why) => {
                format!("{why}; say what is read then with `or`, or ask first with `exists`")
            }
        })
    }

    #[test]
    fn a_part_below_null_may_be_missing() {
        let node = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false});
        let whole = json!({"type": "object", "properties": {"left": {"anyOf": [node, {"type": "null"}]}}, "required": ["left"]});
        let why =
            "`left` may be `null`; say what is read then with `or`, or ask first with `exists`";
        assert_eq!(lacks(&whole, "/left/name", false).unwrap(), why);
        assert_eq!(lacks(&whole, "/left/name", true), None);
        assert_eq!(
            lacks(&whole, "/left/nam", true).unwrap(),
            "it has no `nam`; did you mean `name`?"
        );
        assert_eq!(part_at(&whole, "/left/name"), json!({"type": "string"}));
        assert!(
            lacks(&json!({"type": "null"}), "/x", true).unwrap().ends_with("has no parts: null")
        );
    }

    #[test]
    fn a_part_of_some_forms_may_be_missing() {
        let form = |name: &str, of: &str| json!({"type": "object", "properties": {name: {"type": of}}, "required": [name], "additionalProperties": false});
        let whole = json!({"anyOf": [form("a", "string"), form("b", "integer")]});
        assert_eq!(
            lacks(&whole, "/b", false).unwrap(),
            "it has several forms, and not all have `b`; say what is read then with `or`, or ask first with `exists`"
        );
        assert_eq!(lacks(&whole, "/b", true), None);
        assert_eq!(lacks(&whole, "/zzzzzz", true).unwrap(), "it has no `zzzzzz`; it has `a`");
        assert_eq!(part_at(&whole, "/b"), json!({"type": "integer"}));
        let both = json!({"oneOf": [form("a", "string"), form("a", "integer")]});
        assert_eq!(
            part_at(&both, "/a"),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]})
        );
        // Returns no reason for an unknown form.
        assert_eq!(lacks(&json!({"anyOf": [{}, {"type": "string"}]}), "/a/b", true), None);
        assert_eq!(part_at(&json!({"anyOf": [{}, form("a", "string")]}), "/a"), json!(true));
    }
}
