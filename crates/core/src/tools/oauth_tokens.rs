//! Tokens of OAuth 2.0 as token endpoints give them (RFC 6749), for logins of MCP servers and for tools described as data. It
//! sends nothing.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

/// The media type of requests to a token endpoint.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";
/// The most bytes of a token.
const LONGEST_TOKEN: usize = 16 << 10;

/// Tokens as they were given. It has no `Debug`.
pub(crate) struct Tokens {
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    pub(crate) lasts: Option<Duration>,
}

/// The JSON of an answer with tokens.
#[derive(Deserialize)]
pub(crate) struct TokenAnswer {
    access_token: String,
    token_type: String,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

impl TokenAnswer {
    /// Returns the tokens.
    ///
    /// # Errors
    /// The reason why they cannot be used, without any of them.
    pub(crate) fn tokens(self) -> Result<Tokens, &'static str> {
        if !self.token_type.eq_ignore_ascii_case("bearer") {
            return Err("they are not bearer tokens");
        }
        let is_token = |token: &str| {
            !token.is_empty() && token.len() <= LONGEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !is_token(&self.access_token) || !self.refresh_token.as_deref().is_none_or(is_token) {
            return Err("a token is empty, too long or not of the letters of tokens");
        }
        // An unreadable time counts as none: the tokens were given, and are not given again.
        let lasts = match self.expires_in {
            Some(Value::Number(seconds)) => seconds.as_f64(),
            Some(Value::String(seconds)) => seconds.parse().ok(),
            _ => None,
        };
        let lasts = lasts.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Tokens { access_token: self.access_token, refresh_token: self.refresh_token, lasts })
    }
}

/// Returns the value of the header `authorization` of a client with a secret.
pub(crate) fn basic(client: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(client), encoded(secret))))
}

/// Returns fields as a form.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let Ok(mut url) = Url::parse("form:") else { return String::new() };
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// Returns a value encoded for a form.
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
