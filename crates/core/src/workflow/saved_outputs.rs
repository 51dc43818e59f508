//! What a node that is data saves of its output: the values under their keys. It saves nothing itself.

use std::collections::BTreeMap;

use serde_json::Value;

use super::state_reads::problem_of_key;
use crate::value::Encoded;

/// The key that stands for the fields of an object, each under its own name.
pub(super) const FIELDS: &str = "*";

/// The values that are saved of an output, with their keys; a part that is not there is left out.
///
/// # Errors
/// When what is to be saved field by field is not an object, or a field has a name that is not one of a key.
pub(super) fn saved_of(saves: &BTreeMap<String, String>, output: &Encoded) -> Result<Vec<(String, Encoded)>, String> {
    // A whole output is copied and not read.
    if saves.iter().all(|(key, at)| at.is_empty() && key != FIELDS) {
        return Ok(saves.keys().map(|key| (key.clone(), output.clone())).collect());
    }
    let whole: Value = output.decode().map_err(|error| format!("the output is not JSON: {error}"))?;
    let mut values: BTreeMap<&str, &Value> = BTreeMap::new();
    // The fields come first: a key that is named counts more.
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
                return Err(format!("its output is saved field by field, and `{at}` of it is not an object: {other}"));
            }
            (Some(value), key) => drop(values.insert(key, value)),
        }
    }
    let encoded = values.into_iter().map(|(key, value)| Ok((key.to_owned(), Encoded::new(value)?)));
    encoded.collect::<Result<_, serde_json::Error>>().map_err(|error| error.to_string())
}
