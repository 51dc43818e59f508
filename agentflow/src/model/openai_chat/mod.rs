//! The OpenAI Chat Completions wire format, spoken by OpenAI, llama.cpp, Ollama, vLLM, OpenRouter and many others.
//!
//! What differs between them and matters here:
//! - OpenAI limits an answer by `max_completion_tokens`; every other server is sent `max_tokens`, which all of them know.
//! - `reasoning_content` (DeepSeek, llama.cpp, Qwen) and `reasoning_details` (OpenRouter) go back as they came to the
//!   model they came from, since DeepSeek and OpenRouter refuse or misread a tool loop without them. Reasoning that has
//!   only a readable form (`reasoning`, Mistral's thinking) is shown and not sent back.
//! - A call's `extra_content` (Gemini's thought signatures) goes back with the call to the model it came from.

mod decode;
mod encode;
mod problem;
#[cfg(test)]
mod shapes;
mod wire;

use std::fmt;
use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use self::decode::ChatDecoder;
use super::http::{HttpSettings, Outgoing, Refusal, WireFormat, exchange};
use super::{
    EnvSecrets, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ModelStream, Secret, SecretProvider,
};

pub(crate) const PROVIDER: &str = "openai-chat";

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const BASE_URL_VARIABLE: &str = "OPENAI_BASE_URL";
const KEY_NAME: &str = "OPENAI_API_KEY";

/// A model reached by the Chat Completions wire format.
///
/// Cloning is one reference count. Dropping a call's stream closes its connection.
///
/// ```
/// use agentflow::openai_chat::OpenAiChat;
///
/// let model = OpenAiChat::builder("qwen3-8b").base_url("http://127.0.0.1:8080/v1").build()?;
/// # let _ = model;
/// # Ok::<(), agentflow::ModelError>(())
/// ```
#[derive(Clone)]
pub struct OpenAiChat {
    wire: Arc<Chat>,
}

/// What one model's calls have in common.
struct Chat {
    info: ModelInfo,
    /// Names everything that an encoded message depends on.
    format: String,
    url: Url,
    headers: HeaderMap,
    /// The values of the host's own headers: they may be keys.
    hidden: Vec<Secret>,
    key: Key,
    /// Whether the server is OpenAI itself.
    official: bool,
    http: HttpSettings,
}

enum Key {
    Fixed(Secret),
    Named { name: String, secrets: Arc<dyn SecretProvider> },
}

impl OpenAiChat {
    /// A model by the name its server knows it by.
    pub fn builder(model: impl Into<Arc<str>>) -> OpenAiChatBuilder {
        OpenAiChatBuilder {
            model: model.into(),
            base_url: None,
            key: None,
            key_name: KEY_NAME.to_owned(),
            secrets: Arc::new(EnvSecrets),
            headers: Vec::new(),
            http: HttpSettings::default(),
        }
    }

    /// A model with everything else taken from the environment: the address from `OPENAI_BASE_URL`, the key
    /// `OPENAI_API_KEY` from `secrets` before each call.
    ///
    /// # Errors
    /// When `OPENAI_BASE_URL` is no address.
    pub fn from_env(model: impl Into<Arc<str>>, secrets: Arc<dyn SecretProvider>) -> Result<Self, ModelError> {
        Self::builder(model).secrets(secrets).build()
    }
}

impl Model for OpenAiChat {
    fn info(&self) -> &ModelInfo {
        &self.wire.info
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        exchange(Arc::clone(&self.wire), request)
    }
}

/// Shows neither keys nor the values of headers.
impl fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Chat { info, url, headers, http, .. } = &*self.wire;
        f.debug_struct("OpenAiChat")
            .field("model", &info.model)
            .field("host", &url.host_str())
            .field("headers", &headers.keys())
            .field("http", http)
            .finish_non_exhaustive()
    }
}

impl WireFormat for Chat {
    type Decoder = ChatDecoder;

    fn settings(&self) -> &HttpSettings {
        &self.http
    }

    async fn prepare(&self, request: ModelRequest) -> Result<(Outgoing, ChatDecoder), ModelError> {
        let mut headers = self.headers.clone();
        let mut hidden = self.hidden.clone();
        if !headers.contains_key(AUTHORIZATION)
            && let Some(key) = self.key().await?
        {
            headers.insert(AUTHORIZATION, secret_value(&format!("Bearer {}", key.expose()))?);
            hidden.push(key);
        }
        let body = encode::body(&self.info.model, &self.format, self.official, &request)?;
        let outgoing = Outgoing { url: self.url.clone(), headers, body: body.into(), stream: request.stream, hidden };
        Ok((outgoing, ChatDecoder::new(Arc::clone(&self.info.model), request.messages.len())))
    }

    fn refused(&self, refusal: &Refusal<'_>) -> ModelError {
        problem::refused(refusal)
    }
}

impl Chat {
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
}

/// Describes an [`OpenAiChat`].
#[must_use]
pub struct OpenAiChatBuilder {
    model: Arc<str>,
    base_url: Option<String>,
    key: Option<Secret>,
    key_name: String,
    secrets: Arc<dyn SecretProvider>,
    headers: Vec<(String, String)>,
    http: HttpSettings,
}

impl OpenAiChatBuilder {
    /// The server's address as OpenAI's own clients take it, mostly with `/v1` at its end. Default: the environment
    /// variable `OPENAI_BASE_URL`, else `https://api.openai.com/v1`. A query (`?api-version=..`) is kept.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// The key to send. Default: asked for by name before each call.
    pub fn api_key(mut self, key: Secret) -> Self {
        self.key = Some(key);
        self
    }

    /// The name by which the key is asked for. Default `OPENAI_API_KEY`. A server other than OpenAI's is called without
    /// a key when there is none of that name.
    pub fn api_key_name(mut self, name: impl Into<String>) -> Self {
        self.key_name = name.into();
        self
    }

    /// Where the key is asked for. Default: the environment.
    pub fn secrets(mut self, secrets: Arc<dyn SecretProvider>) -> Self {
        self.secrets = secrets;
        self
    }

    /// Sends a header with every call, such as `OpenAI-Organization`. It replaces one of ours of the same name; an
    /// `Authorization` given here is sent in place of the key. Values are never shown.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Time-outs and retries.
    pub fn http(mut self, settings: HttpSettings) -> Self {
        self.http = settings;
        self
    }

    /// The model. Nothing is sent yet.
    ///
    /// # Errors
    /// When the base URL is no `http` or `https` address, or a header cannot be sent.
    pub fn build(self) -> Result<OpenAiChat, ModelError> {
        let Self { model, base_url, key, key_name, secrets, headers: given, http } = self;
        let base_url = base_url
            .or_else(|| std::env::var(BASE_URL_VARIABLE).ok().filter(|url| !url.trim().is_empty()))
            .unwrap_or_else(|| DEFAULT_BASE_URL.to_owned());
        let url = endpoint(base_url.trim())?;
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
        let format = format!("{PROVIDER}/{model}");
        let info = ModelInfo::new(PROVIDER, model);
        Ok(OpenAiChat { wire: Arc::new(Chat { info, format, url, headers, hidden, key, official, http }) })
    }
}

/// Shows neither keys nor the values of headers, nor the address, which may hold a key.
impl fmt::Debug for OpenAiChatBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiChatBuilder")
            .field("model", &self.model)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

fn unusable(problem: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, problem)
}

/// The address of the one endpoint below a base URL.
fn endpoint(base_url: &str) -> Result<Url, ModelError> {
    let mut url = Url::parse(base_url)
        .map_err(|error| unusable(format!("the base URL is no address ({error}); give one like {DEFAULT_BASE_URL}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable(format!("the base URL must begin with http:// or https://, not {}:", url.scheme())));
    }
    let path = format!("{}/chat/completions", url.path().trim_end_matches('/'));
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
    use super::{OpenAiChat, endpoint};
    use crate::model::{ModelErrorKind, Secret};

    #[test]
    fn the_endpoint_is_below_the_base_url() {
        let of = |base: &str| endpoint(base).expect("an address").to_string();
        assert_eq!(of("http://h:1/v1"), "http://h:1/v1/chat/completions");
        assert_eq!(of("http://h:1/v1/"), "http://h:1/v1/chat/completions");
        assert_eq!(of("http://h:1"), "http://h:1/chat/completions");
        assert_eq!(of("https://h/d/gpt?api-version=1"), "https://h/d/gpt/chat/completions?api-version=1");
        for wrong in ["h:1/v1", "/v1", "", "ftp://h/v1"] {
            assert_eq!(endpoint(wrong).expect_err(wrong).kind(), ModelErrorKind::BadRequest);
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let builder = OpenAiChat::builder("m")
            .base_url("http://user:pass-word@h/v1?key=in-query")
            .api_key(Secret::new("sk-one"))
            .header("x-key", "sk-two");
        let shown = format!("{builder:?} {:?}", builder_debug());
        assert!(!shown.contains("sk-"), "{shown}");
        let shown = format!("{:?}", builder.build().expect("usable"));
        for secret in ["sk-", "pass-word", "in-query"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("x-key"), "{shown}");
    }

    fn builder_debug() -> String {
        format!("{:?}", OpenAiChat::builder("m").api_key(Secret::new("sk-three")))
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_refused_without_showing_it() {
        let error = OpenAiChat::builder("m").header("x-key", "sk-\n").build().expect_err("a line feed");
        assert!(!format!("{error} {error:?}").contains("sk-"), "{error:?}");
        let error = OpenAiChat::builder("m").header("x key", "v").build().expect_err("a space");
        assert!(error.message().contains("`x key`"), "{error}");
    }
}
