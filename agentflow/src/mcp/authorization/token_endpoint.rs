//! Requests to a token endpoint (RFC 6749), and its answers. No token, code or secret gets into an error.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::auth_requests::{AuthRequests, Reply};
use super::client_identity::{ClientAuth, ClientIdentity};
use crate::model::Secret;

const FORM: &str = "application/x-www-form-urlencoded";
/// The most bytes of a token.
const LONGEST_TOKEN: usize = 16 << 10;

/// Tokens as they were given. It has no `Debug`.
pub(super) struct Tokens {
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    pub(super) lasts: Option<Duration>,
}

/// Why there are no tokens.
pub(super) struct NoTokens {
    pub(super) problem: String,
    /// What the authorization server calls it, where it has answered.
    pub(super) error: Option<String>,
}

impl NoTokens {
    /// Whether what was sent is refused for good.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.error.as_deref(), Some("invalid_grant" | "invalid_client" | "unauthorized_client"))
    }
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
}

/// Asks for tokens. `secret` is that of the client, whoever keeps it.
pub(super) async fn tokens(
    requests: &AuthRequests,
    url: &Url,
    client: &ClientIdentity,
    secret: Option<&str>,
    fields: &[(&str, &str)],
) -> Result<Tokens, NoTokens> {
    let failed = |problem: String| NoTokens { problem, error: None };
    let reply = sent(requests, url, client, secret, fields).await.map_err(failed)?;
    let host = url.host_str().unwrap_or_default();
    let error = reply.json::<Refused>().map(|refused| refused.error).ok();
    // Some say with a good status what is wrong.
    if !reply.is_success() || error.is_some() {
        // Words of its own could hold what was sent.
        let error = error
            .filter(|error| error.len() <= 64 && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        let says = error.as_ref().map_or_else(|| reply.status.to_string(), |of| format!("{} `{of}`", reply.status));
        return Err(NoTokens { problem: format!("the token endpoint of `{host}` answered {says}"), error });
    }
    let unusable = |why: &str| failed(format!("the tokens of `{host}` cannot be used: {why}"));
    let answer: Answer = reply.json().map_err(|why| unusable(&why))?;
    if !answer.token_type.eq_ignore_ascii_case("bearer") {
        return Err(unusable("they are not bearer tokens"));
    }
    let is_token = |token: &str| {
        !token.is_empty() && token.len() <= LONGEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !is_token(&answer.access_token) || !answer.refresh_token.as_deref().is_none_or(is_token) {
        return Err(unusable("a token is empty, too long or not of the letters of tokens"));
    }
    // One that cannot be read is as none: the tokens were given, and are not given again.
    let lasts = match answer.expires_in {
        Some(Value::Number(seconds)) => seconds.as_f64(),
        Some(Value::String(seconds)) => seconds.parse().ok(),
        _ => None,
    };
    let lasts = lasts.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Ok(Tokens { access_token: answer.access_token, refresh_token: answer.refresh_token, lasts })
}

/// Tells an authorization server that a token is no longer used (RFC 7009). What it answers is of no use.
pub(super) async fn revoke(
    requests: &AuthRequests,
    url: &Url,
    client: &ClientIdentity,
    secret: Option<&str>,
    token: &str,
) {
    let _ = sent(requests, url, client, secret, &[("token", token)]).await;
}

async fn sent(
    requests: &AuthRequests,
    url: &Url,
    client: &ClientIdentity,
    secret: Option<&str>,
    fields: &[(&str, &str)],
) -> Result<Reply, String> {
    let mut all = fields.to_vec();
    let mut key = None;
    match (client.auth, secret) {
        (ClientAuth::None, _) => all.push(("client_id", &client.id)),
        (ClientAuth::ClientSecretBasic, Some(secret)) => {
            let pair = format!("{}:{}", encoded(&client.id), encoded(secret));
            key = Some(Secret::new(format!("Basic {}", STANDARD.encode(pair))));
        }
        (ClientAuth::ClientSecretPost, Some(secret)) => {
            all.extend([("client_id", client.id.as_str()), ("client_secret", secret)]);
        }
        (_, None) => {
            let problem = "the login is of a client whose secret this program no longer has; log in again";
            return Err(problem.to_owned());
        }
    }
    requests.post(url, FORM, key, form(&all)).await
}

/// Fields as a form.
fn form(fields: &[(&str, &str)]) -> String {
    let Ok(mut url) = Url::parse("form:") else { return String::new() };
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// A value as it stands in a form.
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
