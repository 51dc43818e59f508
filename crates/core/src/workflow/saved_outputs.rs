//! Extracts the values that a node saves to the state from its output, if the node is data. The
//! caller saves them.

use std::collections::BTreeMap;

use agentflow_schema::diagnostic::Diagnostic;
use serde_json::Value;

use super::mapping::decoded;
use super::state_reads::problem_of_key;
use super::value_codes;
use crate::value::Encoded;

/// Key that saves each field of an object under its own name.
pub(super) const FIELDS: &str = "*";

/// Returns the values to save, with their keys. A part that does not exist is left out.
///
/// # Errors
/// A message, if the part that `*` saves is not an object, or if a field has a name that is not a
/// valid key.
pub(super) fn saved_of(
    saves: &BTreeMap<String, String>,
    output: &Encoded,
) -> Result<Vec<(String, Encoded)>, Diagnostic> {
    // Whole outputs are copied without parsing them.
    if saves.iter().all(|(key, at)| at.is_empty() && key != FIELDS) {
        return Ok(saves.keys().map(|key| (key.clone(), output.clone())).collect());
    }
    let whole = decoded(output)?;
    let mut values: BTreeMap<&str, &Value> = BTreeMap::new();
    // `*` comes first in the order of the map, so keys that are named overwrite the fields.
    for (key, at) in saves {
        match (whole.pointer(at), key.as_str()) {
            (None, _) => {}
            (Some(Value::Object(fields)), FIELDS) => {
                for (name, value) in fields {
                    if let Some(problem) = problem_of_key(name) {
                        let found = Diagnostic::new(value_codes::INVALID_SAVED_FIELD);
                        return Err(found.nested("problem", &problem));
                    }
                    values.insert(name, value);
                }
            }
            (Some(other), FIELDS) => {
                let found = Diagnostic::new(value_codes::SAVED_PART_NOT_AN_OBJECT);
                return Err(found.source("pointer", at).text("found", other));
            }
            (Some(value), key) => drop(values.insert(key, value)),
        }
    }
    let encoded = values.into_iter().map(|(key, value)| Ok((key.to_owned(), Encoded::new(value)?)));
    encoded.collect::<Result<_, serde_json::Error>>().map_err(|error| {
        let found = Diagnostic::new(value_codes::NOT_JSON).name("found", output);
        found.text("problem", error)
    })
}
