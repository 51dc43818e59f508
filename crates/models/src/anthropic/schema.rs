//! Converts a JSON Schema to the subset that Anthropic's structured output enforces.
//!
//! Keywords that only restrict a value (lengths, ranges, patterns) move to the description, where
//! the model reads them. A keyword that changes the shape is an error that names the field.

use serde_json::{Map, Value};

/// Text formats that the service enforces.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// Keywords that change the shape and that the service does not support.
const SHAPES: [&str; 8] = [
    "patternProperties",
    "propertyNames",
    "if",
    "not",
    "dependentSchemas",
    "contains",
    "unevaluatedProperties",
    "$dynamicRef",
];

/// Converts a schema to the form that the service accepts.
///
/// # Errors
/// Returns a message if the schema cannot be expressed. It names the field and the fix.
pub(super) fn strict(schema: &Value) -> Result<Value, String> {
    let definitions = schema.get("$defs").and_then(Value::as_object);
    let mut strict = Strict { definitions, open: Vec::new(), path: Vec::new() }.schema(schema)?;
    if let (Some(definitions), Some(strict_schema)) = (definitions, strict.as_object_mut()) {
        let mut all = Map::new();
        for (name, definition) in definitions {
            let mut inner = Strict {
                definitions: Some(definitions),
                open: vec![name],
                path: vec![name.clone()],
            };
            all.insert(name.clone(), inner.schema(definition)?);
        }
        strict_schema.insert("$defs".to_owned(), Value::Object(all));
    }
    Ok(strict)
}

struct Strict<'a> {
    definitions: Option<&'a Map<String, Value>>,
    /// The definitions that enclose the current schema. A reference to one of them is recursive.
    open: Vec<&'a str>,
    path: Vec<String>,
}

impl<'a> Strict<'a> {
    fn schema(&mut self, schema: &'a Value) -> Result<Value, String> {
        let Some(object) = schema.as_object() else {
            return Err(self.problem("may be anything", "give it a type of its own"));
        };
        let mut rest = object.clone();
        for silent in ["$defs", "$schema", "$id", "$comment", "title", "default", "examples"] {
            rest.remove(silent);
        }
        if let Some(keyword) = SHAPES.iter().find(|keyword| rest.contains_key(**keyword)) {
            return Err(self.problem(&format!("uses `{keyword}`"), "use a struct or an enum"));
        }
        let mut strict = Map::new();
        if let Some(title) = object.get("title") {
            strict.insert("title".to_owned(), title.clone());
        }
        if let Some(reference) = rest.remove("$ref") {
            self.follow(&reference)?;
            strict.insert("$ref".to_owned(), reference);
            return Ok(Value::Object(strict));
        }
        let description = rest.remove("description");
        self.shape(object, &mut rest, &mut strict)?;
        if let Some(text) = described(description.as_ref().and_then(Value::as_str), &rest) {
            strict.insert("description".to_owned(), Value::String(text));
        }
        Ok(Value::Object(strict))
    }

    /// Converts the type of a value. Removes from `rest` the keywords that the type covers.
    fn shape(
        &mut self,
        object: &'a Map<String, Value>,
        rest: &mut Map<String, Value>,
        strict: &mut Map<String, Value>,
    ) -> Result<(), String> {
        for literal in ["enum", "const"] {
            let primitive = |value: &Value| !value.is_array() && !value.is_object();
            match object.get(literal) {
                Some(Value::Array(values)) if literal == "enum" && values.iter().all(primitive) => {
                }
                Some(value) if literal == "const" && primitive(value) => {}
                Some(_) => {
                    return Err(
                        self.problem("is one of some lists or objects", "use an enum of names")
                    );
                }
                None => continue,
            }
            rest.remove("type");
            strict.extend(rest.remove(literal).map(|value| (literal.to_owned(), value)));
            return Ok(());
        }
        // The service does not support `oneOf`. The answer is checked again, so `anyOf` is
        // sufficient.
        for (keyword, kept) in [("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")] {
            let Some(Value::Array(variants)) = object.get(keyword) else { continue };
            if rest.contains_key("properties") {
                return Err(
                    self.problem("mixes fields with variants", "give the enum a field of its own")
                );
            }
            rest.remove(keyword);
            rest.remove("type");
            let variants = variants
                .iter()
                .map(|variant| self.schema(variant))
                .collect::<Result<Vec<_>, _>>()?;
            strict.insert(kept.to_owned(), variants.into());
            return Ok(());
        }
        match object.get("type") {
            Some(Value::String(kind)) => {
                rest.remove("type");
                strict.insert("type".to_owned(), kind.as_str().into());
                self.typed(kind, object, rest, strict)
            }
            Some(Value::Array(kinds)) => {
                rest.remove("type");
                let mut variants = Vec::new();
                let mut said = rest.clone();
                for kind in kinds.iter().filter_map(Value::as_str) {
                    let mut variant = Map::from_iter([("type".to_owned(), kind.into())]);
                    let mut left = rest.clone();
                    self.typed(kind, object, &mut left, &mut variant)?;
                    // A keyword that one of the types covers is not described in words.
                    said.retain(|name, _| left.contains_key(name));
                    variants.push(Value::Object(variant));
                }
                *rest = said;
                strict.insert("anyOf".to_owned(), variants.into());
                Ok(())
            }
            _ => Err(self.problem("may be anything", "give it a type of its own")),
        }
    }

    fn typed(
        &mut self,
        kind: &str,
        object: &'a Map<String, Value>,
        rest: &mut Map<String, Value>,
        strict: &mut Map<String, Value>,
    ) -> Result<(), String> {
        match kind {
            "object" => self.object(object, rest, strict),
            "array" => {
                if rest.contains_key("prefixItems") {
                    return Err(self.problem("is a tuple", "use a struct"));
                }
                let Some(items) = object.get("items") else {
                    return Err(
                        self.problem("is a list of anything", "give its items a type of their own")
                    );
                };
                rest.remove("items");
                let items = self.at("[]", |strict| strict.schema(items))?;
                strict.insert("items".to_owned(), items);
                // The service supports `minItems` only with the values 0 and 1.
                if rest.get("minItems").and_then(Value::as_u64).is_some_and(|least| least <= 1) {
                    strict.extend(
                        rest.remove("minItems").map(|least| ("minItems".to_owned(), least)),
                    );
                }
                Ok(())
            }
            "string" => {
                if rest
                    .get("format")
                    .and_then(Value::as_str)
                    .is_some_and(|format| FORMATS.contains(&format))
                {
                    strict
                        .extend(rest.remove("format").map(|format| ("format".to_owned(), format)));
                }
                Ok(())
            }
            _ => {
                // Formats of Rust's number types have no meaning for a model.
                rest.remove("format");
                Ok(())
            }
        }
    }

    fn object(
        &mut self,
        object: &'a Map<String, Value>,
        rest: &mut Map<String, Value>,
        strict: &mut Map<String, Value>,
    ) -> Result<(), String> {
        if rest.remove("additionalProperties").is_some_and(|allowed| allowed != Value::Bool(false))
        {
            return Err(self.problem(
                "is a map, whose keys are not known before",
                "use a list of structs with a key",
            ));
        }
        rest.remove("properties");
        let mut properties = Map::new();
        for (name, property) in
            object.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let property = self.at(name, |strict| strict.schema(property))?;
            properties.insert(name.clone(), property);
        }
        strict.insert("properties".to_owned(), properties.into());
        strict.insert("additionalProperties".to_owned(), false.into());
        strict.extend(rest.remove("required").map(|required| ("required".to_owned(), required)));
        Ok(())
    }

    /// Visits a definition to find recursion and errors. Its result is not used.
    fn follow(&mut self, reference: &Value) -> Result<(), String> {
        let name = reference.as_str().and_then(|reference| reference.strip_prefix("#/$defs/"));
        if reference == "#" {
            return Err(self.endless());
        }
        let found = name.and_then(|name| self.definitions?.get_key_value(name));
        let Some((name, definition)) = found else {
            return Err(self.problem(
                &format!("refers to {reference}, which is not there"),
                "define it in `$defs`",
            ));
        };
        if self.open.contains(&name.as_str()) {
            return Err(self.endless());
        }
        self.open.push(name);
        self.schema(definition)?;
        self.open.pop();
        Ok(())
    }

    fn at<T>(
        &mut self,
        name: &str,
        inner: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.path.push(name.to_owned());
        let result = inner(self);
        self.path.pop();
        result
    }

    fn endless(&self) -> String {
        self.problem(
            "contains its own type",
            "use a type that ends, such as a list with parent ids",
        )
    }

    fn problem(&self, problem: &str, cure: &str) -> String {
        let field = match self.path.is_empty() {
            true => "the answer".to_owned(),
            false => format!("`{}`", self.path.join(".").replace(".[]", "[]")),
        };
        format!(
            "{field} {problem}, which Anthropic's structured output cannot express; {cure}, or build the model with \
             `.output_mode(OutputMode::Tool)`"
        )
    }
}

/// Returns the description, extended by the keywords that the service does not enforce. The model
/// may follow them.
fn described(description: Option<&str>, rest: &Map<String, Value>) -> Option<String> {
    let rules: Vec<String> = rest.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let rules = (!rules.is_empty()).then(|| format!("({})", rules.join(", ")));
    let texts: Vec<&str> = description.into_iter().chain(rules.as_deref()).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::{Value, json};

    use super::strict;

    #[test]
    fn objects_are_closed_and_limits_become_words() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "title": "Risk",
            "properties": {
                "level": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255, "description": "How bad."},
                "why": {"type": ["string", "null"], "maxLength": 9},
                "at": {"type": "string", "format": "date-time"},
                "tags": {"type": "array", "items": {"type": "string", "format": "regex"}, "minItems": 2},
                "kind": {"oneOf": [{"type": "string", "const": "a", "description": "A."}, {"enum": ["b", null]}]},
            },
            "required": ["level", "tags"],
        });
        let want = json!({
            "type": "object",
            "title": "Risk",
            "properties": {
                "level": {"type": "integer", "description": "How bad. (maximum: 255, minimum: 0)"},
                "why": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "(maxLength: 9)"},
                "at": {"type": "string", "format": "date-time"},
                "tags": {
                    "type": "array",
                    "items": {"type": "string", "description": "(format: \"regex\")"},
                    "description": "(minItems: 2)",
                },
                "kind": {"anyOf": [{"const": "a", "description": "A."}, {"enum": ["b", null]}]},
            },
            "required": ["level", "tags"],
            "additionalProperties": false,
        });
        assert_eq!(strict(&schema), Ok(want.clone()));
        // Converting the result again changes nothing.
        let again = strict(&want).expect("taken again");
        assert_eq!(again["properties"]["why"], want["properties"]["why"]);
        assert_eq!(again["properties"]["level"], want["properties"]["level"]);
    }

    #[test]
    fn what_cannot_be_said_names_its_field() {
        let of = |property: Value| {
            let item = json!({"type": "object", "properties": {"x": property}});
            let schema =
                json!({"type": "object", "properties": {"list": {"type": "array", "items": item}}});
            strict(&schema).expect_err("not to be said")
        };
        for (property, problem) in [
            (json!(true), "may be anything"),
            (json!({}), "may be anything"),
            (json!({"type": "object", "additionalProperties": {"type": "string"}}), "is a map"),
            (json!({"type": "object", "patternProperties": {}}), "uses `patternProperties`"),
            (json!({"type": "array", "prefixItems": [{"type": "string"}]}), "is a tuple"),
            (json!({"type": "array"}), "is a list of anything"),
            (json!({"type": "object", "properties": {}, "oneOf": []}), "mixes fields"),
            (json!({"$ref": "#/$defs/Nowhere"}), "refers to"),
            (json!({"enum": [[1]]}), "is one of some lists"),
        ] {
            let error = of(property);
            assert!(error.starts_with(&format!("`list[].x` {problem}")), "{error}");
            assert!(error.contains("OutputMode::Tool"), "{error}");
        }
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Node {
        name: String,
        children: Vec<Node>,
    }

    #[test]
    fn a_type_that_contains_itself_is_found() {
        let schema = schemars::schema_for!(Node).to_value();
        let error = strict(&schema).expect_err("endless");
        assert!(error.starts_with("`children[]`"), "{error}");
        let schema = json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"type": "object", "properties": {"n": {"type": "number", "format": "double"}}}},
        });
        let strict = strict(&schema).expect("a definition used twice");
        assert_eq!(strict["$defs"]["A"]["properties"]["n"], json!({"type": "number"}));
        assert_eq!(strict["properties"]["b"], json!({"$ref": "#/$defs/A"}));
    }
}
