//! Requests to a token endpoint (RFC 6749) and their responses. Errors never contain tokens, codes
//! or secrets.

use reqwest::Url;
use serde::Deserialize;

use super::auth_requests::{AuthRequests, Reply};
use super::client_identity::{ClientAuth, ClientIdentity};
use agentflow_core::model::Secret;
use agentflow_tools::__private::oauth_tokens::{FORM, TokenAnswer, Tokens, basic, form};

/// Failure of a token request.
pub(super) struct TokenFailure {
    pub(super) problem: String,
    /// The OAuth error code, if the authorization server has sent one.
    pub(super) error: Option<String>,
}

impl TokenFailure {
    /// Returns `true` if the authorization server has refused the request for good, so that a
    /// repetition would fail, too.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self.error.as_deref(),
            Some("invalid_grant" | "invalid_client" | "unauthorized_client")
        )
    }
}

#[derive(Deserialize)]
struct ErrorResponse {
    error: String,
}

/// Requests tokens. `secret` is the secret of the client, if it has one.
pub(super) async fn tokens(
    requests: &AuthRequests,
    url: &Url,
    client: &ClientIdentity,
    secret: Option<&str>,
    fields: &[(&str, &str)],
) -> Result<Tokens, TokenFailure> {
    let failed = |problem: String| TokenFailure { problem, error: None };
    let reply = sent(requests, url, client, secret, fields).await.map_err(failed)?;
    let host = url.host_str().unwrap_or_default();
    let error = reply.json::<ErrorResponse>().map(|refused| refused.error).ok();
    // Some servers report errors with a success status.
    if !reply.is_success() || error.is_some() {
        // An error of a different form is not shown, because it could repeat values of the request.
        let error = error.filter(|error| {
            error.len() <= 64 && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        });
        let says = error
            .as_ref()
            .map_or_else(|| reply.status.to_string(), |of| format!("{} `{of}`", reply.status));
        return Err(TokenFailure {
            problem: format!("the token endpoint of `{host}` answered {says}"),
            error,
        });
    }
    let unusable = |why: &str| failed(format!("the tokens of `{host}` cannot be used: {why}"));
    let answer: TokenAnswer = reply.json().map_err(|why| unusable(&why))?;
    answer.tokens().map_err(unusable)
}

/// Revokes a token (RFC 7009). Failures are ignored.
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
            key = Some(Secret::new(basic(&client.id, secret)));
        }
        (ClientAuth::ClientSecretPost, Some(secret)) => {
            all.extend([("client_id", client.id.as_str()), ("client_secret", secret)]);
        }
        (_, None) => {
            let problem =
                "the login is of a client whose secret this program no longer has; log in again";
            return Err(problem.to_owned());
        }
    }
    requests.post(url, FORM, key, form(&all)).await
}
