//! The JSON Schema of what a `#[tool]` function returns, where its type has one. A type that derives no `JsonSchema` costs
//! its author nothing: the tool then has no schema of its answer.
//!
//! It is found by method resolution, as in `probe.rs`: the first of the traits below that the type fits.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde_json::Value;

/// Asks of a return type: `(&&&AnswerType::<T>::NEW).agentflow_schema()`.
pub struct AnswerType<T>(PhantomData<fn() -> T>);

impl<T> AnswerType<T> {
    pub const NEW: Self = Self(PhantomData);
}

/// The value of a `Result`.
pub trait ResultSchema {
    fn agentflow_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema, E> ResultSchema for &&AnswerType<Result<T, E>> {
    fn agentflow_schema(&self) -> Option<Value> {
        Some(schema_of::<T>())
    }
}

/// Any other value.
pub trait ValueSchema {
    fn agentflow_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema> ValueSchema for &AnswerType<T> {
    fn agentflow_schema(&self) -> Option<Value> {
        Some(schema_of::<T>())
    }
}

/// A type without a schema.
pub trait NoSchema {
    fn agentflow_schema(&self) -> Option<Value> {
        None
    }
}

impl<T> NoSchema for AnswerType<T> {}

/// The schema of what serde writes of a value.
fn schema_of<T: JsonSchema>() -> Value {
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.meta_schema = None)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    closed(schema)
}

/// Keywords with which an object has fields that are not among its `properties`.
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

/// The schema of what serde writes of a Rust type, with the objects closed whose fields are all in it: schemars says so
/// where there may be others, and leaves out where there are none.
pub(crate) fn closed(mut schema: Value) -> Value {
    let mut open = BTreeSet::new();
    extended(&schema, &mut open);
    close(&mut schema, "#", &open, false);
    schema
}

/// The definitions that are a part of an object with other fields.
fn extended(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(keywords) => {
            if let Some(Value::String(to)) = keywords.get("$ref").filter(|_| keywords.contains_key("properties")) {
                into.insert(to.clone());
            }
            for part in ["allOf", "anyOf", "oneOf"].iter().filter_map(|part| keywords.get(*part)) {
                let refs = part.as_array().into_iter().flatten().filter_map(|part| part.get("$ref")?.as_str());
                into.extend(refs.filter(|_| keywords.contains_key("properties")).map(ToOwned::to_owned));
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
