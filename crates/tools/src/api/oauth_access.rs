//! OAuth 2.0 access tokens for tools that are described as data. A token is requested on first use,
//! cached until it expires or is rejected, and then renewed. `oauth_tokens.rs` parses token
//! responses.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::api_access::{ApiAccess, Keys};
use super::api_description::ApiAuth;
use super::api_exchange::ApiRequest;
use crate::http::http_target::host_of;
use crate::http::oauth_tokens::{FORM, TokenAnswer, Tokens, form};
use agentflow_core::message::ToolStatus;
use agentflow_core::model::Secret;
use agentflow_core::tool::ToolError;

/// Maximum size of a token response in bytes.
const MOST_BYTES: usize = 256 << 10;
/// Time before its expiry at which a token is renewed, unless a tenth of its lifetime is shorter.
const MARGIN: Duration = Duration::from_secs(30);

/// An OAuth client, as named in a description.
#[derive(Clone, Copy)]
pub(crate) struct OAuthClient<'d> {
    pub(crate) token_url: &'d str,
    pub(crate) id: &'d str,
    /// Name of the client's secret.
    pub(crate) secret: &'d str,
    pub(crate) scopes: &'d [String],
    /// Name of the client's refresh token.
    pub(crate) refresh_token: Option<&'d str>,
}

impl<'d> OAuthClient<'d> {
    /// Returns the client of an OAuth 2.0 `auth`.
    pub(crate) fn from_auth(auth: &'d ApiAuth) -> Option<Self> {
        let ApiAuth::Oauth2 { token_url, client_id, secret, scopes, refresh_token } = auth else {
            return None;
        };
        Some(Self {
            token_url,
            id: client_id,
            secret,
            scopes,
            refresh_token: refresh_token.as_deref(),
        })
    }

    fn place(&self) -> [String; 4] {
        let refresh = self.refresh_token.unwrap_or_default();
        [self.token_url.to_owned(), self.id.to_owned(), self.scopes.join(" "), refresh.to_owned()]
    }
}

/// The cached tokens of all clients of an [`ApiAccess`]. The lock is held during a token request,
/// so concurrent calls wait for it instead of sending their own.
#[derive(Default)]
pub(crate) struct TokenCache(Mutex<BTreeMap<[String; 4], CachedToken>>);

#[derive(Default)]
struct CachedToken {
    access: Option<Secret>,
    ends: Option<Instant>,
    /// The newest refresh token.
    refresh: Option<Secret>,
}

impl CachedToken {
    fn usable(&self, now: Instant) -> Option<Secret> {
        self.access.clone().filter(|_| self.ends.is_none_or(|ends| now < ends))
    }
}

impl ApiAccess {
    /// Returns the access token of a client, from the cache or from the token endpoint.
    ///
    /// # Errors
    /// A key is not set, or the token endpoint cannot be reached or rejects the request. Errors
    /// contain no keys.
    pub(crate) async fn access_token(&self, client: &OAuthClient<'_>) -> Result<Secret, ToolError> {
        let mut all = self.tokens.0.lock().await;
        let kept = all.entry(client.place()).or_default();
        if let Some(token) = kept.usable(Instant::now()) {
            return Ok(token);
        }
        // The cached refresh token is used once. If the request fails, the next one uses the
        // program's token, which may have been replaced meanwhile.
        let refresh = kept.refresh.take();
        let tokens = self.asked(client, refresh.as_ref()).await?;
        kept.ends =
            tokens.lasts.map(|lasts| Instant::now() + lasts.saturating_sub(MARGIN.min(lasts / 10)));
        let newest = tokens.refresh_token.map(Secret::new).or(refresh);
        // The client credentials grant needs no refresh token.
        kept.refresh = newest.filter(|_| client.refresh_token.is_some());
        let token = Secret::new(tokens.access_token);
        kept.access = Some(token.clone());
        Ok(token)
    }

    /// Removes a token that a service has rejected from the cache. Returns `false` for other kinds
    /// of keys.
    pub(crate) async fn forget_token(&self, auth: Option<&ApiAuth>, keys: &Keys) -> bool {
        let Some(client) = auth.and_then(OAuthClient::from_auth) else { return false };
        let mut all = self.tokens.0.lock().await;
        if let Some(kept) = all.get_mut(&client.place())
            && kept.access.as_ref().is_some_and(|token| keys.has(token.expose()))
        {
            kept.access = None;
        }
        true
    }

    async fn asked(
        &self,
        client: &OAuthClient<'_>,
        refresh: Option<&Secret>,
    ) -> Result<Tokens, ToolError> {
        let secret = self.key(client.secret).await?;
        let refresh = match (refresh, client.refresh_token) {
            (Some(refresh), _) => Some(refresh.clone()),
            (None, Some(name)) => Some(self.key(name).await?),
            (None, None) => None,
        };
        let scopes = client.scopes.join(" ");
        let mut fields = match &refresh {
            Some(refresh) => {
                vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose())]
            }
            None => vec![("grant_type", "client_credentials")],
        };
        if !scopes.is_empty() {
            fields.push(("scope", &scopes));
        }
        let url = self.targets.url(client.token_url, None)?;
        let host = host_of(&url);
        let keys = Keys::of_client(client.id, secret.expose())?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(FORM));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let request = ApiRequest {
            method: Method::POST,
            url,
            headers,
            body: Some(form(&fields)),
            // A refresh token may be valid for one use only.
            repeatable: refresh.is_none(),
            ignores_body: false,
        };
        let answered =
            self.exchange(&request, &keys, MOST_BYTES, Instant::now() + self.timeout).await;
        let answer = answered.map_err(|error| {
            let status = match error.status() {
                // A token endpoint answers most errors with 400 (RFC 6749, section 5.2). These are
                // not mistakes in the tool's arguments.
                ToolStatus::InvalidArguments => ToolStatus::Unauthorized,
                status => status,
            };
            let mut hidden = Keys::default();
            refresh.iter().for_each(|refresh| hidden.hide(refresh.expose()));
            let said = hidden.masked(error.message());
            ToolError::with_status(
                status,
                format!("no access token of `{host}` for `{}`: {said}", client.id),
            )
        })?;
        let unusable =
            |why: &str| ToolError::new(format!("the tokens of `{host}` cannot be used: {why}"));
        let value = match answer.value {
            Value::String(text) => {
                serde_json::from_str(&text).map_err(|_| unusable("they are not JSON"))?
            }
            value => value,
        };
        let answer: TokenAnswer = serde_json::from_value(value)
            .map_err(|_| unusable("they are not of the form that the standard says"))?;
        answer.tokens().map_err(unusable)
    }
}
