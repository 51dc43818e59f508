//! A provider's server: the URL, the key and the headers of each call. Shared by the adapters.
//!
//! This module does not send requests, and displays neither keys nor the values of headers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use agentflow_core::__private::adapters::{Provider, ServerSettings};
use agentflow_core::model::{HttpSettings, ModelError, ModelErrorKind, Secret, SecretProvider};
use agentflow_http::{is_this_machine, percent_decoded};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

/// Checks the settings of a server. Returns the URL without the parts that may be keys: user,
/// password and query.
pub(crate) fn check(settings: ServerSettings) -> Result<String, ModelError> {
    let mut url = Server::new(settings)?.url;
    url.set_query(None);
    // These calls cannot fail for an `http` or `https` URL.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    Ok(url.to_string().trim_end_matches('/').to_owned())
}

/// A server that can be called.
pub(crate) struct Server {
    /// The base URL.
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) http: HttpSettings,
    /// `true` for the server of the provider that defines the wire format.
    pub(crate) official: bool,
    /// `true` if the server refuses calls without a key.
    needs_key: bool,
    provider: &'static Provider,
    /// Values of the host's headers, which may be keys.
    hidden: Vec<Secret>,
    key: Key,
}

enum Key {
    Fixed(Secret),
    Named { names: Vec<String>, tokens: &'static [&'static str], secrets: Arc<dyn SecretProvider> },
}

impl Server {
    /// Creates a server from its settings.
    ///
    /// # Errors
    /// Returns an error if the URL or a header is not valid.
    pub(crate) fn new(settings: ServerSettings) -> Result<Self, ModelError> {
        let ServerSettings { provider, base_url, key, key_name, secrets, headers: given, http } =
            settings;
        let base_url = base_url
            .or_else(|| {
                std::env::var(provider.base_url_variable).ok().filter(|url| !url.trim().is_empty())
            })
            .unwrap_or_else(|| provider.base_url.to_owned());
        let url = address(base_url.trim(), provider)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in provider.headers {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        // Errors may echo the URL or headers, so all possible keys in them are hidden.
        let mut hidden = keys_in(&url);
        for (name, value) in given {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| unusable(format!("`{name}` cannot be the name of a header")))?;
            headers.insert(name, secret_value(&value)?);
            hidden.push(Secret::new(value));
        }
        let key = match (key, key_name) {
            (Some(key), _) => Key::Fixed(key),
            (None, Some(name)) => Key::Named { names: vec![name], tokens: &[], secrets },
            (None, None) => {
                let names = provider.key_names.iter().map(ToString::to_string).collect();
                Key::Named { names, tokens: provider.token_names, secrets }
            }
        };
        // Only the host is compared, so another path on the provider's server still counts as its
        // own.
        let own = Url::parse(provider.base_url).is_ok_and(|own| own.host_str() == url.host_str());
        let (official, needs_key) = (own && provider.own_format, own && provider.needs_key);
        Ok(Self { url, headers, http, official, needs_key, provider, hidden, key })
    }

    /// Returns the name of the provider. The server may be a replacement of the provider's server.
    pub(super) fn provider_name(&self) -> &'static str {
        self.provider.name
    }

    /// Returns true if the server can restrict answers to a JSON Schema.
    pub(crate) fn takes_schema(&self) -> bool {
        self.provider.takes_schema
    }

    /// Returns the URL of an endpoint below the base URL. A query of the base URL is kept.
    pub(crate) fn endpoint(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{path}", self.url.path().trim_end_matches('/')));
        url
    }

    /// Returns the headers of one call, and the secrets among them. Requests the key.
    pub(crate) async fn headers(&self) -> Result<(HeaderMap, Vec<Secret>), ModelError> {
        let (mut headers, mut hidden) = (self.headers.clone(), self.hidden.clone());
        let name = self.provider.key_header.map_or(AUTHORIZATION, HeaderName::from_static);
        if !headers.contains_key(&name)
            // The host's header replaces the key, so the key is not requested.
            && !headers.contains_key(AUTHORIZATION)
            && let Some((name, key)) = self.key(name.clone()).await?
        {
            let value = match name == AUTHORIZATION {
                true => secret_value(&format!("Bearer {}", key.expose()))?,
                false => secret_value(key.expose())?,
            };
            headers.insert(name, value);
            hidden.push(key);
        }
        if self.url.scheme() == "http"
            && (headers.contains_key(AUTHORIZATION)
                || headers.contains_key(name)
                || !keys_in(&self.url).is_empty())
        {
            warn_of_plain_text(&self.url);
        }
        Ok((headers, hidden))
    }

    /// Returns the key and its header. The header is `Authorization` for a token, and otherwise
    /// `header`.
    async fn key(&self, header: HeaderName) -> Result<Option<(HeaderName, Secret)>, ModelError> {
        let (names, tokens, secrets) = match &self.key {
            Key::Fixed(key) => return Ok(Some((header, key.clone()))),
            Key::Named { names, tokens, secrets } => (names, tokens, secrets),
        };
        for name in names {
            if let Some(key) = secrets.secret(name).await {
                return Ok(Some((header, key)));
            }
        }
        for name in *tokens {
            if let Some(token) = secrets.secret(name).await {
                return Ok(Some((AUTHORIZATION, token)));
            }
        }
        if !self.needs_key {
            return Ok(None);
        }
        let Provider { base_url, base_url_variable, .. } = self.provider;
        Err(ModelError::new(
            ModelErrorKind::Auth,
            format!(
                "there is no key for {base_url}: set {}, or {base_url_variable} to another server",
                names
                    .iter()
                    .map(String::as_str)
                    .chain(tokens.iter().copied())
                    .collect::<Vec<_>>()
                    .join(" or ")
            ),
        ))
    }
}

/// Warns once per server if a key is sent in plain text. Does not warn for this machine.
fn warn_of_plain_text(url: &Url) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    if is_this_machine(url) {
        return;
    }
    let (host, port) =
        (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
    if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{host}:{port}")) {
        tracing::warn!(
            server.address = host,
            server.port = port,
            "a key goes to a model's server over http://, where everybody on the way can read it; use https://"
        );
    }
}

fn unusable(problem: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, problem)
}

fn address(base_url: &str, provider: &Provider) -> Result<Url, ModelError> {
    let mut url = Url::parse(base_url).map_err(|error| {
        unusable(format!(
            "the base URL is not an address ({error}); give one like {}",
            provider.base_url
        ))
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable(format!(
            "the base URL must begin with http:// or https://, not {}:",
            url.scheme()
        )));
    }
    url.set_fragment(None);
    Ok(url)
}

/// Returns the parts of a URL that may be keys: the password, also as the `Authorization` header
/// that the client derives from it, and the query values except for the API version.
fn keys_in(url: &Url) -> Vec<Secret> {
    let mut keys = Vec::new();
    if let Some(written) = url.password() {
        let (user, password) = (percent_decoded(url.username()), percent_decoded(written));
        keys.push(STANDARD.encode(format!("{user}:{password}")));
        keys.extend((password != written).then(|| written.to_owned()));
        keys.push(password);
    }
    let written = url
        .query()
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter_map(|pair| pair.split_once('='));
    let written = written.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let read = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned()));
    let values =
        written.chain(read).filter(|(name, _)| name != "api-version").map(|(_, value)| value);
    keys.into_iter().chain(values).map(Secret::new).collect()
}

/// Returns a header value that is marked as sensitive.
fn secret_value(text: &str) -> Result<HeaderValue, ModelError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        ModelError::new(
            ModelErrorKind::Auth,
            "the key or a header's value holds characters that no header can carry",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agentflow_core::__private::adapters::{Provider, ServerSettings};
    use agentflow_core::model::{ModelErrorKind, Secret, SecretProvider};

    use super::Server;

    static PROVIDER: Provider = Provider {
        name: "test",
        format: "test",
        own_format: true,
        needs_key: true,
        takes_schema: true,
        aliases: &[],
        prefixes: &[],
        telemetry_name: "test",
        base_url: "https://models.example/v1",
        base_url_variable: "AGENTFLOW_TEST_NO_SUCH_VARIABLE",
        key_names: &["AGENTFLOW_TEST_NO_SUCH_KEY", "AGENTFLOW_TEST_NEITHER"],
        key_header: Some("x-key"),
        token_names: &["AGENTFLOW_TEST_NO_SUCH_TOKEN"],
        headers: &[("x-version", "7")],
    };

    fn server(change: impl FnOnce(&mut ServerSettings)) -> Server {
        let mut builder = ServerSettings::new(&PROVIDER);
        change(&mut builder);
        Server::new(builder).expect("usable")
    }

    #[test]
    fn an_endpoint_is_below_the_base_url() {
        let of = |base: &str| {
            server(|server| server.base_url = Some(base.to_owned())).endpoint("a/b").to_string()
        };
        assert_eq!(of("http://h:1/v1"), "http://h:1/v1/a/b");
        assert_eq!(of("http://h:1/v1/"), "http://h:1/v1/a/b");
        assert_eq!(of("http://h:1"), "http://h:1/a/b");
        assert_eq!(of("https://h/d/gpt?api-version=1#x"), "https://h/d/gpt/a/b?api-version=1");
        for wrong in ["h:1/v1", "/v1", "", "ftp://h/v1"] {
            let mut builder = ServerSettings::new(&PROVIDER);
            builder.base_url = Some(wrong.to_owned());
            assert_eq!(Server::new(builder).err().expect(wrong).kind(), ModelErrorKind::BadRequest);
        }
    }

    #[tokio::test]
    async fn a_key_goes_where_the_provider_wants_it_unless_the_host_sends_one() {
        let sent =
            server(|server| server.key = Some(Secret::new("k"))).headers().await.expect("a key");
        assert_eq!(
            (&sent.0["x-key"], &sent.0["x-version"]),
            (&"k".parse().unwrap(), &"7".parse().unwrap())
        );
        assert_eq!(sent.1, [Secret::new("k")]);
        let own = server(|server| {
            server.headers.push(("Authorization".to_owned(), "Bearer o".to_owned()));
        });
        let sent = own.headers().await.expect("no key is asked for");
        assert!(!sent.0.contains_key("x-key"));
        assert_eq!(sent.1, [Secret::new("Bearer o")]);
    }

    /// A secret provider with fixed secrets.
    struct Known(&'static [(&'static str, &'static str)]);

    #[async_trait::async_trait]
    impl SecretProvider for Known {
        async fn secret(&self, name: &str) -> Option<Secret> {
            self.0.iter().find(|(known, _)| *known == name).map(|(_, secret)| Secret::new(*secret))
        }
    }

    #[tokio::test]
    async fn a_token_is_sent_as_one_when_there_is_no_key() {
        const TOKEN: (&str, &str) = ("AGENTFLOW_TEST_NO_SUCH_TOKEN", "t");
        const BOTH: &[(&str, &str)] = &[TOKEN, ("AGENTFLOW_TEST_NEITHER", "k")];
        let sent = async |known: &'static [(&str, &str)], name: Option<&str>| {
            let server = server(|server| {
                server.base_url = Some("http://h".to_owned());
                server.secrets = Arc::new(Known(known));
                server.key_name = name.map(str::to_owned);
            });
            let (headers, hidden) = server.headers().await.expect("headers");
            let of = |name: &str| {
                headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
            };
            (of("x-key"), of("authorization"), hidden)
        };
        assert_eq!(
            sent(&[TOKEN], None).await,
            (None, Some("Bearer t".to_owned()), vec![Secret::new("t")])
        );
        assert_eq!(sent(BOTH, None).await, (Some("k".to_owned()), None, vec![Secret::new("k")]));
        // A name from the host replaces the provider's names.
        assert_eq!(sent(&[TOKEN], Some("OTHER")).await, (None, None, vec![]));
    }

    #[tokio::test]
    async fn keys_in_an_address_are_hidden() {
        let base_url = Some("http://user:p%40ss+@h/v1?api-version=2026-01-01&sig=a%2Bb".to_owned());
        let sent = server(|server| server.base_url = base_url)
            .headers()
            .await
            .expect("no key is asked for");
        let expected = ["dXNlcjpwQHNzKw==", "p%40ss+", "p@ss+", "a%2Bb", "a+b"];
        assert_eq!(sent.1, expected.map(Secret::new));
    }

    #[tokio::test]
    async fn only_the_providers_own_server_needs_a_key() {
        let error = server(|_| ()).headers().await.expect_err("no key");
        assert_eq!(
            error.message(),
            "there is no key for https://models.example/v1: set AGENTFLOW_TEST_NO_SUCH_KEY or AGENTFLOW_TEST_NEITHER \
             or AGENTFLOW_TEST_NO_SUCH_TOKEN, or AGENTFLOW_TEST_NO_SUCH_VARIABLE to another server"
        );
        let other = server(|server| server.base_url = Some("http://h".to_owned()));
        assert_eq!(other.headers().await.expect("none is needed").1, []);
    }
}
