//! Creates the JSON Schema of a tool's parameters from their types, docs and defaults.
//! `parameters.rs` reads the arguments of a call.

use serde_json::{Map, Value};

use super::parameters::{Param, ParamType, Parameters};

/// Returns the JSON Schema of a call's arguments. It is a closed object, because an unknown
/// argument is a mistake that must be reported.
pub(crate) fn parameters_schema(parameters: Parameters) -> Value {
    closed_object(parameters.shown().map(|(_, param, of)| (param.name, of, Some(param))))
}

/// Returns the JSON Schema of parameters without descriptions and defaults.
pub(crate) fn parameters_of(parameters: &[(&'static str, &ParamType)]) -> Value {
    closed_object(parameters.iter().map(|(name, of)| (*name, *of, None)))
}

fn closed_object<'p>(
    parameters: impl Iterator<Item = (&'static str, &'p ParamType, Option<&'p Param>)>,
) -> Value {
    // Subschemas are inlined. Recursive types still become `$defs`.
    let mut generator = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, of, param) in parameters {
        let mut schema = (of.schema)(&mut generator);
        if let Some(param) = param.filter(|param| !param.description.is_empty()) {
            schema.insert("description".to_owned(), param.description.into());
        }
        match param.and_then(|param| param.default) {
            Some(default) => {
                schema.insert("default".to_owned(), (default.json)(default.make));
            }
            None if of.is_optional() => {}
            None => required.push(Value::from(name)),
        }
        properties.insert(name.to_owned(), schema.to_value());
    }
    let mut root = Map::new();
    root.insert("type".to_owned(), "object".into());
    root.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        root.insert("required".to_owned(), required.into());
    }
    root.insert("additionalProperties".to_owned(), false.into());
    let definitions = generator.take_definitions(true);
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), definitions.into());
    }
    let mut root = Value::Object(root);
    without_leading_zeros(&mut root);
    root
}

/// Tightens the key patterns of maps with integer keys: the deserializer rejects leading zeros such
/// as `"007"`. The schema cannot express the range of such keys.
fn without_leading_zeros(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_leading_zeros),
        Value::Object(fields) => {
            if let Some(Value::Object(patterns)) = fields.get_mut("patternProperties") {
                for (loose, strict) in
                    [(r"^\d+$", "^(0|[1-9][0-9]*)$"), (r"^-?\d+$", "^(0|-?[1-9][0-9]*)$")]
                {
                    if let Some(values) = patterns.remove(loose) {
                        patterns.insert(strict.to_owned(), values);
                    }
                }
            }
            fields.values_mut().for_each(without_leading_zeros);
        }
        _ => {}
    }
}
