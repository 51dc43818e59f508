//! Extracts the values that a node saves to the state from its output, if the node is data. The
//! caller saves them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::state_reads::problem_of_key;
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
) -> Result<Vec<(String, Encoded)>, String> {
    // Whole outputs are copied without parsing them.
    if saves.iter().all(|(key, at)| at.is_empty() && key != FIELDS) {
        return Ok(saves.keys().map(|key| (key.clone(), output.clone())).collect());
    }
    let whole: Value =
        output.decode().map_err(|error| format!("the output is not JSON: {error}"))?;
    let mut values: BTreeMap<&str, &Value> = BTreeMap::new();
    // `*` comes first in the order of the map, so keys that are named overwrite the fields.
    for (key, at) in saves {
        match (whole.pointer(at), key.as_str()) {
            (None, _) => {}
            (Some(Value::Object(fields)), FIELDS) => {
                for (name, value) in fields {
                    if let Some(problem) = problem_of_key(name) {
                        return Err(format!("its output is saved field by field, and {problem}"));
                    }
                    values.insert(name, value);
                }
            }
            (Some(other), FIELDS) => {
                return Err(format!(
                    "its output is saved field by field, and `{at}` of it is not an object: {other}"
                ));
            }
            (Some(value), key) => drop(values.insert(key, value)),
        }
    }
    let encoded = values.into_iter().map(|(key, value)| Ok((key.to_owned(), Encoded::new(value)?)));
    encoded.collect::<Result<_, serde_json::Error>>().map_err(|error| error.to_string())
}
