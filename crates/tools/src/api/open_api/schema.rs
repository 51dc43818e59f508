//! Resolves the references of an OpenAPI document, and writes schemas without references.

use agentflow_schema::schema_check::decoded;
use serde_json::{Map, Value, json};

use super::older_schema::to_current_keywords;

/// Maximum number of values in a schema after its references are resolved.
const MOST_VALUES: usize = 5_000;
/// Number of bytes of a string or value that count as one additional value.
const PART_BYTES: usize = 256;
/// Maximum depth of a schema.
const MOST_DEPTH: usize = 64;
/// Maximum number of letters in the name of a definition.
const LONGEST_NAME: usize = 60;
/// Maximum number of references in a chain.
const MOST_STEPS: usize = 16;

/// Keywords of OpenAPI that do not restrict values. They are removed.
const LEFT_OUT: [&str; 7] =
    ["discriminator", "xml", "externalDocs", "example", "examples", "$schema", "$comment"];
/// Keywords that only describe a value.
const NOTES: [&str; 6] = ["title", "description", "default", "deprecated", "readOnly", "writeOnly"];
/// Keywords whose value is data and not a schema.
const DATA: [&str; 4] = ["default", "enum", "const", "required"];
/// Keywords whose value is a map from names to schemas.
const NAMED: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "$defs"];

/// Follows the references of a value. Keywords next to a reference are ignored.
///
/// # Errors
/// A message about a reference that has no target, leads out of the document, or is circular.
pub(crate) fn resolved<'d>(document: &'d Value, mut value: &'d Value) -> Result<&'d Value, String> {
    for _ in 0..MOST_STEPS {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => value = target(document, reference)?,
            None => return Ok(value),
        }
    }
    Err("a `$ref` leads to another one without an end".to_owned())
}

fn target<'d>(document: &'d Value, reference: &str) -> Result<&'d Value, String> {
    let Some(pointer) = reference.strip_prefix('#') else {
        return Err(format!(
            "the `$ref` `{reference}` leads out of the document, and nothing is fetched; put it in"
        ));
    };
    let found = document.pointer(pointer).or_else(|| document.pointer(&decoded(pointer)?));
    found.ok_or_else(|| format!("the `$ref` `{reference}` leads nowhere"))
}

/// Returns a schema without references into the document. A recursive schema becomes a definition
/// in `$defs`, to which the schema refers.
///
/// # Errors
/// A message about a reference, an unsupported keyword, or a schema that is too large.
pub(crate) fn resolved_schema(document: &Value, schema: &Value) -> Result<Value, String> {
    let mut writer =
        Writer { document, open: Vec::new(), left: MOST_VALUES, recursive: Vec::new() };
    let mut written = writer.schema(schema, MOST_DEPTH)?;
    let mut definitions = Map::new();
    // Writing a definition may find more recursive schemas.
    while let Some((reference, name)) = writer.recursive.get(definitions.len()).cloned() {
        writer.open = vec![reference.clone()];
        let definition = writer.schema(target(document, &reference)?, MOST_DEPTH)?;
        definitions.insert(name, definition);
    }
    if let (false, Value::Object(fields)) = (definitions.is_empty(), &mut written) {
        // Replacing `$defs` of the schema is safe: references in the document start at its root, so
        // none points to it.
        fields.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Ok(written)
}

struct Writer<'d> {
    document: &'d Value,
    /// The references that are being resolved.
    open: Vec<String>,
    left: usize,
    /// References to a schema from inside that schema, each with the name of its definition.
    recursive: Vec<(String, String)>,
}

impl Writer<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        self.left = self.left.checked_sub(1).filter(|_| depth > 0).ok_or_else(|| {
            format!("a schema has more than {MOST_VALUES} parts without its references, or is deeper than {MOST_DEPTH}")
        })?;
        match schema {
            Value::Object(fields) => match fields.get("$ref").and_then(Value::as_str) {
                Some(reference) => self.reference(reference, fields, depth),
                None => self.fields(fields, depth),
            },
            Value::Array(items) => items.iter().map(|item| self.schema(item, depth - 1)).collect(),
            other => {
                self.left = self
                    .left
                    .saturating_sub(other.as_str().map_or(0, |text| text.len() / PART_BYTES));
                Ok(other.clone())
            }
        }
    }

    fn reference(
        &mut self,
        reference: &str,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Result<Value, String> {
        if is_endless(self.document, reference) {
            // Such a schema accepts any value.
            return Ok(json!({}));
        }
        // The schema refers to a schema that contains it. Inlining it would never end.
        if self.open.iter().any(|one| one == reference) {
            let mut written = self.fields(&without_reference(fields), depth - 1)?;
            written["$ref"] = format!("#/$defs/{}", self.definition_of(reference)).into();
            return Ok(written);
        }
        let found = target(self.document, reference)?.clone();
        self.open.push(reference.to_owned());
        let written = self.schema(&found, depth - 1);
        self.open.pop();
        let mut written = written?;
        // Since JSON Schema 2019-09, keywords next to a reference apply too.
        let beside = without_reference(fields);
        if beside.is_empty() {
            return Ok(written);
        }
        let more = self.fields(&beside, depth - 1)?;
        Ok(match (&mut written, more) {
            (Value::Object(of_target), Value::Object(more)) => {
                merged(std::mem::take(of_target), more)
            }
            (_, more) => json!({"allOf": [written, more]}),
        })
    }

    /// Returns the name of the definition for a reference, and creates it if necessary.
    fn definition_of(&mut self, reference: &str) -> String {
        if let Some((_, name)) = self.recursive.iter().find(|(of, _)| of == reference) {
            return name.clone();
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let letters =
            last.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' });
        let base: String = letters.take(LONGEST_NAME).collect();
        let is_free = |name: &String| {
            !name.is_empty() && self.recursive.iter().all(|(_, other)| other != name)
        };
        let numbered = (2_u32..).map(|number| format!("{base}{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(is_free).unwrap_or_default();
        self.recursive.push((reference.to_owned(), name.clone()));
        name
    }

    fn fields(&mut self, fields: &Map<String, Value>, depth: usize) -> Result<Value, String> {
        let fields = to_current_keywords(fields);
        let mut written = Map::new();
        for (name, value) in &*fields {
            if LEFT_OUT.contains(&name.as_str()) || name.starts_with("x-") {
                continue;
            }
            if matches!(
                name.as_str(),
                "$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$vocabulary"
            ) {
                return Err(format!(
                    "`{name}` in a schema is not read; write the schema without it"
                ));
            }
            let value = match value {
                Value::Object(named) if NAMED.contains(&name.as_str()) => {
                    let all = named.iter().map(|(name, one)| {
                        Ok((name.clone(), self.schema(one, depth.saturating_sub(1))?))
                    });
                    Value::Object(all.collect::<Result<_, String>>()?)
                }
                value if DATA.contains(&name.as_str()) => {
                    let parts = value.as_array().map_or(1, Vec::len);
                    // Large enums and defaults count too.
                    self.left =
                        self.left.saturating_sub(parts.max(value.to_string().len() / PART_BYTES));
                    value.clone()
                }
                value => self.schema(value, depth.saturating_sub(1))?,
            };
            written.insert(name.clone(), value);
        }
        Ok(Value::Object(written))
    }
}

/// Returns `true` for a reference whose chain of references never ends.
fn is_endless(document: &Value, reference: &str) -> bool {
    let mut reference = reference;
    for _ in 0..MOST_STEPS {
        let found = target(document, reference).ok().and_then(|found| found.as_object());
        match found
            .filter(|fields| fields.len() == 1)
            .and_then(|fields| fields.get("$ref")?.as_str())
        {
            Some(next) => reference = next,
            None => return false,
        }
    }
    true
}

/// Returns the keywords next to a reference.
fn without_reference(fields: &Map<String, Value>) -> Map<String, Value> {
    let beside = fields.iter().filter(|(name, _)| *name != "$ref");
    beside.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Merges the target of a `$ref` with the keywords next to it. Descriptive keywords of `other`
/// replace those of `one`. Conflicting keywords are combined with `allOf`.
fn merged(mut one: Map<String, Value>, mut other: Map<String, Value>) -> Value {
    if let (Some(Value::Array(required)), Some(Value::Array(more))) =
        (one.get_mut("required"), other.get("required"))
    {
        let missing: Vec<Value> =
            more.iter().filter(|name| !required.contains(name)).cloned().collect();
        required.extend(missing);
        other.remove("required");
    }
    if let (Some(Value::Object(properties)), Some(Value::Object(more))) =
        (one.get_mut("properties"), other.get("properties"))
        && more.iter().all(|(name, schema)| properties.get(name).is_none_or(|own| own == schema))
    {
        properties.extend(more.clone());
        other.remove("properties");
    }
    let is_note = |name: &str| NOTES.contains(&name);
    let conflicts: Vec<String> = other
        .iter()
        .filter(|(name, of)| !is_note(name) && one.get(*name).is_some_and(|own| own != *of))
        .map(|(name, _)| name.clone())
        .collect();
    if conflicts.is_empty() {
        one.extend(other);
        return Value::Object(one);
    }
    json!({"allOf": [one, other]})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{resolved, resolved_schema};

    #[test]
    fn references_are_written_out_and_circles_end() {
        let document = json!({"components": {"schemas": {
            "Pet": {"type": "object", "properties": {
                "$ref": {"type": "string"},
                "tag": {"$ref": "#/components/schemas/Tag", "description": "Its own."},
                "parent": {"$ref": "#/components/schemas/Pet"},
                "a/b": {"$ref": "#/components/schemas/a~1b"}
            }, "required": ["tag"], "example": {"$ref": "#/no"}, "x-more": 1},
            "Tag": {"type": "string", "enum": ["a"], "description": "Of all."},
            "a/b": {"type": "integer"},
            "{é}": {"type": "null"},
            "Loop": {"$ref": "#/components/schemas/Loop"}
        }}});
        let pet = resolved_schema(&document, &json!({"$ref": "#/components/schemas/Pet"})).unwrap();
        let expected = json!({"type": "object", "required": ["tag"], "properties": {
            "$ref": {"type": "string"},
            "tag": {"type": "string", "enum": ["a"], "description": "Its own."},
            "parent": {"$ref": "#/$defs/Pet"},
            "a/b": {"type": "integer"}
        }});
        let mut whole = expected.clone();
        whole["$defs"] = json!({ "Pet": expected });
        assert_eq!(pet, whole);
        assert!(resolved_schema(&document, &json!({"$ref": "#/components/schemas/Loop"})).is_ok());
        // In a URL, the pointer is percent-encoded.
        for reference in [
            "#/components/schemas/%7B%C3%a9%7D",
            "#/components/schemas/{é}",
            "#/components%2Fschemas/%7Bé}",
        ] {
            let read = resolved_schema(&document, &json!({"$ref": reference}));
            assert_eq!(read, Ok(json!({"type": "null"})), "{reference}");
        }
        for (reference, says) in [
            ("#/components/schemas/Pte", "leads nowhere"),
            ("#/components/schemas/%", "leads nowhere"),
            ("#/components/schemas/%+7B", "leads nowhere"),
            ("#/components/schemas/%é%ff", "leads nowhere"),
            ("other.yaml#/Pet", "leads out of the document"),
            ("https://example.org/pet.json", "leads out of the document"),
            ("file:///etc/passwd", "leads out of the document"),
        ] {
            let schema = json!({"items": {"$ref": reference}});
            let problem = resolved_schema(&document, &schema).unwrap_err();
            assert!(problem.contains(says) && problem.contains(reference), "{problem}");
            assert!(resolved(&document, &json!({"$ref": reference})).is_err());
        }
        assert!(resolved(&document, &json!({"$ref": "#/components/schemas/Loop"})).is_err());
    }

    #[test]
    fn schemas_that_contain_each_other_are_definitions() {
        let document = json!({"s": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/s/B"}}, "additionalProperties": false},
            "B": {"type": "array", "items": {"$ref": "#/s/A", "description": "One."}},
            "x/A": {"properties": {"again": {"$ref": "#/s/x~1A"}}},
        }});
        let both = json!({"properties": {"a": {"$ref": "#/s/A"}, "x": {"$ref": "#/s/x~1A"}}});
        let written = resolved_schema(&document, &both).unwrap();
        let of_a = |description: &str| json!({"$ref": "#/$defs/A", "description": description});
        assert_eq!(written["properties"]["a"]["properties"]["b"]["items"], of_a("One."));
        let names: Vec<&String> = written["$defs"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["A", "x_1A"]);
        let check = agentflow_schema::schema_check::SchemaCheck::new(&written).unwrap();
        check.check(&json!({"a": {"b": [{"b": [{"b": []}]}]}})).unwrap();
        let problem =
            check.check(&json!({"a": {"b": [{"b": [{"b": 1}]}]}})).unwrap_err().to_string();
        assert!(problem.contains("a.b[0].b[0].b"), "{problem}");
        assert!(check.check(&json!({"a": {"b": [{"c": []}]}})).is_err());
    }

    #[test]
    fn a_schema_that_grows_with_each_reference_is_refused() {
        let mut schemas = serde_json::Map::new();
        for at in 0..30 {
            let next = json!({"$ref": format!("#/{}", at + 1)});
            schemas
                .insert(at.to_string(), json!({"properties": {"a": next, "b": next, "c": next}}));
        }
        schemas.insert("30".to_owned(), json!({"type": "string"}));
        let document = json!(schemas);
        let problem = resolved_schema(&document, &json!({"$ref": "#/0"})).unwrap_err();
        assert!(problem.contains("more than 5000 parts"), "{problem}");
        let mut deep = json!({"type": "string"});
        for _ in 0..200 {
            deep = json!({"items": deep});
        }
        assert!(resolved_schema(&document, &deep).is_err());
    }
}
