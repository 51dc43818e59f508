//! Finds keywords that restrict a value beyond its type. It validates no value.

use serde_json::{Map, Value};

/// Keywords that contain one schema.
const SCHEMA: [&str; 10] = [
    "items",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords that contain a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords that contain an object of schemas.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Returns true if a schema contains, at any depth, a keyword that deserialization into a Rust type
/// does not enforce, such as `maxLength`. The range of an integer type and the length of a tuple do
/// not count, because schemas of Rust types always have them.
pub fn has_limits(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else { return false };
    fields.iter().any(|(keyword, value)| {
        let keyword = keyword.as_str();
        if SCHEMA.contains(&keyword) {
            return keyword == "not" || has_limits(value);
        }
        if LIST.contains(&keyword) {
            return value.as_array().into_iter().flatten().any(has_limits);
        }
        if NAMED.contains(&keyword) {
            return value.as_object().into_iter().flatten().any(|(_, schema)| has_limits(schema));
        }
        is_limit(fields, keyword, value)
    })
}

fn is_limit(fields: &Map<String, Value>, keyword: &str, value: &Value) -> bool {
    match keyword {
        "minLength" | "maxLength" | "pattern" | "exclusiveMinimum" | "exclusiveMaximum"
        | "multipleOf" | "uniqueItems" | "minContains" | "maxContains" | "minProperties"
        | "maxProperties" | "dependentRequired" => true,
        "minimum" | "maximum" => {
            let bounds = fields.get("format").and_then(Value::as_str).and_then(bounds_of);
            let native =
                bounds.map(|(least, most)| if keyword == "minimum" { least } else { most });
            native.is_none() || value.as_i64() != native
        }
        "minItems" | "maxItems" => {
            let tuple = fields.get("prefixItems").and_then(Value::as_array);
            tuple.is_none_or(|items| value.as_u64() != Some(items.len() as u64))
        }
        _ => false,
    }
}

/// Returns the bounds in the schema of a Rust integer type.
fn bounds_of(format: &str) -> Option<(i64, i64)> {
    Some(match format {
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        // Schemas of wider types have only this bound.
        "uint32" | "uint64" | "uint128" | "uint" => (0, i64::MAX),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};
    use std::time::Duration;

    use schemars::JsonSchema;
    use serde_json::{Value, json};

    use super::has_limits;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "its schema is looked at alone")]
    enum Shape {
        Circle { radius: f64 },
        Square(u8),
        Point,
    }

    /// Types whose schemas have only limits that deserialization enforces.
    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "its schema is looked at alone")]
    struct Typed {
        integers: (u8, i8, u16, i16, u32, i32, u64, i64, u128, usize, isize),
        shape: Option<Shape>,
        names: BTreeMap<u32, Vec<String>>,
        time: Duration,
        pattern: bool,
        next: Option<Box<Typed>>,
    }

    #[test]
    fn limits_that_deserialization_enforces_do_not_count() {
        assert!(!has_limits(schemars::schema_for!(Typed).as_value()));
        assert!(has_limits(schemars::schema_for!(HashSet<u8>).as_value()));
    }

    #[test]
    fn a_limit_is_found_at_any_depth() {
        let limits = [
            json!({"maxLength": 3}),
            json!({"pattern": "^a"}),
            json!({"type": "integer", "minimum": 1, "format": "uint32"}),
            json!({"maximum": 10}),
            json!({"type": "array", "minItems": 1}),
            json!({"prefixItems": [true], "maxItems": 2}),
            json!({"not": {"const": 0}}),
        ];
        let within: [fn(Value) -> Value; 6] = [
            |limit| limit,
            |limit| json!({"properties": {"a": limit}}),
            |limit| json!({"items": limit}),
            |limit| json!({"anyOf": [{"type": "null"}, limit]}),
            |limit| json!({"$defs": {"a": limit}}),
            |limit| json!({"additionalProperties": limit}),
        ];
        for limit in limits {
            for within in within {
                let schema = within(limit.clone());
                assert!(has_limits(&schema), "{schema}");
            }
        }
        for none in
            [json!(true), json!({"default": {"maxLength": 3}}), json!({"enum": [{"maximum": 1}]})]
        {
            assert!(!has_limits(&none), "{none}");
        }
    }
}
