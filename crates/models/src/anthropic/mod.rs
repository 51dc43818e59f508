//! The Anthropic Messages wire format, spoken by Anthropic and by the servers that imitate it.
//!
//! - Thinking goes back unchanged and in place to the model it came from: its signature is bound to that model. Blocks
//!   that the service runs or keeps itself (server tools and their results, compactions, citations) go back to any
//!   model of this format.
//! - Fields without a setting go through [`ModelSettings::extra`](agentflow_core::model::ModelSettings::extra):
//!   `thinking`, `service_tier`, `output_config`, or `cache_control` as `{"type": "ephemeral"}`, which has the whole
//!   prompt cached, where [`ModelSettings::prompt_cache`](agentflow_core::model::ModelSettings::prompt_cache) marks the tools
//!   and the instruction. `tools` given there, such as `{"type": "web_search_20250305", "name": "web_search"}`, are offered
//!   beside the agent's own.
//! - An answer that the service pauses ends with [`StopReason::PauseTurn`](agentflow_core::model::StopReason::PauseTurn); to
//!   continue, send the conversation with it again. An agent does so by itself, as a further step.

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

/// How the names of those models begin that do not take a schema for their answer.
const WITHOUT_SCHEMA: [&str; 7] = [
    "claude-2",
    "claude-3",
    "claude-instant",
    "claude-opus-4-0",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
];

/// A model reached by the Anthropic Messages wire format.
///
/// - Its server is at the address in the environment variable `ANTHROPIC_BASE_URL`, else at
///   `https://api.anthropic.com`; an address is written without `/v1`.
/// - Its key is `ANTHROPIC_API_KEY`, sent as `x-api-key`, and when there is none the token `ANTHROPIC_AUTH_TOKEN`, sent
///   as `Authorization: Bearer`.
/// - A typed answer is asked for with its schema ([`OutputMode::Native`]) from Claude models that take one (all since
///   Opus 4.1 and Sonnet 4.5), and as a tool call from older ones and those of other names.
/// - An answer has at most 16,384 tokens, and a `thinking` budget beside them, unless
///   [`ModelSettings::max_tokens`](agentflow_core::model::ModelSettings::max_tokens) is set: the format wants a limit in every
///   call.
/// - A seed is not sent, since the format has none.
/// - [`ToolChoice::Required`](agentflow_core::model::ToolChoice::Required) is sent as `auto` while `thinking` is on, since the
///   format does not allow both.
///
/// Cloning is one reference count. Dropping a call's stream closes its connection.
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
    /// Describes a model by the name that its server knows.
    pub fn builder(model: impl Into<Arc<str>>) -> HttpModelBuilder<Self> {
        HttpModelBuilder::new(model)
    }

    /// A model with the default address, and the default key or token from `secrets` before each call.
    ///
    /// # Errors
    /// When `ANTHROPIC_BASE_URL` is not an address.
    pub fn from_env(model: impl Into<Arc<str>>, secrets: Arc<dyn SecretProvider>) -> Result<Self, ModelError> {
        Self::builder(model).secrets(secrets).build()
    }
}

/// The format for one model at one server.
pub(crate) struct Messages {
    model: Arc<str>,
    /// Names everything that an encoded message depends on.
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
