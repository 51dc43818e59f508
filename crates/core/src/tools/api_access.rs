//! `ApiAccess`: what tools that are described as data may reach, and with which keys. `api_exchange.rs` makes the calls.

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
use super::http_exchange::without_key;
use super::http_target::{Targets, may_have_key};
use super::oauth_access::{KeptTokens, OAuthClient};
use super::oauth_tokens::basic;
use crate::model::{EnvSecrets, Secret, SecretProvider};
use crate::tool::ToolError;

const DEFAULT_MAX_BYTES: usize = 1 << 20;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_RETRIES: u32 = 2;

/// What tools that are described as data may reach: which addresses, with which keys, in which limits. It is the host's and no
/// part of a description, so a description that somebody else wrote reaches no more than this.
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
    pub(super) targets: Targets,
    given: BTreeMap<String, Secret>,
    secrets: Arc<dyn SecretProvider>,
    /// Access tokens that were got with these keys.
    pub(super) tokens: Arc<KeptTokens>,
    pub(super) max_bytes: usize,
    pub(super) timeout: Duration,
    pub(super) max_retries: u32,
}

impl Default for ApiAccess {
    fn default() -> Self {
        Self::new()
    }
}

impl ApiAccess {
    /// Addresses of the public internet, keys from the environment.
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

    /// The hosts that are called: names such as `api.example.org`, `*.example.org` for all below one, and addresses; with a port,
    /// as in `api.example.org:8443`, that port alone. Default: any. The guard counts for them, too. The key of a tool whose
    /// address the program did not write goes to the default port of the scheme, unless the host is named with another one.
    /// A tool is not built with any other text, such as an address.
    #[must_use]
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.targets.name_hosts(hosts);
        self
    }

    /// Which addresses are connected to. Default: those of the public internet.
    #[must_use]
    pub fn guard(mut self, guard: AddressGuard) -> Self {
        self.targets.guard = guard;
        self
    }

    /// Checks the address at which a client asks for tokens, and that it is given one.
    pub(super) fn check_client(&self, auth: Option<&ApiAuth>, is_read: bool, problems: &mut Vec<String>) {
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

    /// Checks the address of a description that names a key and was not written by the program. Such a description may choose
    /// the key or the address, and not both.
    ///
    /// # Errors
    /// When no hosts are named, or none of them with the port of the address.
    pub(super) fn check_keys(&self, url: &Url) -> Result<(), String> {
        let Some(hosts) = &self.targets.hosts else {
            return Err("`auth`: it names a key; say with `ApiAccess::hosts` which hosts keys may go to".to_owned());
        };
        if hosts.iter().any(|named| may_have_key(url, named)) {
            return Ok(());
        }
        let place =
            format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
        Err(format!("`auth`: no key is sent to `{place}`; name the host with its port in `ApiAccess::hosts`"))
    }

    /// Finds the addresses of hosts in place of the operating system. What it gives is held against the guard.
    #[must_use]
    pub fn resolver<F, Fut>(mut self, resolve: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        self.targets.resolver = Some(Arc::new(move |host| Box::pin(resolve(host))));
        self
    }

    /// The authorities that certificates of a host come from, as PEM text, in place of those that the platform trusts.
    ///
    /// # Errors
    /// When the text has no certificate or one that cannot be read.
    pub fn root_certificate(mut self, host: impl Into<String>, pem: impl AsRef<[u8]>) -> io::Result<Self> {
        self.targets.trust(host.into(), pem.as_ref())?;
        Ok(self)
    }

    /// A key by the name that descriptions have of it, in place of the environment variable of that name.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>, key: Secret) -> Self {
        self.given.insert(name.into(), key);
        self.tokens = Arc::default();
        self
    }

    /// Where keys come from that are not [given](Self::secret). Default: environment variables.
    #[must_use]
    pub fn secrets(mut self, secrets: Arc<dyn SecretProvider>) -> Self {
        self.secrets = secrets;
        self.tokens = Arc::default();
        self
    }

    /// The most bytes of all answers to one call, pages together; default 1 MiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How long a call may take with all its pages and retries; default 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How often a request is retried that failed in a way that may pass; default 2. One that changes something and is not
    /// idempotent is retried only where the server cannot have done it: when no connection was made, and after the status 429.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// The key of a name.
    pub(super) async fn key(&self, name: &str) -> Result<Secret, ToolError> {
        let found = match self.given.get(name) {
            Some(key) => Some(key.clone()),
            None => self.secrets.secret(name).await,
        };
        // Whoever wrote the key itself where its name belongs does not read it here.
        let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let shown = if is_name { format!("`{name}`") } else { "that `auth` names".to_owned() };
        found.ok_or_else(|| {
            ToolError::new(format!("there is no key {shown}; do without this tool"))
                .remedy("set the environment variable of the key, or give it by `ApiAccess::secret`")
        })
    }

    /// What shows a service who calls.
    pub(super) async fn keys(&self, auth: Option<&ApiAuth>) -> Result<Keys, ToolError> {
        let Some(auth) = auth else { return Ok(Keys::default()) };
        let key = match OAuthClient::from_auth(auth) {
            Some(client) => self.access_token(&client).await?,
            None => self.key(auth.secret()).await?,
        };
        let header = |name: &str, value: &str| secret_header(name, value).map(Some).map_err(ToolError::new);
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
            // As it stands in an address, which a server may send back.
            let mut encoded = Url::parse("http://h/").map_err(|error| ToolError::new(error.to_string()))?;
            encoded.query_pairs_mut().append_pair(name, key.expose());
            let encoded = encoded.query().and_then(|query| query.split_once('='));
            hidden.extend(encoded.map(|(_, key)| key.to_owned()));
        }
        Ok(Keys { header, query, hidden })
    }
}

/// What shows a service who calls, for one call.
#[derive(Default)]
pub(super) struct Keys {
    header: Option<(HeaderName, HeaderValue)>,
    query: Option<(String, Secret)>,
    /// The forms in which the key may come back.
    hidden: Vec<String>,
}

impl Keys {
    /// Returns the credentials of a client for its authorization server.
    pub(super) fn of_client(id: &str, secret: &str) -> Result<Self, ToolError> {
        let pair = basic(id, secret);
        let header = secret_header("authorization", &pair).map_err(ToolError::new)?;
        Ok(Self { header: Some(header), query: None, hidden: vec![secret.to_owned(), pair] })
    }

    /// Returns true if this is one of the keys.
    pub(super) fn has(&self, key: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == key)
    }

    /// Counts a text as secret as well.
    pub(super) fn hide(&mut self, text: &str) {
        self.hidden.push(text.to_owned());
    }

    /// Whether a request with them must not be read on its way.
    pub(super) fn are_secret(&self) -> bool {
        !self.hidden.is_empty()
    }

    pub(super) fn add(&self, url: &mut Url, headers: &mut HeaderMap) {
        if let Some((name, value)) = &self.header {
            headers.insert(name.clone(), value.clone());
        }
        if let Some((name, key)) = &self.query {
            // An address of the server's may have it already.
            let others: Vec<(String, String)> =
                url.query_pairs().filter(|(of, _)| of != name).map(|(of, value)| (of.into(), value.into())).collect();
            url.query_pairs_mut().clear().extend_pairs(others).append_pair(name, key.expose());
        }
    }

    /// A text without the key.
    pub(super) fn masked(&self, text: &str) -> String {
        self.hidden.iter().fold(text.to_owned(), |text, key| without_key(&text, key))
    }

    pub(super) fn without_key(&self, error: &ToolError) -> ToolError {
        error.with_texts(|text| self.masked(text))
    }
}

/// Shows no key.
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
