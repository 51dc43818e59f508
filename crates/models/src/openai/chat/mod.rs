//! The OpenAI Chat Completions wire format, for OpenAI, llama.cpp, Ollama, vLLM, OpenRouter and
//! many others.
//!
//! The servers differ in these points:
//!
//! - The output limit is `max_completion_tokens` for OpenAI. All other servers receive
//!   `max_tokens`, which they all support.
//! - `reasoning_content` (DeepSeek, llama.cpp, Qwen) and `reasoning_details` (OpenRouter) are sent
//!   back unchanged to the model that created them, because DeepSeek and OpenRouter refuse or
//!   misinterpret a tool loop without them. Reasoning that is only readable (`reasoning`, Mistral's
//!   thinking) is reported but not sent back.
//! - `extra_content` of a call (Gemini's thought signatures) is sent back with the call to the
//!   model that created it.

mod decode;
mod encode;
#[cfg(test)]
mod shapes;
mod wire;

use std::sync::Arc;

use agentflow_core::model::{ModelError, ModelRequest, OutputMode, SecretProvider};
use reqwest::Url;
use serde_json::Value;

use self::decode::ChatDecoder;
use super::error_body;
use super::output_mode::output_mode;
use super::strict_schema::strict;
use crate::http::{HttpAdapter, HttpModelBuilder, Refusal, Server, WireFormat, http_model};
use agentflow_core::__private::adapters::OPENAI_CHAT as PROVIDER;
use agentflow_core::__private::adapters::Provider;

/// A model that is accessed with the Chat Completions wire format.
///
/// - Server: the URL in the environment variable `OPENAI_BASE_URL`, by default
///   `https://api.openai.com/v1`. Most URLs end with `/v1`.
/// - Key: `OPENAI_API_KEY`, sent as `Authorization: Bearer`.
/// - Typed answers: a strict `response_format` ([`OutputMode::Native`]). Exception: if the request
///   has tools and the server is not OpenAI's or Azure's, the model returns the answer as a tool
///   call, because many of these servers prevent tool calls while a schema applies.
///
/// Cloning only increments a reference count. Dropping the stream of a call closes its connection.
///
/// # Compatible servers
///
/// Many servers support this format. Some have a provider name, with a default URL, a key and a
/// variable for another URL:
///
/// - `deepseek/..` (`DEEPSEEK_API_KEY`, `DEEPSEEK_BASE_URL`)
/// - `ollama/..` (`http://127.0.0.1:11434/v1`, no key, `OLLAMA_BASE_URL`)
/// - `openrouter/..` (`OPENROUTER_API_KEY`, `OPENROUTER_BASE_URL`)
///
/// Use any other server, such as vLLM, llama.cpp, Groq or Mistral, as `openai-chat/..` with
/// `OPENAI_BASE_URL`, or with a builder:
///
/// ```
/// use agentflow::model::openai_chat::OpenAiChat;
///
/// let model = OpenAiChat::builder("qwen3-8b").base_url("http://127.0.0.1:8080/v1").api_key_name("QWEN_KEY").build()?;
/// # let _ = model;
/// # Ok::<(), agentflow::model::ModelError>(())
/// ```
#[derive(Clone)]
#[doc(alias = "OpenAIAdapter")]
#[doc(alias = "LocalAdapter")]
#[doc(alias = "LiteLlm")]
pub struct OpenAiChat(Arc<HttpAdapter<Chat>>);

http_model!(OpenAiChat, Chat);

impl OpenAiChat {
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
pub(crate) struct Chat {
    model: Arc<str>,
    /// Cache key of encoded messages: the provider, the model and `official`.
    name: String,
    /// `true` if the server is OpenAI's.
    official: bool,
    url: Url,
}

impl WireFormat for Chat {
    const PROVIDER: &'static Provider = &PROVIDER;

    type Decoder = ChatDecoder;

    fn new(model: &Arc<str>, server: &Server) -> Result<Self, ModelError> {
        Ok(Self {
            model: Arc::clone(model),
            name: format!(
                "{}/{model}{}",
                PROVIDER.name,
                if server.official { "/official" } else { "" }
            ),
            official: server.official,
            url: server.endpoint("chat/completions"),
        })
    }

    fn encode(&self, request: &ModelRequest) -> Result<(Url, Vec<u8>), ModelError> {
        Ok((self.url.clone(), encode::body(&self.model, &self.name, self.official, request)?))
    }

    fn decoder(&self, messages: usize) -> ChatDecoder {
        ChatDecoder::new(Arc::clone(&self.model), messages)
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

    use super::OpenAiChat;

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
        let error =
            OpenAiChat::builder("m").header("x-key", "sk-\n").build().expect_err("a line feed");
        assert!(!format!("{error} {error:?}").contains("sk-"), "{error:?}");
        let error = OpenAiChat::builder("m").header("x key", "v").build().expect_err("a space");
        assert!(error.message().contains("`x key`"), "{error}");
    }
}
