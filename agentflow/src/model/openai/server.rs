//! A server that speaks an OpenAI wire format: its address, its key, the headers of every call.
//!
//! No key and no header's value is shown by anything here.

use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::model::{EnvSecrets, HttpSettings, ModelError, ModelErrorKind, OutputMode, Secret, SecretProvider};

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const BASE_URL_VARIABLE: &str = "OPENAI_BASE_URL";
const KEY_NAME: &str = "OPENAI_API_KEY";

pub(in crate::model) struct Server {
    pub(in crate::model) url: Url,
    pub(in crate::model) headers: HeaderMap,
    pub(in crate::model) http: HttpSettings,
    /// Whether the server is OpenAI itself.
    pub(in crate::model) official: bool,
    /// The values of the host's own headers: they may be keys.
    hidden: Vec<Secret>,
    key: Key,
    output_mode: Option<OutputMode>,
}

enum Key {
    Fixed(Secret),
    Named { name: String, secrets: Arc<dyn SecretProvider> },
}

impl Server {
    /// The headers of one call, and what in them must not be seen. The key is asked for here.
    pub(in crate::model) async fn headers(&self) -> Result<(HeaderMap, Vec<Secret>), ModelError> {
        let (mut headers, mut hidden) = (self.headers.clone(), self.hidden.clone());
        if !headers.contains_key(AUTHORIZATION)
            && let Some(key) = self.key().await?
        {
            headers.insert(AUTHORIZATION, secret_value(&format!("Bearer {}", key.expose()))?);
            hidden.push(key);
        }
        Ok((headers, hidden))
    }

    async fn key(&self) -> Result<Option<Secret>, ModelError> {
        let (name, secrets) = match &self.key {
            Key::Fixed(key) => return Ok(Some(key.clone())),
            Key::Named { name, secrets } => (name, secrets),
        };
        match secrets.secret(name).await {
            Some(key) => Ok(Some(key)),
            None if self.official => Err(ModelError::new(
                ModelErrorKind::Auth,
                format!("there is no key for {DEFAULT_BASE_URL}: set {name}, or {BASE_URL_VARIABLE} to another server"),
            )),
            None => Ok(None),
        }
    }

    /// How the server is brought to answer in a given shape, when the host does not say it.
    ///
    /// Some servers other than OpenAI's keep the model to the schema from its first token on, so that it can call no
    /// tool; there the answer is a call as well.
    pub(in crate::model) fn output_mode(&self, with_tools: bool) -> OutputMode {
        let host = self.url.host_str().unwrap_or_default();
        match self.output_mode {
            Some(mode) => mode,
            None if !with_tools || self.official || host.ends_with(".openai.azure.com") => OutputMode::Native,
            None => OutputMode::Tool,
        }
    }
}

/// What a host says about a server.
pub(in crate::model) struct ServerBuilder {
    pub(in crate::model) base_url: Option<String>,
    pub(in crate::model) key: Option<Secret>,
    pub(in crate::model) key_name: String,
    pub(in crate::model) secrets: Arc<dyn SecretProvider>,
    pub(in crate::model) headers: Vec<(String, String)>,
    pub(in crate::model) http: HttpSettings,
    pub(in crate::model) output_mode: Option<OutputMode>,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            base_url: None,
            key: None,
            key_name: KEY_NAME.to_owned(),
            secrets: Arc::new(EnvSecrets),
            headers: Vec::new(),
            http: HttpSettings::default(),
            output_mode: None,
        }
    }
}

impl ServerBuilder {
    /// The server; `path` is where below the base URL it is called.
    pub(in crate::model) fn build(self, path: &str) -> Result<Server, ModelError> {
        let Self { base_url, key, key_name, secrets, headers: given, http, output_mode } = self;
        let base_url = base_url
            .or_else(|| std::env::var(BASE_URL_VARIABLE).ok().filter(|url| !url.trim().is_empty()))
            .unwrap_or_else(|| DEFAULT_BASE_URL.to_owned());
        let url = endpoint(base_url.trim(), path)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut hidden = Vec::new();
        for (name, value) in given {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| unusable(format!("`{name}` cannot be the name of a header")))?;
            headers.insert(name, secret_value(&value)?);
            hidden.push(Secret::new(value));
        }
        let key = match key {
            Some(key) => Key::Fixed(key),
            None => Key::Named { name: key_name, secrets },
        };
        let official = url.host_str() == Some("api.openai.com");
        Ok(Server { url, headers, http, official, hidden, key, output_mode })
    }
}

fn unusable(problem: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, problem)
}

/// The address of an endpoint below a base URL.
fn endpoint(base_url: &str, path: &str) -> Result<Url, ModelError> {
    let mut url = Url::parse(base_url)
        .map_err(|error| unusable(format!("the base URL is no address ({error}); give one like {DEFAULT_BASE_URL}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable(format!("the base URL must begin with http:// or https://, not {}:", url.scheme())));
    }
    let path = format!("{}/{path}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

/// A header's value that is not shown by anybody.
fn secret_value(text: &str) -> Result<HeaderValue, ModelError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        ModelError::new(ModelErrorKind::Auth, "the key or a header's value holds characters that no header can carry")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::{ServerBuilder, endpoint};
    use crate::model::{ModelErrorKind, OutputMode};

    #[test]
    fn the_endpoint_is_below_the_base_url() {
        let of = |base: &str| endpoint(base, "chat/completions").expect("an address").to_string();
        assert_eq!(of("http://h:1/v1"), "http://h:1/v1/chat/completions");
        assert_eq!(of("http://h:1/v1/"), "http://h:1/v1/chat/completions");
        assert_eq!(of("http://h:1"), "http://h:1/chat/completions");
        assert_eq!(of("https://h/d/gpt?api-version=1"), "https://h/d/gpt/chat/completions?api-version=1");
        for wrong in ["h:1/v1", "/v1", "", "ftp://h/v1"] {
            assert_eq!(endpoint(wrong, "x").expect_err(wrong).kind(), ModelErrorKind::BadRequest);
        }
    }

    #[test]
    fn a_typed_answer_beside_tools_is_native_only_where_that_is_known_to_work() {
        let of = |base: &str, said, tools| {
            let server =
                ServerBuilder { base_url: Some(base.to_owned()), output_mode: said, ..ServerBuilder::default() };
            server.build("x").expect("usable").output_mode(tools)
        };
        assert_eq!(of("https://api.openai.com/v1", None, true), OutputMode::Native);
        assert_eq!(of("https://mine.openai.azure.com/openai/v1", None, true), OutputMode::Native);
        assert_eq!(of("http://h:1/v1", None, false), OutputMode::Native);
        assert_eq!(of("http://h:1/v1", None, true), OutputMode::Tool);
        assert_eq!(of("http://h:1/v1", Some(OutputMode::Native), true), OutputMode::Native);
        assert_eq!(of("https://api.openai.com/v1", Some(OutputMode::Tool), false), OutputMode::Tool);
    }
}
