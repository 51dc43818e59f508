//! Converts schema keywords from older versions of JSON Schema and OpenAPI to the JSON Schema of
//! OpenAPI 3.1. Does not resolve references.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Limits that a boolean makes exclusive, and the keywords of these booleans.
const LIMITS: [(&str, &str); 2] =
    [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")];

/// Converts the keywords of a schema to the current version: a boolean `exclusiveMinimum` or
/// `exclusiveMaximum` (draft 4) becomes a number, `nullable` (OpenAPI 3.0) becomes a type, a
/// boolean `required` (draft 3) is removed, and a list in `items` becomes `prefixItems`.
pub(crate) fn to_current_keywords(fields: &Map<String, Value>) -> Cow<'_, Map<String, Value>> {
    let is_bool = |name: &str| fields.get(name).is_some_and(Value::is_boolean);
    let has_list = fields.get("items").is_some_and(Value::is_array);
    // Most schemas are modern, so avoid the copy.
    if !has_list
        && !["exclusiveMinimum", "exclusiveMaximum", "nullable", "required"]
            .into_iter()
            .any(is_bool)
    {
        return Cow::Borrowed(fields);
    }
    let mut fields = fields.clone();
    for (limit, exclusive) in LIMITS {
        let is_exclusive = fields.get(exclusive).and_then(Value::as_bool);
        if is_exclusive.is_some() {
            fields.remove(exclusive);
        }
        if let (Some(true), Some(number)) = (is_exclusive, fields.get(limit).cloned()) {
            fields.remove(limit);
            fields.insert(exclusive.to_owned(), number);
        }
    }
    if fields.get("required").is_some_and(Value::is_boolean) {
        fields.remove("required");
    }
    if has_list && let Some(items) = fields.remove("items") {
        fields.insert("prefixItems".to_owned(), items);
        if let Some(rest) = fields.remove("additionalItems") {
            fields.insert("items".to_owned(), rest);
        }
    }
    match fields.get("nullable").and_then(Value::as_bool) {
        Some(true) => {
            fields.remove("nullable");
            Cow::Owned(nullable(fields))
        }
        Some(false) => {
            fields.remove("nullable");
            Cow::Owned(fields)
        }
        None => Cow::Owned(fields),
    }
}

/// Extends a schema to accept `null`.
fn nullable(mut fields: Map<String, Value>) -> Map<String, Value> {
    let null = Value::from("null");
    match fields.remove("type") {
        Some(Value::Array(mut types)) => {
            if !types.contains(&null) {
                types.push(null);
            }
            fields.insert("type".to_owned(), Value::Array(types));
        }
        Some(one) => drop(fields.insert("type".to_owned(), Value::Array(vec![one, null]))),
        None if fields.is_empty() => {}
        // Without a `type`, other keywords may exclude `null`, so `null` becomes an alternative.
        None => return Map::from_iter([("anyOf".to_owned(), json!([fields, {"type": "null"}]))]),
    }
    // An `enum` without `null` would still exclude it.
    if let Some(Value::Array(values)) = fields.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_keywords_are_said_as_now() {
        for (older, now) in [
            (json!({"minimum": 1, "exclusiveMinimum": true}), json!({"exclusiveMinimum": 1})),
            (json!({"maximum": 1, "exclusiveMaximum": false}), json!({"maximum": 1})),
            (json!({"exclusiveMinimum": true}), json!({})),
            (json!({"exclusiveMaximum": 5}), json!({"exclusiveMaximum": 5})),
            (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
            (json!({"type": "string", "nullable": false}), json!({"type": "string"})),
            (
                json!({"type": "string", "enum": ["a"], "nullable": true}),
                json!({"type": ["string", "null"], "enum": ["a", null]}),
            ),
            (
                json!({"allOf": [{"minimum": 1}], "nullable": true}),
                json!({"anyOf": [{"allOf": [{"minimum": 1}]}, {"type": "null"}]}),
            ),
            (json!({"nullable": true}), json!({})),
            (json!({"type": "string", "required": true}), json!({"type": "string"})),
            (
                json!({"items": [{"type": "string"}], "additionalItems": false}),
                json!({"prefixItems": [{"type": "string"}], "items": false}),
            ),
        ] {
            let fields = older.as_object().unwrap();
            assert_eq!(json!(&*to_current_keywords(fields)), now, "{older}");
        }
    }
}
