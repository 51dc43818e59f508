//! The OpenAI Responses wire format, spoken by OpenAI, Azure, llama.cpp, vLLM and others.
//!
//! Nothing is stored at the provider: each call sends the whole conversation with `store: false` and asks for reasoning
//! in its encrypted form. What matters here beside that:
//! - Reasoning goes back unchanged and in place to the model it came from. So do items that mean nothing here, such as
//!   a web search of the provider's own; their tools are added by `ModelSettings::extra("tools", [..])`.
//! - A custom tool's call has free text for arguments; its result goes back as a custom tool's.
//! - There are no stop texts and no seed.

mod decode;
mod encode;
mod items;
mod wire;

use std::fmt;
use std::sync::Arc;

use reqwest::Url;

use self::decode::ResponsesDecoder;
use self::encode::Format;
use super::error_body;
use super::server::{OPENAI, output_mode};
use super::strict_schema::strict;
use crate::model::adapter::http::{HttpSettings, Outgoing, Refusal, Server, ServerBuilder, WireFormat, exchange};
use crate::model::{
    Model, ModelError, ModelInfo, ModelRequest, ModelStream, OutputMode, OutputSchema, Secret, SecretProvider,
};

pub(crate) const PROVIDER: &str = "openai-responses";

/// A model reached by the Responses wire format.
///
/// Cloning is one reference count. Dropping a call's stream closes its connection.
///
/// ```
/// use agentflow::openai_responses::OpenAiResponses;
///
/// let model = OpenAiResponses::builder("gpt-5-mini").base_url("http://127.0.0.1:8080/v1").build()?;
/// # let _ = model;
/// # Ok::<(), agentflow::ModelError>(())
/// ```
#[derive(Clone)]
pub struct OpenAiResponses {
    wire: Arc<Responses>,
}

/// What one model's calls have in common.
struct Responses {
    info: ModelInfo,
    format: Format,
    server: Server,
    url: Url,
    output_mode: Option<OutputMode>,
}

impl OpenAiResponses {
    /// A model by the name its server knows it by.
    pub fn builder(model: impl Into<Arc<str>>) -> OpenAiResponsesBuilder {
        OpenAiResponsesBuilder { model: model.into(), server: ServerBuilder::new(&OPENAI), output_mode: None }
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

impl Model for OpenAiResponses {
    fn info(&self) -> &ModelInfo {
        &self.wire.info
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        exchange(Arc::clone(&self.wire), request)
    }

    /// The answer is asked for as a strict `text.format`; beside tools only where that is known to work, else as a tool
    /// call. [`OpenAiResponsesBuilder::output_mode`] decides otherwise.
    fn output_mode(&self, schema: &OutputSchema, with_tools: bool) -> Result<OutputMode, String> {
        let mode = self.wire.output_mode.unwrap_or_else(|| output_mode(&self.wire.server, with_tools));
        if mode == OutputMode::Native {
            strict(&schema.schema)?;
        }
        Ok(mode)
    }
}

/// Shows neither keys nor the values of headers.
impl fmt::Debug for OpenAiResponses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Responses { info, server: Server { url, headers, http, .. }, .. } = &*self.wire;
        f.debug_struct("OpenAiResponses")
            .field("model", &info.model)
            .field("host", &url.host_str())
            .field("headers", &headers.keys())
            .field("http", http)
            .finish_non_exhaustive()
    }
}

impl WireFormat for Responses {
    type Decoder = ResponsesDecoder;

    fn settings(&self) -> &HttpSettings {
        &self.server.http
    }

    async fn prepare(&self, request: ModelRequest) -> Result<(Outgoing, ResponsesDecoder), ModelError> {
        let (headers, hidden) = self.server.headers().await?;
        let body = encode::body(&self.format, &request)?;
        let url = self.url.clone();
        let outgoing = Outgoing { url, headers, body: body.into(), stream: request.stream, hidden };
        Ok((outgoing, ResponsesDecoder::new(Arc::clone(&self.info.model), request.messages.len())))
    }

    fn refused(&self, refusal: &Refusal<'_>) -> ModelError {
        error_body::refused(refusal)
    }
}

/// Describes an [`OpenAiResponses`].
#[must_use]
pub struct OpenAiResponsesBuilder {
    model: Arc<str>,
    server: ServerBuilder,
    output_mode: Option<OutputMode>,
}

impl OpenAiResponsesBuilder {
    /// The server's address as OpenAI's own clients take it, mostly with `/v1` at its end. Default: the environment
    /// variable `OPENAI_BASE_URL`, else `https://api.openai.com/v1`. A query (`?api-version=..`) is kept.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.server.base_url = Some(url.into());
        self
    }

    /// The key to send. Default: asked for by name before each call.
    pub fn api_key(mut self, key: Secret) -> Self {
        self.server.key = Some(key);
        self
    }

    /// The name by which the key is asked for. Default `OPENAI_API_KEY`. A server other than OpenAI's is called without
    /// a key when there is none of that name.
    pub fn api_key_name(mut self, name: impl Into<String>) -> Self {
        self.server.key_name = Some(name.into());
        self
    }

    /// Where the key is asked for. Default: the environment.
    pub fn secrets(mut self, secrets: Arc<dyn SecretProvider>) -> Self {
        self.server.secrets = secrets;
        self
    }

    /// Sends a header with every call, such as `OpenAI-Organization`. It replaces one of ours of the same name; an
    /// `Authorization` given here is sent in place of the key. Values are never shown.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.server.headers.push((name.into(), value.into()));
        self
    }

    /// Time-outs and retries.
    pub fn http(mut self, settings: HttpSettings) -> Self {
        self.server.http = settings;
        self
    }

    /// How a typed answer is asked for. Default: [`OutputMode::Native`], except beside tools on a server other than
    /// OpenAI's and Azure's, since many then let the model call no tool.
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.output_mode = Some(mode);
        self
    }

    /// The model. Nothing is sent yet.
    ///
    /// # Errors
    /// When the base URL is no `http` or `https` address, or a header cannot be sent.
    pub fn build(self) -> Result<OpenAiResponses, ModelError> {
        let Self { model, server, output_mode } = self;
        let server = server.build()?;
        let url = server.endpoint("responses");
        let info = ModelInfo::new(PROVIDER, Arc::clone(&model));
        let name = format!("{PROVIDER}/{model}{}", if server.official { "/official" } else { "" });
        let format = Format { name, model, official: server.official };
        Ok(OpenAiResponses { wire: Arc::new(Responses { info, format, server, url, output_mode }) })
    }
}

/// Shows neither keys nor the values of headers, nor the address, which may hold a key.
impl fmt::Debug for OpenAiResponsesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiResponsesBuilder")
            .field("model", &self.model)
            .field("http", &self.server.http)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::OpenAiResponses;
    use crate::model::Secret;

    #[test]
    fn nothing_secret_is_shown() {
        let builder = OpenAiResponses::builder("m")
            .base_url("http://user:pass-word@h/v1?key=in-query")
            .api_key(Secret::new("sk-one"))
            .header("x-key", "sk-two");
        let shown = format!("{builder:?} {:?}", OpenAiResponses::builder("m").api_key(Secret::new("sk-three")));
        assert!(!shown.contains("sk-"), "{shown}");
        let shown = format!("{:?}", builder.build().expect("usable"));
        for secret in ["sk-", "pass-word", "in-query"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("x-key"), "{shown}");
    }
}
