//! A header that a program gives, such as a key: its name and value are checked, and the value is shown in no log. It sends
//! nothing.

use reqwest::header::{HeaderName, HeaderValue};

/// Returns a header whose value is not shown by logs.
///
/// # Errors
/// A sentence that names what cannot be sent; it does not have the value.
pub fn secret_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let name: HeaderName = name.parse().map_err(|_| format!("`{name}` is not the name of a header"))?;
    let mut value =
        HeaderValue::from_str(value).map_err(|_| format!("the value of the header `{name}` cannot be sent"))?;
    value.set_sensitive(true);
    Ok((name, value))
}
