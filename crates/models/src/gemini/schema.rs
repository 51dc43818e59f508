//! Converts a JSON Schema to the subset that Gemini supports (`responseJsonSchema`,
//! `parametersJsonSchema`).
//!
//! A keyword that only restricts a value, such as `maxLength`, moves to the description. The
//! restriction is still enforced, because answers and arguments are checked again when they are
//! decoded. For an answer, any other unsupported keyword is an error. The schema of a tool is
//! reduced to the supported keywords.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// Keywords with the same meaning in Gemini's subset of JSON Schema.
const KEPT: &[&str] = &[
    "$anchor",
    "$id",
    "type",
    "title",
    "description",
    "required",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "propertyOrdering",
];

/// Keywords that only restrict a value. They are described in words.
const TOLD: &[&str] = &[
    "pattern",
    "minLength",
    "maxLength",
    "multipleOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "dependentRequired",
    "contains",
    "minContains",
    "maxContains",
];

/// Keywords that Gemini does not support and that change which values are valid.
const REFUSED: &[&str] =
    &["not", "if", "patternProperties", "dependentSchemas", "$dynamicRef", "unevaluatedItems"];

/// Text formats that Gemini supports.
const FORMATS: &[&str] = &["date-time", "date", "time"];

/// Converts the schema of an answer.
///
/// # Errors
/// Returns a message if the schema cannot be expressed. It contains the path of the field and the
/// fix.
pub(super) fn answer(schema: &Value) -> Result<Value, String> {
    let out = whole(schema, true)?;
    let mut ended = HashSet::new();
    for (name, definition) in definitions(&out) {
        check_finite(
            definition,
            &out,
            &mut vec![format!("#/$defs/{name}")],
            &mut ended,
            &mut vec![name.clone()],
        )?;
    }
    check_finite(&out, &out, &mut vec!["#".to_owned()], &mut ended, &mut Vec::new())?;
    Ok(out)
}

/// Converts the schema of a tool's arguments. Returns `None` for a tool without arguments.
pub(super) fn arguments(schema: &Value) -> Option<Value> {
    let out = whole(schema, false).unwrap_or_default();
    let none =
        |name: &str| out.get(name).is_none_or(|value| value.as_object().is_some_and(Map::is_empty));
    let closed = !out["additionalProperties"].is_object() && out["additionalProperties"] != true;
    let empty = none("properties")
        && closed
        && ["$ref", "anyOf"].iter().all(|name| out.get(*name).is_none());
    (!empty).then_some(out)
}

fn whole(schema: &Value, strict: bool) -> Result<Value, String> {
    let walk = Walk { strict };
    let mut path = Vec::new();
    let mut out = walk.schema(schema, &mut path)?;
    let mut kept = Map::new();
    for group in ["$defs", "definitions"] {
        for (name, definition) in schema.get(group).and_then(Value::as_object).into_iter().flatten()
        {
            path.push(name.clone());
            kept.insert(name.clone(), walk.schema(definition, &mut path)?);
            path.pop();
        }
    }
    if !kept.is_empty() {
        out["$defs"] = Value::Object(kept);
    }
    Ok(out)
}

type Path = Vec<String>;

struct Walk {
    /// `true` if an unsupported keyword is an error.
    strict: bool,
}

impl Walk {
    fn schema(&self, schema: &Value, path: &mut Path) -> Result<Value, String> {
        let Some(given) = schema.as_object() else { return self.any(path, json!({})) };
        if let Some(keyword) = REFUSED.iter().find(|keyword| given.contains_key(**keyword))
            && self.strict
        {
            return Err(refused(path, &format!("uses `{keyword}`"), "write its type without that"));
        }
        let merged = self.merged(given, path)?;
        let given = merged.as_ref().unwrap_or(given);
        let mut out: Map<String, Value> = given
            .iter()
            .filter(|(name, _)| KEPT.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut told: Vec<String> = Vec::new();
        for keyword in TOLD {
            if let Some(value) = given.get(*keyword) {
                told.push(format!("{keyword}: {value}"));
            }
        }
        self.children(given, &mut out, path)?;
        choices(given, &mut out, &mut told);
        if let Some(format) = given.get("format").and_then(Value::as_str) {
            match FORMATS.contains(&format) {
                true => drop(out.insert("format".to_owned(), format.into())),
                // The width of a number is checked when it is decoded.
                false if given.get("type").is_none_or(|kind| kind == "string") => {
                    told.push(format!("format: {format}"));
                }
                false => {}
            }
        }
        // OpenAPI's keyword, which external tools use.
        if given.get("nullable") == Some(&Value::Bool(true))
            && let Some(Value::String(kind)) = out.get("type")
        {
            out.insert("type".to_owned(), json!([kind, "null"]));
        }
        if !told.is_empty() {
            let known = out.get("description").and_then(Value::as_str).unwrap_or_default();
            let told = format!("({})", told.join(", "));
            let text = if known.is_empty() { told } else { format!("{known} {told}") };
            out.insert("description".to_owned(), text.into());
        }
        if let Some(reference) = given.get("$ref").and_then(Value::as_str) {
            let reference = json!({"$ref": reference.replacen("#/definitions/", "#/$defs/", 1)});
            // Gemini does not allow other keywords next to a reference.
            return Ok(match out.is_empty() {
                true => reference,
                false => {
                    out.insert("anyOf".to_owned(), json!([reference]));
                    Value::Object(out)
                }
            });
        }
        match ["type", "anyOf", "enum", "properties", "items"]
            .iter()
            .any(|name| out.contains_key(*name))
        {
            true => Ok(Value::Object(out)),
            false => self.any(path, Value::Object(out)),
        }
    }

    /// Handles a schema without a type.
    fn any(&self, path: &Path, schema: Value) -> Result<Value, String> {
        match self.strict {
            true => Err(refused(path, "takes any JSON", "give it a type")),
            false => Ok(schema),
        }
    }

    fn children(
        &self,
        given: &Map<String, Value>,
        out: &mut Map<String, Value>,
        path: &mut Path,
    ) -> Result<(), String> {
        let mut below = |name: &str, schema: &Value| {
            path.push(name.to_owned());
            let child = self.schema(schema, path);
            path.pop();
            child
        };
        if let Some(properties) = given.get("properties").and_then(Value::as_object) {
            let mut children = Map::new();
            for (name, schema) in properties {
                children.insert(name.clone(), below(name, schema)?);
            }
            out.insert("properties".to_owned(), Value::Object(children));
        }
        match given.get("items") {
            Some(schema @ Value::Object(_)) => {
                out.insert("items".to_owned(), below("[]", schema)?);
            }
            // With `prefixItems`, a boolean `items` only allows or forbids further items.
            Some(_) if given.contains_key("prefixItems") => {}
            Some(schema) => drop(out.insert("items".to_owned(), below("[]", schema)?)),
            None => {}
        }
        if let Some(additional) = given.get("additionalProperties") {
            let additional = match additional {
                Value::Object(_) => below("{}", additional)?,
                other => other.clone(),
            };
            out.insert("additionalProperties".to_owned(), additional);
        }
        // `oneOf` becomes `anyOf`. An answer that matches several alternatives is refused when it
        // is checked again.
        for (name, to) in [("prefixItems", "prefixItems"), ("oneOf", "anyOf"), ("anyOf", "anyOf")] {
            let Some(schemas) = given.get(name).and_then(Value::as_array) else { continue };
            let mut children = Vec::new();
            for (number, schema) in schemas.iter().enumerate() {
                children.push(below(&format!("{name}[{number}]"), schema)?);
            }
            out.insert(to.to_owned(), Value::Array(children));
        }
        Ok(())
    }

    /// Merges the parts of an `allOf` into one schema.
    fn merged(
        &self,
        given: &Map<String, Value>,
        path: &Path,
    ) -> Result<Option<Map<String, Value>>, String> {
        let Some(parts) = given.get("allOf").and_then(Value::as_array) else { return Ok(None) };
        let mut whole = given.clone();
        whole.remove("allOf");
        for part in parts.iter().filter_map(Value::as_object) {
            for (name, value) in part {
                // Properties and required names of the parts add up. Any other keyword must be the
                // same in all parts.
                let fits = match (whole.get_mut(name), value) {
                    (None, _) => {
                        whole.insert(name.clone(), value.clone());
                        true
                    }
                    (Some(Value::Object(known)), Value::Object(more)) if name == "properties" => {
                        let clash = more.keys().any(|key| known.contains_key(key));
                        known.extend(more.clone());
                        !clash
                    }
                    (Some(Value::Array(known)), Value::Array(more)) if name == "required" => {
                        known.extend(more.clone());
                        true
                    }
                    (Some(known), value) => {
                        known == value || matches!(name.as_str(), "title" | "description")
                    }
                };
                if !fits && self.strict {
                    return Err(refused(
                        path,
                        "is an `allOf` whose parts say different things",
                        "write it as one type",
                    ));
                }
            }
        }
        Ok(Some(whole))
    }
}

/// Converts `enum` and `const`. Gemini supports them for strings and numbers.
fn choices(given: &Map<String, Value>, out: &mut Map<String, Value>, told: &mut Vec<String>) {
    let values = match (given.get("enum"), given.get("const")) {
        (Some(Value::Array(values)), _) => values.clone(),
        (_, Some(value)) => vec![value.clone()],
        _ => return,
    };
    // `null` cannot be an `enum` value in Gemini, so it becomes a separate alternative.
    let null = values.contains(&Value::Null);
    let values: Vec<Value> = values.into_iter().filter(|value| !value.is_null()).collect();
    if !values.iter().all(|value| value.is_string() || value.is_number()) {
        if !out.contains_key("type") && values.iter().all(Value::is_boolean) {
            out.insert("type".to_owned(), "boolean".into());
        }
        // Other values cannot be expressed as an `enum`. They are described in words.
        told.push(format!("one of: {}", Value::from(values)));
        return;
    }
    let kind = match values.first() {
        None => "null",
        Some(Value::String(_)) => "string",
        Some(Value::Number(number)) if number.is_f64() => "number",
        Some(_) => "integer",
    };
    if values.is_empty() {
        out.insert("type".to_owned(), kind.into());
    } else if null {
        out.remove("type");
        out.insert("anyOf".to_owned(), json!([{"type": kind, "enum": values}, {"type": "null"}]));
    } else {
        out.entry("type").or_insert_with(|| kind.into());
        out.insert("enum".to_owned(), Value::Array(values));
    }
}

fn definitions(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("$defs").and_then(Value::as_object).into_iter().flatten()
}

/// Returns an error if a type must contain itself: Gemini accepts recursion only through an
/// optional property. `open` contains the references that lead to `schema`. `ended` contains the
/// references that are known to be finite, so that each reference is followed once.
fn check_finite(
    schema: &Value,
    root: &Value,
    open: &mut Vec<String>,
    ended: &mut HashSet<String>,
    path: &mut Path,
) -> Result<(), String> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        if open.iter().any(|name| name == reference) {
            return Err(refused(
                path,
                "always holds a value of its own kind again",
                "make it an `Option` with `#[serde(default)]`, or give it `#[serde(default)]`",
            ));
        }
        // A missing target cannot recur, so it is not an error here.
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        if let Some(target) = target.filter(|_| !ended.contains(reference)) {
            open.push(reference.to_owned());
            check_finite(target, root, open, ended, path)?;
            open.pop();
            ended.insert(reference.to_owned());
        }
    }
    let required = |name: &str| {
        schema
            .get("required")
            .and_then(Value::as_array)
            .is_some_and(|names| names.iter().any(|other| other == name))
    };
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let lists =
        ["anyOf", "prefixItems"].iter().filter_map(|name| schema.get(*name)?.as_array()).flatten();
    let single = ["items", "additionalProperties"]
        .iter()
        .filter_map(|name| Some((*name, schema.get(*name)?)));
    // Only required properties must exist, so recursion through an optional property ends.
    let children = properties
        .filter(|(name, _)| required(name))
        .map(|(name, child)| (Some(name.as_str()), child));
    let children = children
        .chain(lists.map(|child| (None, child)))
        .chain(single.map(|(_, child)| (None, child)));
    for (name, child) in children {
        path.extend(name.map(str::to_owned));
        check_finite(child, root, open, ended, path)?;
        if name.is_some() {
            path.pop();
        }
    }
    Ok(())
}

fn refused(path: &Path, what: &str, instead: &str) -> String {
    let mut field = String::new();
    for step in path {
        if !field.is_empty() && !matches!(step.as_str(), "[]" | "{}") {
            field.push('.');
        }
        field.push_str(step);
    }
    let field = if field.is_empty() {
        "the answer as a whole".to_owned()
    } else {
        format!("the field `{field}`")
    };
    format!("{field} {what}, which Gemini cannot be told; {instead}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{answer, arguments};

    fn field(schema: Value) -> Value {
        let whole = json!({"type": "object", "properties": {"x": schema}});
        answer(&whole).expect("expressible")["properties"]["x"].clone()
    }

    fn error(schema: Value) -> String {
        let whole =
            json!({"type": "object", "properties": {"a": {"type": "array", "items": schema}}});
        answer(&whole).expect_err("not expressible")
    }

    #[test]
    fn what_gemini_knows_is_kept() {
        let schema = json!({
            "type": "object",
            "title": "T",
            "description": "d",
            "properties": {
                "when": {"type": "string", "format": "date-time"},
                "count": {"type": "integer", "minimum": 0, "maximum": 9},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false},
                "map": {"type": "object", "additionalProperties": {"type": "number"}},
                "maybe": {"type": ["string", "null"]},
            },
            "required": ["when"],
            "additionalProperties": false,
        });
        let mut expected = schema.clone();
        // The parts determine the length of the tuple.
        expected["properties"]["pair"].as_object_mut().unwrap().remove("items");
        assert_eq!(answer(&schema), Ok(expected));
    }

    #[test]
    fn what_only_narrows_becomes_words() {
        assert_eq!(
            field(
                json!({"type": "string", "minLength": 2, "pattern": "^a", "format": "uuid", "description": "An id."})
            ),
            json!({"type": "string", "description": "An id. (pattern: \"^a\", minLength: 2, format: uuid)"})
        );
        assert_eq!(
            field(
                json!({"type": "integer", "format": "uint8", "minimum": 0, "default": 3, "examples": [1]})
            ),
            json!({"type": "integer", "minimum": 0})
        );
    }

    #[test]
    fn choices_are_texts_and_numbers() {
        assert_eq!(field(json!({"const": "a"})), json!({"type": "string", "enum": ["a"]}));
        assert_eq!(field(json!({"enum": [1, 2]})), json!({"type": "integer", "enum": [1, 2]}));
        assert_eq!(
            field(json!({"type": ["string", "null"], "enum": ["a", null]})),
            json!({"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]})
        );
        assert_eq!(
            field(json!({"const": true})),
            json!({"type": "boolean", "description": "(one of: [true])"})
        );
        assert_eq!(field(json!({"const": null})), json!({"type": "null"}));
        assert_eq!(
            field(json!({"oneOf": [{"type": "string", "const": "a"}, {"type": "null"}]})),
            json!({"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]})
        );
    }

    #[test]
    fn a_reference_stands_alone() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/A"}, "b": {"$ref": "#/$defs/A", "description": "The other."}},
            "definitions": {"A": {"type": "string", "minLength": 1}},
        });
        assert_eq!(
            answer(&schema),
            Ok(json!({
                "type": "object",
                "properties": {
                    "a": {"$ref": "#/$defs/A"},
                    "b": {"anyOf": [{"$ref": "#/$defs/A"}], "description": "The other."},
                },
                "$defs": {"A": {"type": "string", "description": "(minLength: 1)"}},
            }))
        );
    }

    #[test]
    fn all_of_becomes_one() {
        let object = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
        assert_eq!(
            field(json!({"description": "d", "allOf": [object("a"), object("b")]})),
            json!({
                "description": "d",
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "required": ["a", "b"],
            })
        );
        assert!(
            error(json!({"allOf": [{"type": "string"}, {"type": "integer"}]})).contains("allOf")
        );
    }

    #[test]
    fn what_cannot_be_said_names_the_field() {
        assert_eq!(
            error(json!({"type": "object", "properties": {"b": true}})),
            "the field `a[].b` takes any JSON, which Gemini cannot be told; give it a type"
        );
        assert!(error(json!({"description": "anything"})).contains("`a[]` takes any JSON"));
        for keyword in ["not", "if", "patternProperties", "dependentSchemas"] {
            let problem = error(json!({"type": "object", keyword: {}}));
            assert!(problem.contains("`a[]`") && problem.contains(keyword), "{problem}");
        }
    }

    #[test]
    fn a_type_may_hold_itself_only_where_it_can_be_left_out() {
        let node = |required: Value| {
            json!({
                "type": "object",
                "properties": {"root": {"$ref": "#/$defs/Node"}},
                "required": ["root"],
                "$defs": {"Node": {
                    "type": "object",
                    "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
                    "required": required,
                }},
            })
        };
        assert!(answer(&node(json!([]))).is_ok());
        let problem = answer(&node(json!(["children"]))).expect_err("endless");
        assert!(
            problem.contains("`Node.children`") && problem.contains("serde(default)"),
            "{problem}"
        );
        let itself = json!({
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
            "required": ["next"],
        });
        assert!(answer(&itself).expect_err("endless").contains("`next`"));
    }

    #[test]
    fn a_tool_is_cut_down_to_what_can_be_said() {
        assert_eq!(arguments(&json!({"type": "object", "properties": {}})), None);
        assert_eq!(arguments(&json!({"type": "object"})), None);
        assert_eq!(
            arguments(&json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"any": true, "no": {"not": {"type": "null"}}, "n": {"type": "string", "nullable": true}},
            })),
            Some(json!({
                "type": "object",
                "properties": {"any": {}, "no": {}, "n": {"type": ["string", "null"]}},
            }))
        );
        assert!(
            arguments(&json!({"type": "object", "additionalProperties": {"type": "string"}}))
                .is_some()
        );
    }
}
