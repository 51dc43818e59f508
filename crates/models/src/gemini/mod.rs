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
//! - Fields without a setting go through [`ModelSettings::extra`](agentflow_core::model::ModelSettings::extra).
//!   Those of `generationConfig`, such as `topK` and `thinkingConfig`, are put there; all others, such as
//!   `safetySettings`, `cachedContent` and `labels`, to the top of the request. `generationConfig` and `toolConfig`
//!   given as objects are merged into ours and win; `tools`, such as `[{"googleSearch": {}}]`, are offered beside the
//!   agent's own.

mod decode;
mod encode;
mod error_body;
mod message;
mod schema;
mod wire;

use std::sync::Arc;

use agentflow_core::__private::adapters::{GEMINI as PROVIDER, Provider};
use agentflow_core::model::{ModelError, ModelErrorKind, ModelRequest, OutputMode, SecretProvider};
use reqwest::Url;
use serde_json::Value;

use self::decode::GeminiDecoder;
use crate::http::{HttpAdapter, HttpModelBuilder, Refusal, Server, WireFormat, http_model};

/// Added to an address that names no version.
const VERSION: &str = "v1beta/";
/// The beginning of the ids that are given to calls without one.
const MADE_ID: &str = "gemini_call_";

/// A model reached by the Gemini generateContent wire format.
///
/// - Its server is at the address in the environment variable `GOOGLE_GEMINI_BASE_URL`, else at
///   `https://generativelanguage.googleapis.com`. `/v1beta` is added unless the address names a version itself, as in
///   `https://aiplatform.googleapis.com/v1/projects/mine/locations/global/publishers/google` (Vertex AI; give it an
///   `Authorization` header).
/// - Its key is `GOOGLE_API_KEY`, and when there is none `GEMINI_API_KEY`, sent as `x-goog-api-key`.
/// - A typed answer is asked for with its schema ([`OutputMode::Native`]) from Gemini 3 on. Gemini 2.5 and models of
///   other names take the schema without tools and a tool call beside tools; older ones always a tool call.
///
/// Cloning is one reference count. Dropping a call's stream closes its connection.
///
/// ```
/// use agentflow::model::gemini::Gemini;
///
/// let model = Gemini::builder("gemini-2.5-flash").build()?;
/// # let _ = model;
/// # Ok::<(), agentflow::model::ModelError>(())
/// ```
#[derive(Clone)]
#[doc(alias = "GeminiAdapter")]
pub struct Gemini(Arc<HttpAdapter<GenerateContent>>);

http_model!(Gemini, GenerateContent);

impl Gemini {
    /// Describes a model by the name that its server knows, such as `gemini-2.5-flash` or `tunedModels/mine`. The name
    /// is part of the address: no segment of it may be empty, `.` or `..`.
    pub fn builder(model: impl Into<Arc<str>>) -> HttpModelBuilder<Self> {
        HttpModelBuilder::new(model)
    }

    /// A model with the default address, and the default key from `secrets` before each call.
    ///
    /// # Errors
    /// When `GOOGLE_GEMINI_BASE_URL` is not an address, or the model's name cannot be part of one.
    pub fn from_env(model: impl Into<Arc<str>>, secrets: Arc<dyn SecretProvider>) -> Result<Self, ModelError> {
        Self::builder(model).secrets(secrets).build()
    }
}

/// The format for one model at one server.
pub(crate) struct GenerateContent {
    model: Arc<str>,
    /// Names everything that an encoded message depends on.
    name: String,
    url: Url,
    stream_url: Url,
}

impl WireFormat for GenerateContent {
    const PROVIDER: &'static Provider = &PROVIDER;

    type Decoder = GeminiDecoder;

    fn new(model: &Arc<str>, server: &Server) -> Result<Self, ModelError> {
        let path = model_path(model)?;
        let url = endpoint(server, &path, "generateContent");
        let mut stream_url = endpoint(server, &path, "streamGenerateContent");
        stream_url.query_pairs_mut().append_pair("alt", "sse");
        Ok(Self { model: Arc::clone(model), name: format!("{}/{model}", PROVIDER.name), url, stream_url })
    }

    fn encode(&self, request: &ModelRequest) -> Result<(Url, Vec<u8>), ModelError> {
        let url = if request.stream { &self.stream_url } else { &self.url };
        Ok((url.clone(), encode::body(&self.model, &self.name, request)?))
    }

    fn decoder(&self, messages: usize) -> GeminiDecoder {
        GeminiDecoder::new(Arc::clone(&self.model), messages)
    }

    fn refused(refusal: &Refusal<'_>) -> ModelError {
        error_body::refused(refusal)
    }

    fn output_mode(&self, _: &Server, with_tools: bool) -> OutputMode {
        output_mode(&self.model, with_tools)
    }

    fn check_schema(schema: &Value) -> Result<(), String> {
        schema::answer(schema).map(drop)
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

/// The number in the name of a Gemini model; `None` for other models. A name that ends in `latest` is one of the
/// newest.
fn generation(model: &str) -> Option<f32> {
    let name = model.rsplit('/').next()?.strip_prefix("gemini-")?;
    if name.ends_with("-latest") && !name.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(f32::MAX);
    }
    name.split('-').next()?.parse().ok()
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
            let problem = format!("the model's name `{}` is not a path to a model", model.escape_debug());
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
