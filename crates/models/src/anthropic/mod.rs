//! The Anthropic Messages wire format, for Anthropic and compatible servers.
//!
//! - Thinking is sent back, unchanged and at its position, to the model that created it, because
//!   its signature is valid only for that model. Other opaque blocks (server tools and their
//!   results, compactions, citations) are sent back to every model of this format.
//! - Request fields without a setting can be set with
//!   [`ModelSettings::extra`](agentflow_core::model::ModelSettings::extra): `thinking`,
//!   `service_tier`, `output_config`, or `cache_control`. `"cache_control": {"type": "ephemeral"}`
//!   caches the whole prompt, while
//!   [`ModelSettings::prompt_cache`](agentflow_core::model::ModelSettings::prompt_cache) caches the
//!   tools and the instruction. Server tools in `tools`, such as `{"type": "web_search_20250305",
//!   "name": "web_search"}`, are offered in addition to the agent's tools.
//! - If the service pauses its response, the stop reason is
//!   [`StopReason::PauseTurn`](agentflow_core::model::StopReason::PauseTurn). To continue, send the
//!   conversation including that response. An agent does this automatically, as a further turn.

mod blocks;
mod decode;
mod encode;
mod error_body;
mod message;
mod schema;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use agentflow_core::__private::adapters::{ANTHROPIC as PROVIDER, Provider};
use agentflow_core::model::{ModelError, ModelRequest, OutputMode, SecretProvider};
use reqwest::Url;
use serde_json::Value;

use self::decode::MessagesDecoder;
use crate::http::{HttpAdapter, HttpModelBuilder, Refusal, Server, WireFormat, http_model};

/// Name prefixes of Claude models without structured output.
const WITHOUT_SCHEMA: [&str; 7] = [
    "claude-2",
    "claude-3",
    "claude-instant",
    "claude-opus-4-0",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
];

/// A model that is accessed with the Anthropic Messages wire format.
///
/// - Server: the URL in the environment variable `ANTHROPIC_BASE_URL`, by default
///   `https://api.anthropic.com`. The URL is written without `/v1`.
/// - Key: `ANTHROPIC_API_KEY`, sent as `x-api-key`. If it is not set: the token
///   `ANTHROPIC_AUTH_TOKEN`, sent as `Authorization: Bearer`.
/// - Typed answers: Claude models that support structured output (all since Opus 4.1 and Sonnet
///   4.5) receive the schema ([`OutputMode::Native`]). Older models and models with other names
///   return the answer as a tool call.
/// - Output limit: 16,384 tokens plus the `thinking` budget, unless
///   [`ModelSettings::max_tokens`](agentflow_core::model::ModelSettings::max_tokens) is set. The
///   format requires a limit in every call.
/// - Seed: not sent, because the format has none.
/// - [`ToolChoice::Required`](agentflow_core::model::ToolChoice::Required) is sent as `auto` while
///   `thinking` is enabled, because the format does not allow both.
///
/// Cloning only increments a reference count. Dropping the stream of a call closes its connection.
///
/// ```
/// use agentflow::model::anthropic::Anthropic;
///
/// let model = Anthropic::builder("claude-sonnet-4-5").build()?;
/// # let _ = model;
/// # Ok::<(), agentflow::model::ModelError>(())
/// ```
#[derive(Clone)]
#[doc(alias = "AnthropicAdapter")]
pub struct Anthropic(Arc<HttpAdapter<Messages>>);

http_model!(Anthropic, Messages);

impl Anthropic {
    /// Returns a builder for a model with the name that its server uses.
    pub fn builder(model: impl Into<Arc<str>>) -> HttpModelBuilder<Self> {
        HttpModelBuilder::new(model)
    }

    /// Creates a model with the default URL. Before each call, the default key or token is
    /// requested from `secrets`.
    ///
    /// # Errors
    /// Returns an error if `ANTHROPIC_BASE_URL` is not a valid URL.
    pub fn from_env(
        model: impl Into<Arc<str>>,
        secrets: Arc<dyn SecretProvider>,
    ) -> Result<Self, ModelError> {
        Self::builder(model).secrets(secrets).build()
    }
}

/// The wire format for one model at one server.
pub(crate) struct Messages {
    model: Arc<str>,
    /// Cache key of encoded messages: the provider and the model.
    name: String,
    url: Url,
}

impl WireFormat for Messages {
    const PROVIDER: &'static Provider = &PROVIDER;

    type Decoder = MessagesDecoder;

    fn new(model: &Arc<str>, server: &Server) -> Result<Self, ModelError> {
        let name = format!("{}/{model}", PROVIDER.name);
        Ok(Self { model: Arc::clone(model), name, url: server.endpoint("v1/messages") })
    }

    fn encode(&self, request: &ModelRequest) -> Result<(Url, Vec<u8>), ModelError> {
        Ok((self.url.clone(), encode::body(&self.model, &self.name, request)?))
    }

    fn decoder(&self, messages: usize) -> MessagesDecoder {
        MessagesDecoder::new(Arc::clone(&self.model), messages)
    }

    fn refused(refusal: &Refusal<'_>) -> ModelError {
        error_body::refused(refusal)
    }

    fn output_mode(&self, _: &Server, _: bool) -> OutputMode {
        default_output_mode(&self.model)
    }

    fn check_schema(schema: &Value) -> Result<(), String> {
        schema::strict(schema).map(drop)
    }
}

fn default_output_mode(model: &str) -> OutputMode {
    let older = WITHOUT_SCHEMA.iter().any(|prefix| model.starts_with(prefix));
    match model.starts_with("claude-") && !older {
        true => OutputMode::Native,
        false => OutputMode::Tool,
    }
}
