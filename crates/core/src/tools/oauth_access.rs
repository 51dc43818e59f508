//! Access tokens of OAuth 2.0 for tools described as data: asked for when they are first needed, kept until they end or are
//! refused, and renewed. `oauth_tokens.rs` reads them.

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
use super::http_target::host_of;
use super::oauth_tokens::{FORM, TokenAnswer, Tokens, form};
use crate::message::ToolStatus;
use crate::model::Secret;
use crate::tool::ToolError;

/// The most bytes of an answer with tokens.
const MOST_BYTES: usize = 256 << 10;
/// A token is renewed so long before it ends, or in the last tenth of its time.
const MARGIN: Duration = Duration::from_secs(30);

/// A client at an authorization server, as a description names it.
#[derive(Clone, Copy)]
pub(super) struct OAuthClient<'d> {
    pub(super) token_url: &'d str,
    pub(super) id: &'d str,
    /// The name of its secret.
    pub(super) secret: &'d str,
    pub(super) scopes: &'d [String],
    /// The name of the refresh token that it was given.
    pub(super) refresh_token: Option<&'d str>,
}

impl<'d> OAuthClient<'d> {
    /// Returns the client of an `auth` of OAuth 2.0.
    pub(super) fn from_auth(auth: &'d ApiAuth) -> Option<Self> {
        let ApiAuth::Oauth2 { token_url, client_id, secret, scopes, refresh_token } = auth else { return None };
        Some(Self { token_url, id: client_id, secret, scopes, refresh_token: refresh_token.as_deref() })
    }

    fn place(&self) -> [String; 4] {
        let refresh = self.refresh_token.unwrap_or_default();
        [self.token_url.to_owned(), self.id.to_owned(), self.scopes.join(" "), refresh.to_owned()]
    }
}

/// The tokens of all clients of an [`ApiAccess`]. A call waits for a request that is under way.
#[derive(Default)]
pub(super) struct KeptTokens(Mutex<BTreeMap<[String; 4], Kept>>);

#[derive(Default)]
struct Kept {
    access: Option<Secret>,
    ends: Option<Instant>,
    /// The newest refresh token.
    refresh: Option<Secret>,
}

impl Kept {
    fn usable(&self, now: Instant) -> Option<Secret> {
        self.access.clone().filter(|_| self.ends.is_none_or(|ends| now < ends))
    }
}

impl ApiAccess {
    /// Returns the access token of a client.
    ///
    /// # Errors
    /// If a key is not set, or the token endpoint cannot be reached or refuses; without any key.
    pub(super) async fn access_token(&self, client: &OAuthClient<'_>) -> Result<Secret, ToolError> {
        let mut all = self.tokens.0.lock().await;
        let kept = all.entry(client.place()).or_default();
        if let Some(token) = kept.usable(Instant::now()) {
            return Ok(token);
        }
        // After a refusal the token that the program has counts, which may be a new one by then.
        let refresh = kept.refresh.take();
        let tokens = self.asked(client, refresh.as_ref()).await?;
        kept.ends = tokens.lasts.map(|lasts| Instant::now() + lasts.saturating_sub(MARGIN.min(lasts / 10)));
        let newest = tokens.refresh_token.map(Secret::new).or(refresh);
        // The client itself needs none: it is given access by its secret.
        kept.refresh = newest.filter(|_| client.refresh_token.is_some());
        let token = Secret::new(tokens.access_token);
        kept.access = Some(token.clone());
        Ok(token)
    }

    /// Forgets a token that a service has refused. Returns false for another kind of key.
    pub(super) async fn forget_token(&self, auth: Option<&ApiAuth>, keys: &Keys) -> bool {
        let Some(client) = auth.and_then(OAuthClient::from_auth) else { return false };
        let mut all = self.tokens.0.lock().await;
        if let Some(kept) = all.get_mut(&client.place())
            && kept.access.as_ref().is_some_and(|token| keys.has(token.expose()))
        {
            kept.access = None;
        }
        true
    }

    async fn asked(&self, client: &OAuthClient<'_>, refresh: Option<&Secret>) -> Result<Tokens, ToolError> {
        let secret = self.key(client.secret).await?;
        let refresh = match (refresh, client.refresh_token) {
            (Some(refresh), _) => Some(refresh.clone()),
            (None, Some(name)) => Some(self.key(name).await?),
            (None, None) => None,
        };
        let scopes = client.scopes.join(" ");
        let mut fields = match &refresh {
            Some(refresh) => vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose())],
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
            // A refresh token may be of one use.
            repeatable: refresh.is_none(),
            ignores_body: false,
        };
        let answered = self.exchange(&request, &keys, MOST_BYTES, Instant::now() + self.timeout).await;
        let answer = answered.map_err(|error| {
            let status = match error.status() {
                ToolStatus::InvalidArguments => ToolStatus::Unauthorized,
                status => status,
            };
            let mut hidden = Keys::default();
            refresh.iter().for_each(|refresh| hidden.hide(refresh.expose()));
            let said = hidden.masked(error.message());
            ToolError::with_status(status, format!("no access token of `{host}` for `{}`: {said}", client.id))
        })?;
        let unusable = |why: &str| ToolError::new(format!("the tokens of `{host}` cannot be used: {why}"));
        let value = match answer.value {
            Value::String(text) => serde_json::from_str(&text).map_err(|_| unusable("they are not JSON"))?,
            value => value,
        };
        let answer: TokenAnswer =
            serde_json::from_value(value).map_err(|_| unusable("they are not of the form that the standard says"))?;
        answer.tokens().map_err(unusable)
    }
}
