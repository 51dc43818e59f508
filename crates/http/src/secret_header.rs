//! Builds headers with secret values, such as API keys. Names and values are checked, and logs do
//! not show the values.

use reqwest::header::{HeaderName, HeaderValue};

/// Returns a header whose value is marked as sensitive, so that logs do not show it.
///
/// # Errors
/// Returns a message if the name or the value is not valid in a header. The message does not
/// contain the value.
pub fn secret_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let name: HeaderName =
        name.parse().map_err(|_| format!("`{name}` is not the name of a header"))?;
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| format!("the value of the header `{name}` cannot be sent"))?;
    value.set_sensitive(true);
    Ok((name, value))
}
