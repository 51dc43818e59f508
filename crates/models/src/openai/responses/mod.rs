//! The OpenAI Responses wire format, for OpenAI, Azure, llama.cpp, vLLM and others.
//!
//! The provider stores nothing: each call sends the whole conversation with `store: false` and
//! requests encrypted reasoning.
//!
//! - Reasoning is sent back, unchanged and at its position, to the model that created it. The same
//!   applies to items of unknown type, such as the provider's web search. Add such tools with
//!   `ModelSettings::extra("tools", [..])`.
//! - The arguments of a custom tool are free text. Its result is sent as the result of a custom
//!   tool.
//! - The format supports neither stop sequences nor a seed.

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

/// A model that is accessed with the Responses wire format.
///
/// - Server: the URL in the environment variable `OPENAI_BASE_URL`, by default
///   `https://api.openai.com/v1`. Most URLs end with `/v1`.
/// - Key: `OPENAI_API_KEY`, sent as `Authorization: Bearer`.
/// - Typed answers: a strict `text.format` ([`OutputMode::Native`]). Exception: if the request has
///   tools and the server is not OpenAI's or Azure's, the model returns the answer as a tool call,
///   because many of these servers prevent tool calls while a schema applies.
///
/// Cloning only increments a reference count. Dropping the stream of a call closes its connection.
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
    /// Returns a builder for a model with the name that its server uses.
    pub fn builder(model: impl Into<Arc<str>>) -> HttpModelBuilder<Self> {
        HttpModelBuilder::new(model)
    }

    /// Creates a model with the default URL. Before each call, the default key is requested from
    /// `secrets`.
    ///
    /// # Errors
    /// Returns an error if `OPENAI_BASE_URL` is not a valid URL.
    pub fn from_env(
        model: impl Into<Arc<str>>,
        secrets: Arc<dyn SecretProvider>,
    ) -> Result<Self, ModelError> {
        Self::builder(model).secrets(secrets).build()
    }
}

/// The wire format for one model at one server.
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
        Ok(Self {
            format: Format { name, model: Arc::clone(model), official },
            url: server.endpoint("responses"),
        })
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
        let shown = format!(
            "{builder:?} {:?}",
            OpenAiResponses::builder("m").api_key(Secret::new("sk-three"))
        );
        assert!(!shown.contains("sk-"), "{shown}");
        let shown = format!("{:?}", builder.build().expect("usable"));
        for secret in ["sk-", "pass-word", "in-query"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("x-key"), "{shown}");
    }
}
