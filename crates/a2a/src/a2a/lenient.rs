//! Deserializers that accept `null` or an empty string for a missing field, as some servers send
//! it.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads `null` as the default value.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

/// Distinguishes a field with the value `null` from a missing field.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// Reads a string that must not be empty.
pub(super) fn named<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    match text.is_empty() {
        true => Err(serde::de::Error::custom("a required text is empty")),
        false => Ok(text),
    }
}

/// Reads `null` and an empty string as `None`.
pub(super) fn filled<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}

pub(super) fn is_false(value: &bool) -> bool {
    !value
}
