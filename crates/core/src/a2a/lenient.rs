//! What readers of the protocol's JSON share: `null` stands for a field that is left out. It knows no message.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The default for `null`.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

/// A value that may be `null` itself, where its field is there.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A text that is not empty.
pub(super) fn named<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    match text.is_empty() {
        true => Err(serde::de::Error::custom("a required text is empty")),
        false => Ok(text),
    }
}

/// A text that may be empty, as `None`.
pub(super) fn filled<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}

pub(super) fn is_false(value: &bool) -> bool {
    !value
}
