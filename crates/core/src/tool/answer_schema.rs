//! The JSON Schema of a `#[tool]` function's answer, if the return type implements `JsonSchema`.
//! Without it, the tool has no answer schema.
//!
//! The implementation is selected by method resolution (autoref specialization), as in `probe.rs`:
//! the first of the traits below that fits the type.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde_json::Value;

/// Queries the schema of a return type: `(&&&AnswerType::<T>::NEW).agentflow_schema()`.
pub struct AnswerType<T>(PhantomData<fn() -> T>);

impl<T> AnswerType<T> {
    pub const NEW: Self = Self(PhantomData);
}

/// Schema of the success value of a `Result`.
pub trait ResultSchema {
    fn agentflow_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema, E> ResultSchema for &&AnswerType<Result<T, E>> {
    fn agentflow_schema(&self) -> Option<Value> {
        Some(schema_of::<T>())
    }
}

/// Schema of any other type.
pub trait ValueSchema {
    fn agentflow_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema> ValueSchema for &AnswerType<T> {
    fn agentflow_schema(&self) -> Option<Value> {
        Some(schema_of::<T>())
    }
}

/// Fallback for types without a schema.
pub trait NoSchema {
    fn agentflow_schema(&self) -> Option<Value> {
        None
    }
}

impl<T> NoSchema for AnswerType<T> {}

/// Returns the schema of the JSON that serde writes for a type.
fn schema_of<T: JsonSchema>() -> Value {
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.meta_schema = None)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    closed(schema)
}

/// Keywords that allow an object to have fields outside of its `properties`.
const OTHERS: [&str; 9] = [
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "$ref",
    "anyOf",
    "oneOf",
    "allOf",
    "if",
    "not",
];

/// Closes the objects in a schema whose fields are all listed, by `"additionalProperties": false`.
/// The schema must describe what serde writes for a Rust type: schemars marks objects that allow
/// other fields, and leaves out the keyword for the rest.
pub(crate) fn closed(mut schema: Value) -> Value {
    let mut open = BTreeSet::new();
    extended(&schema, &mut open);
    close(&mut schema, "#", &open, false);
    schema
}

/// Collects the definitions that are included in an object with more fields. They must stay open.
fn extended(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(keywords) => {
            if let Some(Value::String(to)) =
                keywords.get("$ref").filter(|_| keywords.contains_key("properties"))
            {
                into.insert(to.clone());
            }
            for part in ["allOf", "anyOf", "oneOf"].iter().filter_map(|part| keywords.get(*part)) {
                let refs = part
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|part| part.get("$ref")?.as_str());
                into.extend(
                    refs.filter(|_| keywords.contains_key("properties")).map(ToOwned::to_owned),
                );
            }
            keywords.values().for_each(|schema| extended(schema, into));
        }
        Value::Array(all) => all.iter().for_each(|schema| extended(schema, into)),
        _ => {}
    }
}

fn close(schema: &mut Value, place: &str, open: &BTreeSet<String>, is_part: bool) {
    match schema {
        Value::Object(keywords) => {
            let is_whole = OTHERS.iter().all(|keyword| !keywords.contains_key(*keyword));
            let has_fields = keywords.contains_key("properties");
            if has_fields && is_whole && !is_part && !open.contains(place) {
                keywords.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            for (keyword, of) in keywords.iter_mut() {
                let place = format!("{place}/{keyword}");
                match keyword.as_str() {
                    "const" | "enum" | "default" | "examples" => {}
                    "allOf" => close(of, &place, open, true),
                    "anyOf" | "oneOf" => close(of, &place, open, is_part || has_fields),
                    "properties" | "$defs" => {
                        for (name, of) in of.as_object_mut().into_iter().flatten() {
                            close(of, &format!("{place}/{name}"), open, false);
                        }
                    }
                    _ => close(of, &place, open, false),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|of| close(of, place, open, is_part)),
        _ => {}
    }
}
