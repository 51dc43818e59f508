//! Converts a JSON Schema to the subset of OpenAI's strict mode.
//!
//! In strict mode, every property is required, objects have no additional properties, and only some
//! keywords are supported. A keyword that only restricts a value, such as `maxLength`, moves to the
//! description. The restriction is still enforced, because the answer is checked again when it is
//! decoded. Any other unsupported keyword is an error that names the field.

use serde_json::{Map, Value, json};

/// A schema for strict mode.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strict {
    pub(crate) schema: Value,
    /// `true` if an optional property must now be `null` instead of absent. Its Rust type may not
    /// accept `null`.
    pub(crate) nulled: bool,
}

/// Keywords with the same meaning in strict mode.
const KEPT: &[&str] = &[
    "type",
    "title",
    "description",
    "pattern",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
];

/// Keywords that only restrict a value. They are described in words.
const TOLD: &[&str] = &["minLength", "maxLength", "uniqueItems", "minContains", "maxContains"];

/// Keywords with special handling.
const HANDLED: &[&str] = &[
    "$ref",
    "$defs",
    "definitions",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "allOf",
    "enum",
    "const",
    "format",
];

/// Keywords that strict mode does not support and that change which values are valid.
const REFUSED: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "contains",
    "unevaluatedItems",
    "$dynamicRef",
];

/// Text formats that strict mode supports.
const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Converts a schema to strict mode.
///
/// # Errors
/// Returns a message if the schema cannot be expressed. It contains the path of the field and the
/// fix.
pub(crate) fn strict(schema: &Value) -> Result<Strict, String> {
    let mut walk = Walk { nulled: false };
    let mut path = Vec::new();
    let mut definitions = Map::new();
    for group in ["$defs", "definitions"] {
        for (name, definition) in schema.get(group).and_then(Value::as_object).into_iter().flatten()
        {
            path.push(name.clone());
            definitions.insert(name.clone(), walk.schema(definition, &mut path)?);
            path.pop();
        }
    }
    let mut root = walk.schema(schema, &mut path)?;
    // The root must be an object, and not a reference to an object.
    if let Some(name) = root.get("$ref").and_then(Value::as_str).and_then(definition_name)
        && let Some(definition) = definitions.get(name)
    {
        root = definition.clone();
    }
    if root["type"] != "object" {
        return Err(
            "the answer as a whole must be an object; put it into a struct of its own".to_owned()
        );
    }
    if !definitions.is_empty() {
        root["$defs"] = Value::Object(definitions);
    }
    Ok(Strict { schema: root, nulled: walk.nulled })
}

fn definition_name(reference: &str) -> Option<&str> {
    reference.strip_prefix("#/$defs/").or_else(|| reference.strip_prefix("#/definitions/"))
}

struct Walk {
    nulled: bool,
}

type Path = Vec<String>;

impl Walk {
    fn schema(&mut self, schema: &Value, path: &mut Path) -> Result<Value, String> {
        let Some(schema) = schema.as_object() else {
            return Err(refused(path, "takes any JSON", "give it a type"));
        };
        if let Some(keyword) = REFUSED.iter().find(|keyword| schema.contains_key(**keyword)) {
            return Err(match *keyword {
                "patternProperties" | "propertyNames" | "minProperties" | "maxProperties" => {
                    open_map(path)
                }
                keyword => {
                    refused(path, &format!("uses `{keyword}`"), "use a type that needs none")
                }
            });
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return match definition_name(reference) {
                // Strict mode does not allow other keywords next to a reference.
                Some(name) => Ok(json!({"$ref": format!("#/$defs/{name}")})),
                None if reference == "#" => Ok(json!({"$ref": "#"})),
                None => Err(refused(
                    path,
                    &format!("refers to `{reference}`"),
                    "put the schema under `$defs`",
                )),
            };
        }
        if let Some(Value::Array(all)) = schema.get("allOf") {
            return self.all_of(schema, all, path);
        }
        let mut out = Map::new();
        for keyword in KEPT {
            if let Some(value) = schema.get(*keyword) {
                out.insert((*keyword).to_owned(), value.clone());
            }
        }
        values(schema, &mut out);
        format(schema, &mut out);
        for keyword in TOLD {
            if let Some(value) = schema.get(*keyword).filter(|value| **value != Value::Bool(false))
            {
                tell(&mut out, keyword, value);
            }
        }
        if let Some(variants) =
            ["anyOf", "oneOf"].iter().find_map(|name| schema.get(*name)?.as_array())
        {
            return self.any_of(out, schema, variants, path);
        }
        let is = |name: &str| is_type(&out, name);
        if is("object") {
            self.object(schema, &mut out, path)?;
        } else if is("array") {
            self.array(schema, &mut out, path)?;
        } else if !out.contains_key("type") {
            return Err(refused(path, "takes any JSON", "give it a type"));
        }
        Ok(Value::Object(out))
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        out: &mut Map<String, Value>,
        path: &mut Path,
    ) -> Result<(), String> {
        let closed = matches!(schema.get("additionalProperties"), None | Some(Value::Bool(false)));
        let none = Map::new();
        let properties = match schema.get("properties").and_then(Value::as_object) {
            Some(properties) if closed => properties,
            None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => &none,
            _ => return Err(open_map(path)),
        };
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut all = Map::new();
        for (name, property) in properties {
            path.push(name.clone());
            let mut strict = self.schema(property, path)?;
            path.pop();
            // A field with a default is always written, because `null` would not select the
            // default.
            let has_default = property.get("default").is_some_and(|value| !value.is_null());
            if !required.contains(&name.as_str()) && !has_default && !takes_null(&strict) {
                strict = nullable(strict);
                self.nulled = true;
            }
            all.insert(name.clone(), strict);
        }
        // The order of `required` is kept. The other properties follow.
        let first = required.iter().copied().filter(|name| all.contains_key(*name));
        let rest = all.keys().map(String::as_str).filter(|name| !required.contains(name));
        out.insert("required".to_owned(), first.chain(rest).collect());
        out.insert("properties".to_owned(), Value::Object(all));
        out.insert("additionalProperties".to_owned(), Value::Bool(false));
        Ok(())
    }

    fn array(
        &mut self,
        schema: &Map<String, Value>,
        out: &mut Map<String, Value>,
        path: &mut Path,
    ) -> Result<(), String> {
        let tuple = schema.get("prefixItems").and_then(Value::as_array);
        let items = match (tuple, schema.get("items")) {
            // A tuple with equal item types is a list of fixed length.
            (Some(tuple), None | Some(Value::Bool(false)))
                if tuple.windows(2).all(|two| two[0] == two[1]) =>
            {
                tuple.first()
            }
            (Some(_), _) => {
                return Err(refused(
                    path,
                    "is a tuple of several types",
                    "use a struct with a name for each",
                ));
            }
            (None, items) => items,
        };
        let Some(items) = items else {
            return Err(refused(path, "is a list of anything", "give its items a type"));
        };
        if let Some(tuple) = tuple {
            out.insert("minItems".to_owned(), tuple.len().into());
            out.insert("maxItems".to_owned(), tuple.len().into());
        }
        path.push("[]".to_owned());
        let items = self.schema(items, path)?;
        path.pop();
        out.insert("items".to_owned(), items);
        Ok(())
    }

    fn any_of(
        &mut self,
        mut out: Map<String, Value>,
        schema: &Map<String, Value>,
        variants: &[Value],
        path: &mut Path,
    ) -> Result<Value, String> {
        if schema.get("properties").is_some() {
            return Err(refused(
                path,
                "has fields and variants at once",
                "give the variants a field of their own",
            ));
        }
        // The alternatives already have types.
        out.remove("type");
        let variants = variants
            .iter()
            .map(|variant| self.schema(variant, path))
            .collect::<Result<Vec<_>, _>>()?;
        out.insert("anyOf".to_owned(), variants.into());
        Ok(Value::Object(out))
    }

    /// Merges an `allOf` with a single schema into the enclosing schema. Strict mode cannot express
    /// several schemas.
    fn all_of(
        &mut self,
        schema: &Map<String, Value>,
        all: &[Value],
        path: &mut Path,
    ) -> Result<Value, String> {
        let [Value::Object(only)] = all else {
            return Err(refused(
                path,
                "must fit several schemas at once",
                "write their fields into one struct",
            ));
        };
        let mut merged = only.clone();
        for (keyword, value) in
            schema.iter().filter(|(keyword, _)| *keyword != "allOf" && *keyword != "$defs")
        {
            // Merging two different constraints of one keyword is not possible.
            let known = HANDLED.contains(&keyword.as_str()) || KEPT.contains(&keyword.as_str());
            if known
                && keyword != "description"
                && keyword != "title"
                && merged.contains_key(keyword)
            {
                return Err(refused(
                    path,
                    &format!("says `{keyword}` twice"),
                    "write it into one struct",
                ));
            }
            merged.insert(keyword.clone(), value.clone());
        }
        self.schema(&Value::Object(merged), path)
    }
}

/// Converts `enum` and `const`, and adds the type that strict mode requires.
fn values(schema: &Map<String, Value>, out: &mut Map<String, Value>) {
    let values = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => values.clone(),
        (_, Some(value)) => vec![value.clone()],
        _ => return,
    };
    if !out.contains_key("type") {
        let mut types: Vec<Value> = Vec::new();
        for value in &values {
            let name = Value::from(match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(number) if number.is_f64() => "number",
                Value::Number(_) => "integer",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            });
            if !types.contains(&name) {
                types.push(name);
            }
        }
        let types = if types.len() == 1 { types.remove(0) } else { types.into() };
        out.insert("type".to_owned(), types);
    }
    out.insert("enum".to_owned(), values.into());
}

/// Converts a format. An unsupported text format is described in words. Formats of Rust's number
/// types have no meaning for a model and are omitted.
fn format(schema: &Map<String, Value>, out: &mut Map<String, Value>) {
    let Some(format) = schema.get("format").and_then(Value::as_str) else { return };
    if !is_type(out, "string") {
        return;
    }
    if FORMATS.contains(&format) {
        out.insert("format".to_owned(), format.into());
    } else {
        tell(out, "format", &format.into());
    }
}

fn tell(out: &mut Map<String, Value>, keyword: &str, value: &Value) {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let told = format!("{keyword}: {value}");
    let text = match out.get("description").and_then(Value::as_str) {
        Some(text) if !text.is_empty() => format!("{text} ({told})"),
        _ => told,
    };
    out.insert("description".to_owned(), text.into());
}

fn is_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

fn takes_null(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return false };
    match schema.get("anyOf").and_then(Value::as_array) {
        Some(variants) => variants.iter().any(takes_null),
        None => {
            is_type(schema, "null")
                && schema
                    .get("enum")
                    .and_then(Value::as_array)
                    .is_none_or(|values| values.contains(&Value::Null))
        }
    }
}

fn nullable(mut schema: Value) -> Value {
    if let Some(Value::Array(variants)) = schema.get_mut("anyOf") {
        variants.push(json!({"type": "null"}));
        return schema;
    }
    if schema.get("$ref").is_some() {
        return json!({"anyOf": [schema, {"type": "null"}]});
    }
    match schema.get_mut("type") {
        Some(Value::Array(types)) => types.push("null".into()),
        Some(only) => *only = json!([only.take(), "null"]),
        None => {}
    }
    // An `enum` without `null` would still refuse it.
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
    schema
}

fn open_map(path: &Path) -> String {
    refused(
        path,
        "is a map with free keys",
        "use a list of structs with a field for the key and one for the value",
    )
}

fn refused(path: &Path, problem: &str, instead: &str) -> String {
    let field = match path.as_slice() {
        [] => "the answer as a whole".to_owned(),
        path => format!("the field `{}`", path.join(".").replace(".[]", "[]")),
    };
    format!("{field} {problem}, which a strict schema of OpenAI cannot say; {instead}")
}

#[cfg(test)]
mod tests;
