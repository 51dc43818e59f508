//! Removes nulls that represent missing arguments. Models and callers send them, but many schemas
//! do not allow them.

use serde_json::Value;

/// Maximum number of references and combined schemas that are followed from one schema.
const MOST_STEPS: usize = 16;
/// Maximum depth of values that are visited.
const MOST_DEPTH: usize = 64;

/// Removes a field that is `null`, if the schema declares the field, does not require it and does
/// not allow `null`.
pub fn without_nulls(schema: &Value, mut value: Value) -> Value {
    remove(schema, schema, &mut value, 0);
    value
}

fn remove(schema: &Value, root: &Value, value: &mut Value, depth: usize) {
    let (Some(properties), Value::Object(fields)) = (schema["properties"].as_object(), value)
    else {
        return;
    };
    if depth > MOST_DEPTH {
        return;
    }
    let required = schema["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|required| required.iter().any(|field| field == name));
    fields.retain(|name, value| {
        let is_absent = value.is_null() && !is_required(name);
        !is_absent || properties.get(name).is_none_or(|schema| allows_null(schema, root, 0))
    });
    for (name, value) in fields {
        if let Some(schema) = properties.get(name) {
            remove(schema, root, value, depth + 1);
        }
    }
}

/// Returns true unless the schema certainly refuses `null`.
fn allows_null(schema: &Value, root: &Value, steps: usize) -> bool {
    let Some(keywords) = schema.as_object() else { return schema != &Value::Bool(false) };
    if steps > MOST_STEPS {
        return true;
    }
    let allows = |schema: &Value| allows_null(schema, root, steps + 1);
    keywords.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
        ("type", Value::String(name)) => name == "null",
        ("type" | "enum", Value::Array(all)) => {
            let null = if keyword == "type" { Value::from("null") } else { Value::Null };
            all.contains(&null)
        }
        ("const", value) => value.is_null(),
        ("anyOf" | "oneOf", Value::Array(all)) => all.iter().any(allows),
        ("allOf", Value::Array(all)) => all.iter().all(allows),
        ("$ref", Value::String(to)) => {
            to.strip_prefix('#').and_then(|to| root.pointer(to)).is_none_or(allows)
        }
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_null_is_removed_only_where_it_stands_for_nothing() {
        let schema = json!({
            "type": "object", "required": ["must"],
            "properties": {
                "limit": {"type": "integer"}, "must": {"type": "integer"}, "may": {"type": ["integer", "null"]},
                "any": {}, "one": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "word": {"enum": ["a", "b"]},
                "other": {"$ref": "#/$defs/text"}, "wide": {"$ref": "#/$defs/wide"},
                "inner": {"type": "object", "properties": {"n": {"type": "integer"}}}
            },
            "$defs": {"text": {"type": "string"}, "wide": {"allOf": [{}, {"enum": [1, null]}]}}
        });
        let given = json!({
            "limit": null, "must": null, "may": null, "any": null, "one": null, "word": null, "other": null, "wide": null,
            "inner": {"n": null}, "unknown": null
        });
        let kept = json!({
            "must": null, "may": null, "any": null, "one": null, "wide": null, "inner": {}, "unknown": null
        });
        assert_eq!(without_nulls(&schema, given), kept);
        assert_eq!(without_nulls(&json!({"$ref": "#"}), json!({"a": null})), json!({"a": null}));
    }
}
