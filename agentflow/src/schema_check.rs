//! `SchemaCheck`: whether a JSON value fits a JSON Schema that is known only at run time, and if not, where and why.
//!
//! The rules of JSON Schema are those of the crate `jsonschema`; the sentences are ours, as those about typed arguments.

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use crate::text::{did_you_mean, head, nearest};

/// A JSON Schema, read once. Without `$schema` it is one of draft 2020-12; references go to the schema itself, never to
/// the network or a file.
#[derive(Clone)]
pub(crate) struct SchemaCheck(Arc<(Value, Validator)>);

/// The most complaints about one value.
const MOST: usize = 10;
/// The most bytes of a value that a complaint shows.
const SEEN: usize = 120;

impl SchemaCheck {
    /// # Errors
    /// A sentence that says what is wrong with the schema.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::options().build(schema).map_err(|error| {
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { String::new() } else { format!(" at `{at}`") };
            format!("this is not a JSON Schema{at}: {error}")
        })?;
        Ok(Self(Arc::new((schema.clone(), validator))))
    }

    /// # Errors
    /// A line for each place that does not fit, at most ten: the path, what is expected, what was seen, the nearest name.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let (schema, validator) = &*self.0;
        let errors = validator.iter_errors(value).take(MOST);
        let mut complaints: Vec<String> = errors.map(|error| complaint(schema, &error)).collect();
        complaints.dedup();
        if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
    }
}

/// What is wrong at one place, such as `` `size`: 7 is not of type "string"; seen: 7 ``.
fn complaint(schema: &Value, error: &ValidationError<'_>) -> String {
    let at = path(&error.instance_path().to_string());
    let place = if at.is_empty() { String::new() } else { format!("`{at}`: ") };
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let keyword = error.schema_path().to_string();
            let of = keyword.rsplit_once('/').map_or("", |(of, _)| of);
            let properties = schema.pointer(&format!("{of}/properties")).and_then(Value::as_object);
            let known: Vec<&str> = properties.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
            let names: Vec<String> = unexpected
                .iter()
                .map(|name| format!("`{name}`{}", did_you_mean(nearest(name, known.iter().copied()))))
                .collect();
            format!("{place}there is no {}", names.join(", "))
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().map_or_else(|| property.to_string(), ToOwned::to_owned);
            let whole = if at.is_empty() { name } else { format!("{at}.{name}") };
            format!("`{whole}`: this is missing; give it a value")
        }
        _ => format!("{place}{error}; seen: {}", seen(&error.instance().to_string())),
    }
}

/// A JSON Pointer as the path of an argument: `/lines/0/cents` is `lines[0].cents`.
fn path(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match part.parse::<usize>() {
            Ok(at) => path.push_str(&format!("[{at}]")),
            Err(_) if path.is_empty() => path.push_str(&part),
            Err(_) => path.push_str(&format!(".{part}")),
        }
    }
    path
}

fn seen(value: &str) -> String {
    if value.len() <= SEEN { value.to_owned() } else { format!("{}…", head(value, SEEN)) }
}

impl fmt::Debug for SchemaCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SchemaCheck")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn complaints_name_the_place_and_what_was_seen() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "lines": {"type": "array", "items": {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}}
            },
            "required": ["name"],
            "additionalProperties": false
        });
        let check = SchemaCheck::new(&schema).unwrap();
        check.check(&json!({"name": "a", "lines": [{"cents": 3}]})).unwrap();
        let wrong = check.check(&json!({"nane": "a", "lines": [{"cents": "x"}, {}]})).unwrap_err();
        let lines: Vec<&str> = wrong.lines().collect();
        assert!(lines.contains(&"there is no `nane`; did you mean `name`?"), "{lines:#?}");
        assert!(lines.contains(&"`name`: this is missing; give it a value"), "{lines:#?}");
        assert!(lines.contains(&"`lines[1].cents`: this is missing; give it a value"), "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.starts_with("`lines[0].cents`: ") && line.ends_with("; seen: \"x\"")),
            "{lines:#?}"
        );
        let problem = SchemaCheck::new(&json!({"type": "strng"})).unwrap_err();
        assert!(problem.starts_with("this is not a JSON Schema at `/type`: "), "{problem}");
    }

    #[test]
    fn a_schema_reads_nothing_from_outside() {
        for uri in ["https://example.com/schema.json", "file:///etc/hostname"] {
            assert!(SchemaCheck::new(&json!({"$ref": uri})).is_err(), "{uri}");
        }
    }
}
