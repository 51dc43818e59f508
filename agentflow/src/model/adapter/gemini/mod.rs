//! The Gemini generateContent wire format, spoken by Google's Gemini API and, below another base URL, by Vertex AI.
//!
//! - Thoughts and their signatures go back unchanged and in place to the model they came from; code that Google ran and
//!   other parts that have no name here do so too. Thoughts are only shown when they are asked for, by
//!   `thinkingConfig: {"includeThoughts": true}`.
//! - A model from Gemini 3 on refuses calls without a signature. Calls that another model made are sent to it with the
//!   words that Google names for that.
//! - Calls that come without an id are given one, which is not sent back; their results go back in the order of the
//!   calls.
//! - All instructions of a conversation go to one place before it, since the format has no other.
//! - Fields that have no setting of their own go through [`ModelSettings::extra`](crate::ModelSettings::extra). Those of
//!   `generationConfig`, such as `topK` and `thinkingConfig`, are put there; all others, such as `safetySettings`,
//!   `cachedContent` and `labels`, to the top of the request. `generationConfig` and `toolConfig` given as objects are
//!   merged into ours and win; `tools`, such as `[{"googleSearch": {}}]`, are offered beside the agent's own.

mod decode;
mod encode;
mod error_body;
mod message;
mod schema;
mod wire;

use std::fmt;
use std::sync::Arc;

use reqwest::Url;

use self::decode::GeminiDecoder;
use super::http::{HttpSettings, Outgoing, Provider, Refusal, Server, ServerBuilder, WireFormat, exchange};
use crate::model::{
    Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ModelStream, OutputMode, OutputSchema, Secret,
    SecretProvider,
};

pub(crate) const PROVIDER: &str = "gemini";

pub(in crate::model) static SERVER: Provider = Provider {
    base_url: "https://generativelanguage.googleapis.com",
    base_url_variable: "GOOGLE_GEMINI_BASE_URL",
    // In the order in which Google's own clients ask for them.
    key_names: &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
    key_header: Some("x-goog-api-key"),
    token_names: &[],
    headers: &[],
};
/// Added to an address that names no version.
const VERSION: &str = "v1beta/";
/// How the ids of calls begin that came without one.
const MADE_ID: &str = "gemini_call_";

/// A model reached by the Gemini generateContent wire format.
///
/// Cloning is one reference count. Dropping a call's stream closes its connection.
///
/// ```
/// use agentflow::gemini::Gemini;
///
/// let model = Gemini::builder("gemini-2.5-flash").build()?;
/// # let _ = model;
/// # Ok::<(), agentflow::ModelError>(())
/// ```
#[derive(Clone)]
pub struct Gemini {
    wire: Arc<GenerateContent>,
}

/// What one model's calls have in common.
struct GenerateContent {
    info: ModelInfo,
    /// Names everything that an encoded message depends on.
    format: String,
    server: Server,
    url: Url,
    stream_url: Url,
    output_mode: Option<OutputMode>,
}

impl Gemini {
    /// A model by the name its server knows it by, such as `gemini-2.5-flash` or `tunedModels/mine`.
    pub fn builder(model: impl Into<Arc<str>>) -> GeminiBuilder {
        GeminiBuilder { model: model.into(), server: ServerBuilder::new(&SERVER), output_mode: None }
    }

    /// A model with everything else taken from the environment: the address from `GOOGLE_GEMINI_BASE_URL`, the key
    /// `GOOGLE_API_KEY` or else `GEMINI_API_KEY` from `secrets` before each call.
    ///
    /// # Errors
    /// When `GOOGLE_GEMINI_BASE_URL` is no address.
    pub fn from_env(model: impl Into<Arc<str>>, secrets: Arc<dyn SecretProvider>) -> Result<Self, ModelError> {
        Self::builder(model).secrets(secrets).build()
    }
}

impl Model for Gemini {
    fn info(&self) -> &ModelInfo {
        &self.wire.info
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        exchange(Arc::clone(&self.wire), request)
    }

    fn output_mode(&self, schema: &OutputSchema, with_tools: bool) -> Result<OutputMode, String> {
        let mode = self.wire.output_mode.unwrap_or_else(|| output_mode(&self.wire.info.model, with_tools));
        if mode == OutputMode::Native {
            schema::answer(&schema.schema)?;
        }
        Ok(mode)
    }
}

/// How a model is brought to answer in a given shape. Up to Gemini 2.0 none takes JSON Schema for an answer, and up to
/// 2.5 none takes it beside tools.
fn output_mode(model: &str, with_tools: bool) -> OutputMode {
    match generation(model) {
        Some(generation) if generation >= 3.0 => OutputMode::Native,
        Some(generation) if generation < 2.5 => OutputMode::Tool,
        _ if with_tools => OutputMode::Tool,
        _ => OutputMode::Native,
    }
}

/// The number in the name of a Gemini model; `None` for other models. A name that ends in `latest` is one of the newest.
fn generation(model: &str) -> Option<f32> {
    let name = model.rsplit('/').next()?.strip_prefix("gemini-")?;
    if name.ends_with("-latest") && !name.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(f32::MAX);
    }
    name.split('-').next()?.parse().ok()
}

/// Shows neither keys nor the values of headers.
impl fmt::Debug for Gemini {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GenerateContent { info, server: Server { url, headers, http, .. }, .. } = &*self.wire;
        f.debug_struct("Gemini")
            .field("model", &info.model)
            .field("host", &url.host_str())
            .field("headers", &headers.keys())
            .field("http", http)
            .finish_non_exhaustive()
    }
}

impl WireFormat for GenerateContent {
    type Decoder = GeminiDecoder;

    fn settings(&self) -> &HttpSettings {
        &self.server.http
    }

    async fn prepare(&self, request: ModelRequest) -> Result<(Outgoing, GeminiDecoder), ModelError> {
        let (headers, hidden) = self.server.headers().await?;
        let body = encode::body(&self.info.model, &self.format, &request)?;
        let url = if request.stream { &self.stream_url } else { &self.url };
        let outgoing = Outgoing { url: url.clone(), headers, body: body.into(), stream: request.stream, hidden };
        Ok((outgoing, GeminiDecoder::new(Arc::clone(&self.info.model), request.messages.len())))
    }

    fn refused(&self, refusal: &Refusal<'_>) -> ModelError {
        error_body::refused(refusal)
    }
}

/// Describes a [`Gemini`].
#[must_use]
pub struct GeminiBuilder {
    model: Arc<str>,
    server: ServerBuilder,
    output_mode: Option<OutputMode>,
}

impl GeminiBuilder {
    /// The server's address as Google's own clients take it. `/v1beta` is added unless the address names a version
    /// itself, as in `https://aiplatform.googleapis.com/v1/projects/mine/locations/global/publishers/google` (Vertex AI;
    /// give it an `Authorization` header). Default: the environment variable `GOOGLE_GEMINI_BASE_URL`, else
    /// `https://generativelanguage.googleapis.com`. A query is kept.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.server.base_url = Some(url.into());
        self
    }

    /// The key to send. Default: asked for by name before each call.
    pub fn api_key(mut self, key: Secret) -> Self {
        self.server.key = Some(key);
        self
    }

    /// The name by which the key is asked for. Default `GOOGLE_API_KEY`, and `GEMINI_API_KEY` when there is none of that
    /// name. A server other than Google's is called without a key when there is none.
    pub fn api_key_name(mut self, name: impl Into<String>) -> Self {
        self.server.key_name = Some(name.into());
        self
    }

    /// Where the key is asked for. Default: the environment.
    pub fn secrets(mut self, secrets: Arc<dyn SecretProvider>) -> Self {
        self.server.secrets = secrets;
        self
    }

    /// Sends a header with every call. It replaces one of ours of the same name; an `x-goog-api-key` or `Authorization`
    /// given here is sent in place of the key. Values are never shown.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.server.headers.push((name.into(), value.into()));
        self
    }

    /// How the model is brought to a typed answer. Default: by its name. From Gemini 3 on by the answer's schema; Gemini
    /// 2.5 and models of other names by the schema without tools and by a tool beside tools; older ones by a tool.
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.output_mode = Some(mode);
        self
    }

    /// Time-outs and retries.
    pub fn http(mut self, settings: HttpSettings) -> Self {
        self.server.http = settings;
        self
    }

    /// The model. Nothing is sent yet.
    ///
    /// # Errors
    /// When the base URL is no `http` or `https` address, a header cannot be sent, or the model's name is no path: one
    /// of its segments is empty, `.` or `..`.
    pub fn build(self) -> Result<Gemini, ModelError> {
        let Self { model, server, output_mode } = self;
        let server = server.build()?;
        let path = model_path(&model)?;
        let url = endpoint(&server, &path, "generateContent");
        let mut stream_url = endpoint(&server, &path, "streamGenerateContent");
        stream_url.query_pairs_mut().append_pair("alt", "sse");
        let format = format!("{PROVIDER}/{model}");
        let info = ModelInfo::new(PROVIDER, model);
        let wire = GenerateContent { info, format, server, url, stream_url, output_mode };
        Ok(Gemini { wire: Arc::new(wire) })
    }
}

/// Shows neither keys nor the values of headers, nor the address, which may hold a key.
impl fmt::Debug for GeminiBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeminiBuilder")
            .field("model", &self.model)
            .field("http", &self.server.http)
            .finish_non_exhaustive()
    }
}

/// The address of a model's method.
fn endpoint(server: &Server, model_path: &str, method: &str) -> Url {
    let version = if server.url.path().split('/').any(is_version) { "" } else { VERSION };
    server.endpoint(&format!("{version}{model_path}:{method}"))
}

/// A model's name as the path to it. A name may come from a document or a command line: whatever it holds, it names a
/// model and leads nowhere else.
fn model_path(model: &str) -> Result<String, ModelError> {
    let mut path = String::from(if model.contains('/') { "" } else { "models/" });
    for (at, segment) in model.split('/').enumerate() {
        if matches!(segment, "" | "." | "..") {
            let problem = format!("the model's name `{}` is no path to a model", model.escape_debug());
            return Err(ModelError::new(ModelErrorKind::BadRequest, problem));
        }
        if at > 0 {
            path.push('/');
        }
        for byte in segment.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => path.push(byte.into()),
                _ => path.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    Ok(path)
}

/// Whether a segment of a path is a version, such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    let number = segment.strip_prefix('v').unwrap_or_default().trim_start_matches(|c: char| c.is_ascii_digit());
    segment.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
        && segment.starts_with('v')
        && (number.is_empty() || number.starts_with("alpha") || number.starts_with("beta"))
}
