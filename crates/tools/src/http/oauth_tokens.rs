//! Parses OAuth 2.0 token responses (RFC 6749) for logins to MCP servers and for tools that are
//! described as data. Sends nothing.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

/// Media type of requests to a token endpoint.
pub const FORM: &str = "application/x-www-form-urlencoded";
/// Maximum size of a token in bytes.
const LONGEST_TOKEN: usize = 16 << 10;

/// The tokens of a response. The type has no `Debug` implementation, so that they are not printed.
#[allow(missing_debug_implementations, reason = "it holds tokens")]
pub struct Tokens {
    /// The access token.
    pub access_token: String,
    /// The refresh token.
    pub refresh_token: Option<String>,
    /// Lifetime of the access token.
    pub lasts: Option<Duration>,
}

/// The JSON of a token response.
#[derive(Deserialize)]
#[allow(missing_debug_implementations, reason = "it holds tokens")]
pub struct TokenAnswer {
    access_token: String,
    token_type: String,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

impl TokenAnswer {
    /// Checks and returns the tokens.
    ///
    /// # Errors
    /// The reason why the tokens cannot be used. It contains no token.
    pub fn tokens(self) -> Result<Tokens, &'static str> {
        if !self.token_type.eq_ignore_ascii_case("bearer") {
            return Err("they are not bearer tokens");
        }
        let is_token = |token: &str| {
            !token.is_empty()
                && token.len() <= LONGEST_TOKEN
                && token.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !is_token(&self.access_token) || !self.refresh_token.as_deref().is_none_or(is_token) {
            return Err("a token is empty, too long or not of the letters of tokens");
        }
        // Ignore an unreadable lifetime: an error would lose tokens that the server does not issue
        // again.
        let lasts = match self.expires_in {
            Some(Value::Number(seconds)) => seconds.as_f64(),
            Some(Value::String(seconds)) => seconds.parse().ok(),
            _ => None,
        };
        let lasts = lasts.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Tokens { access_token: self.access_token, refresh_token: self.refresh_token, lasts })
    }
}

/// Returns the value of the `authorization` header for a client with a secret.
pub fn basic(client: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(client), encoded(secret))))
}

/// Encodes fields as a URL-encoded form.
pub fn form(fields: &[(&str, &str)]) -> String {
    let Ok(mut url) = Url::parse("form:") else { return String::new() };
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// Encodes a value for a form.
fn encoded(value: &str) -> String {
    form(&[("", value)]).trim_start_matches('=').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{encoded, form};

    #[test]
    fn values_are_encoded_as_in_a_form() {
        assert_eq!(form(&[("a", "b c&d"), ("é", "=")]), "a=b+c%26d&%C3%A9=%3D");
        assert_eq!(encoded("a:b=c"), "a%3Ab%3Dc");
        assert_eq!(encoded("=="), "%3D%3D");
    }
}
