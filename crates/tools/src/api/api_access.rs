//! `ApiAccess`: the addresses, keys and limits of tools that are described as data.
//! `api_exchange.rs` makes the calls.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use agentflow_http::{AddressGuard, secret_header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::api_description::ApiAuth;
use super::oauth_access::{OAuthClient, TokenCache};
use crate::http::http_exchange::without_key;
use crate::http::http_target::{Targets, may_have_key};
use crate::http::oauth_tokens::basic;
use agentflow_core::model::{EnvSecrets, Secret, SecretProvider};
use agentflow_core::tool::ToolError;

const DEFAULT_MAX_BYTES: usize = 1 << 20;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_RETRIES: u32 = 2;

/// Allowed addresses, keys and limits of tools that are described as data.
///
/// The program sets them, and they are not part of a description. A description from another author
/// can therefore reach nothing outside of them. Defaults: addresses of the public internet, keys
/// from environment variables, 1 MiB, 30 s, 2 retries.
///
/// ```
/// use agentflow::model::Secret;
/// use agentflow::tools::ApiAccess;
///
/// let access = ApiAccess::new().secret("TRACKER_KEY", Secret::new("...")).max_bytes(100_000);
/// # let _ = access;
/// ```
#[derive(Clone)]
pub struct ApiAccess {
    pub(crate) targets: Targets,
    given: BTreeMap<String, Secret>,
    secrets: Arc<dyn SecretProvider>,
    /// Access tokens that were obtained with these keys.
    pub(crate) tokens: Arc<TokenCache>,
    pub(crate) max_bytes: usize,
    pub(crate) timeout: Duration,
    pub(crate) max_retries: u32,
}

impl Default for ApiAccess {
    fn default() -> Self {
        Self::new()
    }
}

impl ApiAccess {
    /// Creates the defaults: addresses of the public internet, keys from environment variables.
    pub fn new() -> Self {
        Self {
            targets: Targets::default(),
            given: BTreeMap::new(),
            secrets: Arc::new(EnvSecrets),
            tokens: Arc::default(),
            max_bytes: DEFAULT_MAX_BYTES,
            timeout: DEFAULT_TIMEOUT,
            max_retries: DEFAULT_RETRIES,
        }
    }

    /// Sets the hosts that may be called. Default: all hosts.
    ///
    /// An entry is a name such as `api.example.org`, a pattern such as `*.example.org` for all
    /// subdomains, or an IP address. With a port, as in `api.example.org:8443`, only that port is
    /// allowed. The address guard applies in addition.
    ///
    /// If the program did not write the address of a tool, the tool's key is sent only to the
    /// default port of the scheme, unless the host is listed with another port. A tool cannot be
    /// built if an entry has a different form, such as a URL.
    #[must_use]
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.targets.name_hosts(hosts);
        self
    }

    /// Sets the guard for the addresses of connections. Default: addresses of the public internet.
    #[must_use]
    pub fn guard(mut self, guard: AddressGuard) -> Self {
        self.targets.guard = guard;
        self
    }

    /// Checks the OAuth client of a description: its id, and the address from which it requests
    /// tokens.
    pub(crate) fn check_client(
        &self,
        auth: Option<&ApiAuth>,
        is_read: bool,
        problems: &mut Vec<String>,
    ) {
        let Some(client) = auth.and_then(OAuthClient::from_auth) else { return };
        if client.id.is_empty() {
            problems.push("`client_id` of `auth` is empty; give the id of the client".to_owned());
        }
        match self.targets.url(client.token_url, None) {
            Ok(url) if is_read => problems.extend(self.check_keys(&url).err()),
            Ok(_) => {}
            Err(error) => problems.push(format!("`token_url` of `auth`: {}", error.message())),
        }
    }

    /// Checks the address of a description that names a key and was not written by the program.
    /// This description may choose the key or the address, but not both.
    ///
    /// # Errors
    /// No hosts are listed, or no listed host has the port of the address.
    pub(crate) fn check_keys(&self, url: &Url) -> Result<(), String> {
        let Some(hosts) = &self.targets.hosts else {
            return Err(
                "`auth`: it names a key; say with `ApiAccess::hosts` which hosts keys may go to"
                    .to_owned(),
            );
        };
        if hosts.iter().any(|named| may_have_key(url, named)) {
            return Ok(());
        }
        let place = format!(
            "{}:{}",
            url.host_str().unwrap_or_default(),
            url.port_or_known_default().unwrap_or_default()
        );
        Err(format!(
            "`auth`: no key is sent to `{place}`; name the host with its port in `ApiAccess::hosts`"
        ))
    }

    /// Sets the function that resolves host names, instead of the operating system. The guard
    /// checks its results.
    #[must_use]
    pub fn resolver<F, Fut>(mut self, resolve: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        self.targets.resolver = Some(Arc::new(move |host| Box::pin(resolve(host))));
        self
    }

    /// Sets the certificate authorities of a host as PEM text, instead of those that the platform
    /// trusts.
    ///
    /// # Errors
    /// The text contains no certificate, or a certificate that cannot be parsed.
    pub fn root_certificate(
        mut self,
        host: impl Into<String>,
        pem: impl AsRef<[u8]>,
    ) -> io::Result<Self> {
        self.targets.trust(host.into(), pem.as_ref())?;
        Ok(self)
    }

    /// Sets a key by the name that descriptions use, instead of the environment variable of that
    /// name.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>, key: Secret) -> Self {
        // Tokens obtained with the previous keys must not be used any more.
        self.given.insert(name.into(), key);
        self.tokens = Arc::default();
        self
    }

    /// Sets the source of keys that are not set by [`secret`](Self::secret). Default: environment
    /// variables.
    #[must_use]
    pub fn secrets(mut self, secrets: Arc<dyn SecretProvider>) -> Self {
        self.secrets = secrets;
        self.tokens = Arc::default();
        self
    }

    /// Sets the maximum size in bytes of all answers to one call, including all pages. Default: 1
    /// MiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the time limit of a call, including all pages and retries. Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often a request is retried after a transient failure. Default: 2.
    ///
    /// A request that changes data and is not idempotent is retried only if the server cannot have
    /// executed it: if no connection was made, or after status 429.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Returns the key with this name.
    pub(crate) async fn key(&self, name: &str) -> Result<Secret, ToolError> {
        let found = match self.given.get(name) {
            Some(key) => Some(key.clone()),
            None => self.secrets.secret(name).await,
        };
        // If a user wrote the key itself instead of its name, do not show it.
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let shown = if is_name { format!("`{name}`") } else { "that `auth` names".to_owned() };
        found.ok_or_else(|| {
            ToolError::new(format!("there is no key {shown}; do without this tool")).remedy(
                "set the environment variable of the key, or give it by `ApiAccess::secret`",
            )
        })
    }

    /// Returns the credentials for a service.
    pub(crate) async fn keys(&self, auth: Option<&ApiAuth>) -> Result<Keys, ToolError> {
        let Some(auth) = auth else { return Ok(Keys::default()) };
        let key = match OAuthClient::from_auth(auth) {
            Some(client) => self.access_token(&client).await?,
            None => self.key(auth.secret()).await?,
        };
        let header =
            |name: &str, value: &str| secret_header(name, value).map(Some).map_err(ToolError::new);
        let mut hidden = vec![key.expose().to_owned()];
        let (header, query) = match auth {
            ApiAuth::Bearer { .. } | ApiAuth::Oauth2 { .. } => {
                (header("authorization", &format!("Bearer {}", key.expose()))?, None)
            }
            ApiAuth::Header { name, .. } => (header(name, key.expose())?, None),
            ApiAuth::Basic { user, .. } => {
                let pair = STANDARD.encode(format!("{user}:{}", key.expose()));
                hidden.push(pair.clone());
                (header("authorization", &format!("Basic {pair}"))?, None)
            }
            ApiAuth::Query { name, .. } => (None, Some((name.clone(), key.clone()))),
        };
        if let Some((name, key)) = &query {
            // The URL-encoded form, which a server may repeat in its answer.
            let mut encoded =
                Url::parse("http://h/").map_err(|error| ToolError::new(error.to_string()))?;
            encoded.query_pairs_mut().append_pair(name, key.expose());
            let encoded = encoded.query().and_then(|query| query.split_once('='));
            hidden.extend(encoded.map(|(_, key)| key.to_owned()));
        }
        Ok(Keys { header, query, hidden })
    }
}

/// The credentials for one call.
#[derive(Default)]
pub(crate) struct Keys {
    header: Option<(HeaderName, HeaderValue)>,
    query: Option<(String, Secret)>,
    /// All forms in which the key may appear in an answer. They are masked.
    hidden: Vec<String>,
}

impl Keys {
    /// Returns the credentials of a client for its authorization server.
    pub(crate) fn of_client(id: &str, secret: &str) -> Result<Self, ToolError> {
        let pair = basic(id, secret);
        let header = secret_header("authorization", &pair).map_err(ToolError::new)?;
        Ok(Self { header: Some(header), query: None, hidden: vec![secret.to_owned(), pair] })
    }

    /// Returns `true` if this is one of the keys.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == key)
    }

    /// Masks another text like a key.
    pub(crate) fn hide(&mut self, text: &str) {
        self.hidden.push(text.to_owned());
    }

    /// Returns `true` if a request with these credentials must be encrypted.
    pub(crate) fn are_secret(&self) -> bool {
        !self.hidden.is_empty()
    }

    pub(crate) fn add(&self, url: &mut Url, headers: &mut HeaderMap) {
        if let Some((name, value)) = &self.header {
            headers.insert(name.clone(), value.clone());
        }
        if let Some((name, key)) = &self.query {
            // The address of a next page may contain the key already, so the parameter is replaced.
            let others: Vec<(String, String)> = url
                .query_pairs()
                .filter(|(of, _)| of != name)
                .map(|(of, value)| (of.into(), value.into()))
                .collect();
            url.query_pairs_mut().clear().extend_pairs(others).append_pair(name, key.expose());
        }
    }

    /// Returns a string with the keys masked.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.hidden.iter().fold(text.to_owned(), |text, key| without_key(&text, key))
    }

    pub(crate) fn without_key(&self, error: &ToolError) -> ToolError {
        error.with_texts(|text| self.masked(text))
    }
}

/// Does not print keys.
impl fmt::Debug for ApiAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiAccess")
            .field("hosts", &self.targets.hosts)
            .field("guard", &self.targets.guard)
            .field("secrets", &self.given.keys().collect::<Vec<_>>())
            .field("max_bytes", &self.max_bytes)
            .field("timeout", &self.timeout)
            .field("max_retries", &self.max_retries)
            .finish_non_exhaustive()
    }
}
