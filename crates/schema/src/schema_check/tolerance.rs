//! Removes the parts of a JSON Schema that cannot be checked: patterns that the regex engine does
//! not support, such as lookahead, and references without a target. The resulting schema accepts
//! every value that the original schema accepts.

use serde_json::{Map, Value};

use super::patterns::Patterns;
use super::references::References;
use super::schema_graph::MOST_DEPTH;
use crate::text::head;

/// Maximum number of bytes of a reference in an error message.
const SHOWN: usize = 120;
/// Keywords that contain an object of named schemas.
const BY_NAME: [&str; 4] = ["properties", "$defs", "definitions", "dependentSchemas"];
/// Keywords that do not contain schemas.
const VALUES: [&str; 5] = ["const", "enum", "default", "example", "examples"];
/// Keywords that can become stricter when a schema within them becomes more permissive.
const INVERTING: [&str; 4] = ["not", "oneOf", "if", "contains"];
/// Keywords that can become stricter when another schema is removed.
const REMAINDERS: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// A schema without the parts that cannot be checked.
pub(super) struct TolerantSchema {
    pub(super) schema: Value,
    /// A description of each part that is not checked. Empty if the whole schema can be checked.
    pub(super) unchecked: Vec<String>,
}

impl TolerantSchema {
    /// Returns `None` if the schema is nested too deeply.
    pub(super) fn new(schema: &Value) -> Option<Self> {
        let references = References::new(schema).ok()?;
        let mut removal = UncheckedParts { references, unchecked: Vec::new() };
        let made = removal.without(schema, "", 0);
        Some(Self { schema: made, unchecked: removal.unchecked })
    }
}

struct UncheckedParts<'s> {
    references: References<'s>,
    unchecked: Vec<String>,
}

impl<'s> UncheckedParts<'s> {
    fn without(&mut self, schema: &'s Value, at: &str, depth: usize) -> Value {
        if depth > MOST_DEPTH {
            return schema.clone();
        }
        match schema {
            Value::Array(items) => {
                let mut kept = Vec::new();
                for (number, item) in items.iter().enumerate() {
                    kept.push(self.without(item, &format!("{at}/{number}"), depth + 1));
                }
                Value::Array(kept)
            }
            Value::Object(keywords) => {
                let mut kept = Map::new();
                for (keyword, value) in keywords {
                    let place = format!("{at}/{keyword}");
                    if let Some(value) = self.keyword(schema, keyword, value, &place, depth) {
                        kept.insert(keyword.clone(), value);
                    }
                }
                remove_dependents(&mut kept, keywords);
                Value::Object(kept)
            }
            other => other.clone(),
        }
    }

    /// Returns the value of a keyword, or `None` if the keyword is removed.
    fn keyword(
        &mut self,
        schema: &'s Value,
        keyword: &str,
        value: &'s Value,
        at: &str,
        depth: usize,
    ) -> Option<Value> {
        match value {
            Value::String(pattern) if keyword == "pattern" => {
                self.is_readable(pattern, at).then(|| value.clone())
            }
            Value::String(to) if keyword == "$ref" || keyword == "$dynamicRef" => {
                let leads = References::is_meta_schema(to)
                    || to.is_empty()
                    || self.references.targets(schema, to, keyword != "$ref").is_ok();
                if !leads {
                    self.unchecked.push(format!(
                        "`{at}`: `{}` leads to no schema within the schema",
                        head(to, SHOWN)
                    ));
                }
                leads.then(|| value.clone())
            }
            Value::Object(named)
                if BY_NAME.contains(&keyword) || keyword == "patternProperties" =>
            {
                let mut kept = Map::new();
                for (name, value) in named {
                    let place = format!("{at}/{name}");
                    if keyword != "patternProperties" || self.is_readable(name, at) {
                        kept.insert(name.clone(), self.without(value, &place, depth + 2));
                    }
                }
                Some(Value::Object(kept))
            }
            value if VALUES.contains(&keyword) => Some(value.clone()),
            _ if REMAINDERS.contains(&keyword) => None,
            value => {
                let before = self.unchecked.len();
                let kept = self.without(value, at, depth + 1);
                // A reference may lead to a schema from which a part was removed, so it is treated
                // like a removed part.
                let is_removed = INVERTING.contains(&keyword)
                    && (self.unchecked.len() > before || refers(value, 0));
                (!is_removed).then_some(kept)
            }
        }
    }

    fn is_readable(&mut self, pattern: &str, at: &str) -> bool {
        let read = Patterns::default().add(pattern);
        if let Err(problem) = &read {
            self.unchecked.push(format!("`{at}`: {problem}"));
        }
        read.is_ok()
    }
}

/// Removes keywords whose meaning depends on a keyword that was removed.
fn remove_dependents(kept: &mut Map<String, Value>, whole: &Map<String, Value>) {
    if whole.contains_key("if") && !kept.contains_key("if") {
        kept.remove("then");
        kept.remove("else");
    }
    let patterns = |keywords: &Map<String, Value>| {
        keywords.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len)
    };
    if patterns(kept) < patterns(whole) {
        kept.remove("additionalProperties");
    }
    if !kept.contains_key("contains") {
        kept.remove("minContains");
        kept.remove("maxContains");
    }
}

/// Returns true if a value contains a reference. A part of its target may have been removed.
fn refers(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| refers(item, depth + 1)),
        Value::Object(keywords) if depth <= MOST_DEPTH => {
            keywords.contains_key("$ref") || keywords.values().any(|value| refers(value, depth + 1))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::SchemaCheck;
    use super::*;

    const LOOKAHEAD: &str = "^(?!noreply).+@.+$";

    fn tolerant(schema: &Value) -> (SchemaCheck, Vec<String>) {
        let check = SchemaCheck::tolerant(schema).unwrap();
        let unchecked = check.unchecked().to_vec();
        (check, unchecked)
    }

    #[test]
    fn only_a_pattern_that_cannot_be_read_is_not_checked() {
        let schema = json!({
            "type": "object", "required": ["to"], "additionalProperties": false,
            "properties": {"to": {"type": "string", "pattern": LOOKAHEAD, "maxLength": 20}, "pattern": {"type": "integer"}}
        });
        assert!(SchemaCheck::new(&schema).is_err());
        let (check, unchecked) = tolerant(&schema);
        assert!(
            unchecked[0].starts_with("`/properties/to/pattern`: ") && unchecked.len() == 1,
            "{unchecked:?}"
        );
        check.check(&json!({"to": "noreply@x", "pattern": 3})).unwrap();
        for wrong in [
            json!({"to": 3}),
            json!({"to": "x".repeat(30)}),
            json!({"to": "a", "pattern": "a"}),
            json!({}),
        ] {
            assert!(check.check(&wrong).is_err(), "{wrong}");
        }
        let whole = json!({"type": "object", "properties": {"to": {"pattern": "^a$"}}});
        let (check, unchecked) = tolerant(&whole);
        assert!(unchecked.is_empty() && check.check(&json!({"to": "b"})).is_err());
        assert!(SchemaCheck::tolerant(&json!({"type": "strng", "pattern": LOOKAHEAD})).is_err());
    }

    #[test]
    fn what_is_left_refuses_nothing_that_the_whole_schema_accepts() {
        let unreadable = json!({"type": "string", "pattern": LOOKAHEAD});
        for (schema, accepted) in [
            (json!({"not": unreadable}), json!("noreply@x")),
            (json!({"oneOf": [unreadable, {"type": "string", "maxLength": 4}]}), json!("abc")),
            (json!({"if": unreadable, "then": {"maxLength": 2}}), json!("noreply@x")),
            (json!({"contains": unreadable, "maxContains": 1}), json!(["a@b", "c"])),
            (
                json!({"patternProperties": {LOOKAHEAD: {}}, "additionalProperties": false}),
                json!({"a@b": 1}),
            ),
            (json!({"not": {"$ref": "#/$defs/a"}, "$defs": {"a": unreadable}}), json!("noreply@x")),
            (json!({"$ref": "#/nowhere", "unevaluatedProperties": false}), json!({"a": 1})),
            (json!({"$ref": "https://example.com/schema.json"}), json!(1)),
            (
                json!({"enum": [{"pattern": LOOKAHEAD}], "pattern": LOOKAHEAD}),
                json!({"pattern": LOOKAHEAD}),
            ),
        ] {
            let (check, unchecked) = tolerant(&schema);
            assert!(!unchecked.is_empty(), "{schema}");
            assert_eq!(check.check(&accepted), Ok(()), "{schema}");
        }
    }
}
