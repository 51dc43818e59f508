//! The OpenAI Chat Completions wire format, spoken by OpenAI, llama.cpp, Ollama, vLLM, OpenRouter and many others.
//!
//! What differs between them and matters here:
//! - OpenAI limits an answer by `max_completion_tokens`; every other server is sent `max_tokens`, which all of them
//!   know.
//! - `reasoning_content` (DeepSeek, llama.cpp, Qwen) and `reasoning_details` (OpenRouter) go back as they came to the
//!   model they came from, since DeepSeek and OpenRouter refuse or misread a tool loop without them. Reasoning that has
//!   only a readable form (`reasoning`, Mistral's thinking) is shown and not sent back.
//! - A call's `extra_content` (Gemini's thought signatures) goes back with the call to the model it came from.

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

/// A model reached by the Chat Completions wire format.
///
/// - Its server is at the address in the environment variable `OPENAI_BASE_URL`, else at `https://api.openai.com/v1`;
///   an address mostly ends with `/v1`.
/// - Its key is `OPENAI_API_KEY`, sent as `Authorization: Bearer`.
/// - A typed answer is asked for as a strict `response_format` ([`OutputMode::Native`]); beside tools on a server other
///   than OpenAI's and Azure's as a tool call, since many then let the model call no tool.
///
/// Cloning is one reference count. Dropping a call's stream closes its connection.
///
/// # Compatible servers
///
/// Many servers speak this format. Some are known by name, each with its address, its key and a variable for another
/// address: `deepseek/..` (`DEEPSEEK_API_KEY`, `DEEPSEEK_BASE_URL`), `ollama/..` (`http://127.0.0.1:11434/v1`, no key,
/// `OLLAMA_BASE_URL`) and `openrouter/..` (`OPENROUTER_API_KEY`, `OPENROUTER_BASE_URL`). Any other one, such as vLLM,
/// llama.cpp, Groq or Mistral, is used as `openai-chat/..` with `OPENAI_BASE_URL`, or with a builder:
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
pub(crate) struct Chat {
    model: Arc<str>,
    /// Names everything that an encoded message depends on.
    name: String,
    /// Whether the server is OpenAI itself.
    official: bool,
    url: Url,
}

impl WireFormat for Chat {
    const PROVIDER: &'static Provider = &PROVIDER;

    type Decoder = ChatDecoder;

    fn new(model: &Arc<str>, server: &Server) -> Result<Self, ModelError> {
        Ok(Self {
            model: Arc::clone(model),
            name: format!("{}/{model}{}", PROVIDER.name, if server.official { "/official" } else { "" }),
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
        let error = OpenAiChat::builder("m").header("x-key", "sk-\n").build().expect_err("a line feed");
        assert!(!format!("{error} {error:?}").contains("sk-"), "{error:?}");
        let error = OpenAiChat::builder("m").header("x key", "v").build().expect_err("a space");
        assert!(error.message().contains("`x key`"), "{error}");
    }
}
