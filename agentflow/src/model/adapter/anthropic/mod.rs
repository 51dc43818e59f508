//! The Anthropic Messages wire format, spoken by Anthropic and by the servers that imitate it.
//!
//! - Thinking goes back unchanged and in place to the model it came from: its signature is bound to that model. Blocks
//!   that the service runs or keeps itself (server tools and their results, compactions, citations) go back to any model
//!   of this format.
//! - Fields that have no setting of their own go through [`ModelSettings::extra`](crate::ModelSettings::extra):
//!   `thinking`, `service_tier`, `output_config`, or `cache_control` as `{"type": "ephemeral"}`, which has the whole
//!   prompt cached. `tools` given there, such as `{"type": "web_search_20250305", "name": "web_search"}`, are offered
//!   beside the agent's own.
//! - An answer that the service pauses ends with [`StopReason::PauseTurn`](crate::StopReason::PauseTurn); to go on, send
//!   the conversation with it again. An agent does so by itself, as a further step.

mod blocks;
mod decode;
mod encode;
mod error_body;
mod message;
mod schema;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::sync::Arc;

use reqwest::Url;

use self::decode::MessagesDecoder;
use super::http::{HttpSettings, Outgoing, Provider, Refusal, Server, ServerBuilder, WireFormat, exchange};
use crate::model::{
    Model, ModelError, ModelInfo, ModelRequest, ModelStream, OutputMode, OutputSchema, Secret, SecretProvider,
};

pub(crate) const PROVIDER: &str = "anthropic";

pub(in crate::model) static SERVER: Provider = Provider {
    base_url: "https://api.anthropic.com",
    base_url_variable: "ANTHROPIC_BASE_URL",
    key_names: &["ANTHROPIC_API_KEY"],
    key_header: Some("x-api-key"),
    token_names: &["ANTHROPIC_AUTH_TOKEN"],
    headers: &[("anthropic-version", "2023-06-01")],
};

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
/// An answer has at most 16,384 tokens, and a `thinking` budget beside them, unless
/// [`ModelSettings::max_tokens`](crate::ModelSettings::max_tokens) says otherwise: the format wants a limit in every
/// call. A seed is not sent, since the format knows none. Tools cannot be demanded while `thinking` is on, so a demand
/// for any tool is sent as a wish.
///
/// Cloning is one reference count. Dropping a call's stream closes its connection.
///
/// ```
/// use agentflow::anthropic::Anthropic;
///
/// let model = Anthropic::builder("claude-sonnet-4-5").build()?;
/// # let _ = model;
/// # Ok::<(), agentflow::ModelError>(())
/// ```
#[derive(Clone)]
pub struct Anthropic {
    wire: Arc<Messages>,
}

/// What one model's calls have in common.
struct Messages {
    info: ModelInfo,
    /// Names everything that an encoded message depends on.
    format: String,
    server: Server,
    url: Url,
    output_mode: OutputMode,
}

impl Anthropic {
    /// A model by the name its server knows it by.
    pub fn builder(model: impl Into<Arc<str>>) -> AnthropicBuilder {
        AnthropicBuilder { model: model.into(), server: ServerBuilder::new(&SERVER), output_mode: None }
    }

    /// A model with everything else taken from the environment: the address from `ANTHROPIC_BASE_URL`, the key
    /// `ANTHROPIC_API_KEY`, or else the token `ANTHROPIC_AUTH_TOKEN`, from `secrets` before each call.
    ///
    /// # Errors
    /// When `ANTHROPIC_BASE_URL` is no address.
    pub fn from_env(model: impl Into<Arc<str>>, secrets: Arc<dyn SecretProvider>) -> Result<Self, ModelError> {
        Self::builder(model).secrets(secrets).build()
    }
}

impl Model for Anthropic {
    fn info(&self) -> &ModelInfo {
        &self.wire.info
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        exchange(Arc::clone(&self.wire), request)
    }

    fn output_mode(&self, schema: &OutputSchema, _: bool) -> Result<OutputMode, String> {
        if self.wire.output_mode == OutputMode::Native {
            schema::strict(&schema.schema)?;
        }
        Ok(self.wire.output_mode)
    }
}

/// Shows neither keys nor the values of headers.
impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Messages { info, server: Server { url, headers, http, .. }, .. } = &*self.wire;
        f.debug_struct("Anthropic")
            .field("model", &info.model)
            .field("host", &url.host_str())
            .field("headers", &headers.keys())
            .field("http", http)
            .finish_non_exhaustive()
    }
}

impl WireFormat for Messages {
    type Decoder = MessagesDecoder;

    fn settings(&self) -> &HttpSettings {
        &self.server.http
    }

    async fn prepare(&self, request: ModelRequest) -> Result<(Outgoing, MessagesDecoder), ModelError> {
        let (headers, hidden) = self.server.headers().await?;
        let body = encode::body(&self.info.model, &self.format, &request)?;
        let outgoing = Outgoing { url: self.url.clone(), headers, body: body.into(), stream: request.stream, hidden };
        Ok((outgoing, MessagesDecoder::new(Arc::clone(&self.info.model))))
    }

    fn refused(&self, refusal: &Refusal<'_>) -> ModelError {
        error_body::refused(refusal)
    }
}

/// Describes an [`Anthropic`].
#[must_use]
pub struct AnthropicBuilder {
    model: Arc<str>,
    server: ServerBuilder,
    output_mode: Option<OutputMode>,
}

impl AnthropicBuilder {
    /// The server's address as Anthropic's own clients take it: without `/v1`. Default: the environment variable
    /// `ANTHROPIC_BASE_URL`, else `https://api.anthropic.com`. A query is kept.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.server.base_url = Some(url.into());
        self
    }

    /// The key to send as `x-api-key`. Default: asked for by name before each call.
    pub fn api_key(mut self, key: Secret) -> Self {
        self.server.key = Some(key);
        self
    }

    /// The name by which the key is asked for. Default `ANTHROPIC_API_KEY`, and when there is none of that name
    /// `ANTHROPIC_AUTH_TOKEN`, which is sent as `Authorization: Bearer`. A server other than Anthropic's is called
    /// without a key when there is none.
    pub fn api_key_name(mut self, name: impl Into<String>) -> Self {
        self.server.key_name = Some(name.into());
        self
    }

    /// Where the key is asked for. Default: the environment.
    pub fn secrets(mut self, secrets: Arc<dyn SecretProvider>) -> Self {
        self.server.secrets = secrets;
        self
    }

    /// Sends a header with every call, such as `anthropic-beta`. It replaces one of ours of the same name; an
    /// `Authorization` given here is sent in place of the key. Values are never shown.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.server.headers.push((name.into(), value.into()));
        self
    }

    /// How the model is brought to answer in a given shape. Default: [`OutputMode::Native`] for Claude models that take
    /// a schema (all since Opus 4.1 and Sonnet 4.5), [`OutputMode::Tool`] for older ones and for all other names.
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
    /// When the base URL is no `http` or `https` address, or a header cannot be sent.
    pub fn build(self) -> Result<Anthropic, ModelError> {
        let Self { model, server, output_mode } = self;
        let server = server.build()?;
        let url = server.endpoint("v1/messages");
        let output_mode = output_mode.unwrap_or_else(|| default_output_mode(&model));
        let format = format!("{PROVIDER}/{model}");
        let info = ModelInfo::new(PROVIDER, model);
        Ok(Anthropic { wire: Arc::new(Messages { info, format, server, url, output_mode }) })
    }
}

/// Shows neither keys nor the values of headers, nor the address, which may hold a key.
impl fmt::Debug for AnthropicBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicBuilder")
            .field("model", &self.model)
            .field("http", &self.server.http)
            .finish_non_exhaustive()
    }
}

fn default_output_mode(model: &str) -> OutputMode {
    let older = WITHOUT_SCHEMA.iter().any(|prefix| model.starts_with(prefix));
    match model.starts_with("claude-") && !older {
        true => OutputMode::Native,
        false => OutputMode::Tool,
    }
}
