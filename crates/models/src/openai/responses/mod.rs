//! The OpenAI Responses wire format, spoken by OpenAI, Azure, llama.cpp, vLLM and others.
//!
//! Nothing is stored at the provider: each call sends the whole conversation with `store: false` and asks for reasoning
//! in its encrypted form. What matters here beside that:
//! - Reasoning goes back unchanged and in place to the model it came from. So do items that mean nothing here, such as
//!   a web search of the provider's own; their tools are added by `ModelSettings::extra("tools", [..])`.
//! - A custom tool's call has free text for arguments; its result goes back as a custom tool's.
//! - The format has neither stop texts nor a seed.

mod decode;
mod encode;
mod items;
mod wire;

use std::sync::Arc;

use agentflow_core::model::{ModelError, ModelRequest, OutputMode, SecretProvider};
use reqwest::Url;
use serde_json::Value;

use self::decode::ResponsesDecoder;
use self::encode::Format;
use super::error_body;
use super::output_mode::output_mode;
use super::strict_schema::strict;
use crate::http::{HttpAdapter, HttpModelBuilder, Refusal, Server, WireFormat, http_model};
use agentflow_core::__private::adapters::OPENAI_RESPONSES as PROVIDER;
use agentflow_core::__private::adapters::Provider;

/// A model reached by the Responses wire format.
///
/// - Its server is at the address in the environment variable `OPENAI_BASE_URL`, else at `https://api.openai.com/v1`;
///   an address mostly ends with `/v1`.
/// - Its key is `OPENAI_API_KEY`, sent as `Authorization: Bearer`.
/// - A typed answer is asked for as a strict `text.format` ([`OutputMode::Native`]); beside tools on a server other
///   than OpenAI's and Azure's as a tool call, since many then let the model call no tool.
///
/// Cloning is one reference count. Dropping a call's stream closes its connection.
///
/// ```
/// use agentflow::model::openai_responses::OpenAiResponses;
///
/// let model = OpenAiResponses::builder("gpt-5-mini").base_url("http://127.0.0.1:8080/v1").build()?;
/// # let _ = model;
/// # Ok::<(), agentflow::model::ModelError>(())
/// ```
#[derive(Clone)]
pub struct OpenAiResponses(Arc<HttpAdapter<Responses>>);

http_model!(OpenAiResponses, Responses);

impl OpenAiResponses {
    /// Describes a model by the name that its server knows.
    pub fn builder(model: impl Into<Arc<str>>) -> HttpModelBuilder<Self> {
        HttpModelBuilder::new(model)
    }

    /// A model with the default address, and the default key from `secrets` before each call.
    ///
    /// # Errors
    /// When `OPENAI_BASE_URL` is not an address.
    pub fn from_env(model: impl Into<Arc<str>>, secrets: Arc<dyn SecretProvider>) -> Result<Self, ModelError> {
        Self::builder(model).secrets(secrets).build()
    }
}

/// The format for one model at one server.
pub(crate) struct Responses {
    format: Format,
    url: Url,
}

impl WireFormat for Responses {
    const PROVIDER: &'static Provider = &PROVIDER;

    type Decoder = ResponsesDecoder;

    fn new(model: &Arc<str>, server: &Server) -> Result<Self, ModelError> {
        let official = server.official;
        let name = format!("{}/{model}{}", PROVIDER.name, if official { "/official" } else { "" });
        Ok(Self { format: Format { name, model: Arc::clone(model), official }, url: server.endpoint("responses") })
    }

    fn encode(&self, request: &ModelRequest) -> Result<(Url, Vec<u8>), ModelError> {
        Ok((self.url.clone(), encode::body(&self.format, request)?))
    }

    fn decoder(&self, messages: usize) -> ResponsesDecoder {
        ResponsesDecoder::new(Arc::clone(&self.format.model), messages)
    }

    fn refused(refusal: &Refusal<'_>) -> ModelError {
        error_body::refused(refusal)
    }

    fn output_mode(&self, server: &Server, with_tools: bool) -> OutputMode {
        output_mode(server, with_tools)
    }

    fn check_schema(schema: &Value) -> Result<(), String> {
        strict(schema).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use agentflow_core::model::Secret;

    use super::OpenAiResponses;

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
