//! The Gemini generateContent wire format, for Google's Gemini API and, with another base URL, for
//! Vertex AI.
//!
//! - Thoughts and their signatures are sent back, unchanged and at their position, to the model
//!   that created them. The same applies to code that Google executed and to unknown parts. Gemini
//!   returns thoughts only if the request contains `thinkingConfig: {"includeThoughts": true}`.
//! - A model from Gemini 3 on refuses calls without a signature. Calls that another model made are
//!   sent with the placeholder that Google specifies.
//! - A call without an id gets an id, which is not sent back. The results of such calls are sent in
//!   the order of the calls.
//! - All instructions of a conversation are sent in one field before the conversation, because the
//!   format has only this field.
//! - Request fields without a setting can be set with
//!   [`ModelSettings::extra`](agentflow_core::model::ModelSettings::extra). Fields of
//!   `generationConfig`, such as `topK` and `thinkingConfig`, are written there. All others, such
//!   as `safetySettings`, `cachedContent` and `labels`, are written to the top level.
//!   `generationConfig` and `toolConfig` are merged into ours and take precedence. `tools`, such as
//!   `[{"googleSearch": {}}]`, are offered in addition to the agent's tools.

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

/// API version for base URLs without a version.
const VERSION: &str = "v1beta/";
/// Prefix of the ids that are assigned to calls without an id.
const MADE_ID: &str = "gemini_call_";

/// A model that is accessed with the Gemini generateContent wire format.
///
/// - Server: the URL in the environment variable `GOOGLE_GEMINI_BASE_URL`, by default
///   `https://generativelanguage.googleapis.com`. `/v1beta` is added unless the URL contains a
///   version, as in
///   `https://aiplatform.googleapis.com/v1/projects/mine/locations/global/publishers/google`
///   (Vertex AI; set an `Authorization` header for it).
/// - Key: `GOOGLE_API_KEY`, or `GEMINI_API_KEY` if that is not set, sent as `x-goog-api-key`.
/// - Typed answers: models from Gemini 3 on receive the schema ([`OutputMode::Native`]). Gemini 2.5
///   and models with other names receive the schema if the request has no tools, and otherwise
///   return the answer as a tool call. Older models always return it as a tool call.
///
/// Cloning only increments a reference count. Dropping the stream of a call closes its connection.
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
    /// Returns a builder for a model with the name that its server uses, such as `gemini-2.5-flash`
    /// or `tunedModels/mine`. The name becomes a part of the URL: no path segment of it may be
    /// empty, `.` or `..`.
    pub fn builder(model: impl Into<Arc<str>>) -> HttpModelBuilder<Self> {
        HttpModelBuilder::new(model)
    }

    /// Creates a model with the default URL. Before each call, the default key is requested from
    /// `secrets`.
    ///
    /// # Errors
    /// Returns an error if `GOOGLE_GEMINI_BASE_URL` is not a valid URL, or if the model's name
    /// cannot be a part of a URL.
    pub fn from_env(
        model: impl Into<Arc<str>>,
        secrets: Arc<dyn SecretProvider>,
    ) -> Result<Self, ModelError> {
        Self::builder(model).secrets(secrets).build()
    }
}

/// The wire format for one model at one server.
pub(crate) struct GenerateContent {
    model: Arc<str>,
    /// Cache key of encoded messages: the provider and the model.
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
        Ok(Self {
            model: Arc::clone(model),
            name: format!("{}/{model}", PROVIDER.name),
            url,
            stream_url,
        })
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

/// Returns the default output mode. Models up to Gemini 2.0 do not support JSON Schema for answers.
/// Models up to 2.5 do not support it in a request with tools.
fn output_mode(model: &str, with_tools: bool) -> OutputMode {
    match generation(model) {
        Some(generation) if generation >= 3.0 => OutputMode::Native,
        Some(generation) if generation < 2.5 => OutputMode::Tool,
        _ if with_tools => OutputMode::Tool,
        _ => OutputMode::Native,
    }
}

/// Returns the version in the name of a Gemini model, or `None` for other models. A name that ends
/// in `latest` counts as the newest version.
fn generation(model: &str) -> Option<f32> {
    let name = model.rsplit('/').next()?.strip_prefix("gemini-")?;
    if name.ends_with("-latest") && !name.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(f32::MAX);
    }
    name.split('-').next()?.parse().ok()
}

/// Returns the URL of a model's method.
fn endpoint(server: &Server, model_path: &str, method: &str) -> Url {
    let version = if server.url.path().split('/').any(is_version) { "" } else { VERSION };
    server.endpoint(&format!("{version}{model_path}:{method}"))
}

/// Converts a model's name to a URL path. The name may be untrusted, for example from a document:
/// segments that would change the path are refused, and special characters are escaped.
fn model_path(model: &str) -> Result<String, ModelError> {
    let mut path = String::from(if model.contains('/') { "" } else { "models/" });
    for (at, segment) in model.split('/').enumerate() {
        if matches!(segment, "" | "." | "..") {
            let problem =
                format!("the model's name `{}` is not a path to a model", model.escape_debug());
            return Err(ModelError::new(ModelErrorKind::BadRequest, problem));
        }
        if at > 0 {
            path.push('/');
        }
        for byte in segment.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => {
                    path.push(byte.into());
                }
                _ => path.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    Ok(path)
}

/// Returns true if a path segment is an API version, such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    let number = segment
        .strip_prefix('v')
        .unwrap_or_default()
        .trim_start_matches(|c: char| c.is_ascii_digit());
    segment.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
        && segment.starts_with('v')
        && (number.is_empty() || number.starts_with("alpha") || number.starts_with("beta"))
}
