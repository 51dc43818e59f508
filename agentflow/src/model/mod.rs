//! Chat models: the [`Model`] trait, its requests and its answers.
//!
//! Streaming is the primitive; [`Model::call`] is a stream that is read to its end. The trait and its data do no I/O and
//! know no provider: `adapter` does, each provider behind its own cargo feature.

mod adapter;
mod error;
mod output;
mod provider;
mod reference;
mod request;
mod response;
mod secret;

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{Stream, StreamExt};

#[cfg(feature = "anthropic")]
pub use self::adapter::anthropic;
#[cfg(feature = "gemini")]
pub use self::adapter::gemini;
#[cfg(feature = "http")]
pub use self::adapter::http::HttpSettings;
#[cfg(feature = "openai-chat")]
pub use self::adapter::openai::chat as openai_chat;
#[cfg(feature = "openai-responses")]
pub use self::adapter::openai::responses as openai_responses;
pub use self::error::{ModelError, ModelErrorKind, TimeoutKind};
pub use self::output::{OutputMode, OutputSchema};
pub use self::provider::ModelProvider;
pub(crate) use self::provider::built_in_providers;
pub(crate) use self::reference::says_provider;
pub use self::reference::{ModelRef, ModelRefError};
pub use self::request::{ModelRequest, ModelSettings, ToolChoice};
#[cfg_attr(not(any(feature = "http", feature = "metrics")), allow(unused_imports, reason = "nothing counts"))]
pub(crate) use self::response::MAX_TOKENS;
pub use self::response::{ModelEvent, ModelResponse, StopReason, ToolCallDelta, Usage};
pub use self::secret::{EnvSecrets, Secret, SecretProvider};

/// What a [`Model`] yields, in order. The stream drops its connection when it is dropped.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A chat model.
///
/// Implement it for a stand-in, a proxy or a provider that agentflow does not know. The stream must end with
/// [`ModelEvent::Completed`] or with an error; one that ends without either counts as truncated.
#[async_trait]
pub trait Model: Send + Sync {
    /// The provider and the model's name, for events and error messages.
    fn info(&self) -> &ModelInfo;

    /// Starts one call. Nothing happens before the stream is first polled; dropping it ends the call.
    fn stream(&self, request: ModelRequest) -> ModelStream;

    /// How this model is brought to answer in a given shape, with or without tools beside it.
    ///
    /// # Errors
    /// What in the schema the provider cannot express, naming the field; reported when the agent is built.
    fn output_mode(&self, schema: &OutputSchema, with_tools: bool) -> Result<OutputMode, String> {
        let _ = (schema, with_tools);
        Ok(OutputMode::Tool)
    }

    /// One call, read to its end.
    ///
    /// # Errors
    /// The error of the stream, or [`ModelErrorKind::Truncated`] when it ends without the whole answer.
    async fn call(&self, request: ModelRequest) -> Result<ModelResponse, ModelError> {
        let mut stream = self.stream(request);
        while let Some(event) = stream.next().await {
            if let ModelEvent::Completed(response) = event? {
                return Ok(*response);
            }
        }
        Err(ModelError::truncated())
    }
}

/// The provider and the name of a [`Model`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The wire format or maker, such as `openai-chat`.
    pub provider: Arc<str>,
    /// The model's name as the provider knows it.
    pub model: Arc<str>,
}

impl ModelInfo {
    /// Names a provider and a model.
    pub fn new(provider: impl Into<Arc<str>>, model: impl Into<Arc<str>>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

/// The adapters of this build, by the name in a [`ModelRef`].
const ADAPTERS: &[&str] = &[
    #[cfg(feature = "anthropic")]
    anthropic::PROVIDER,
    #[cfg(feature = "gemini")]
    gemini::PROVIDER,
    #[cfg(feature = "openai-chat")]
    openai_chat::PROVIDER,
    #[cfg(feature = "openai-responses")]
    openai_responses::PROVIDER,
];

/// The adapter for a provider that agentflow knows, by the name in a [`ModelRef`].
#[allow(unused_variables, reason = "a build may have no adapter")]
pub(crate) fn built_in(model: &ModelRef, secrets: &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, String> {
    match model.provider() {
        #[cfg(feature = "anthropic")]
        anthropic::PROVIDER => shared(anthropic::Anthropic::from_env(model.model(), Arc::clone(secrets))),
        #[cfg(feature = "gemini")]
        gemini::PROVIDER => shared(gemini::Gemini::from_env(model.model(), Arc::clone(secrets))),
        #[cfg(feature = "openai-chat")]
        openai_chat::PROVIDER => shared(openai_chat::OpenAiChat::from_env(model.model(), Arc::clone(secrets))),
        #[cfg(feature = "openai-responses")]
        openai_responses::PROVIDER => {
            shared(openai_responses::OpenAiResponses::from_env(model.model(), Arc::clone(secrets)))
        }
        feature if ["anthropic", "gemini", "openai-chat", "openai-responses"].contains(&feature) => {
            Err(format!("the adapter `{feature}` is not in this build; switch on the cargo feature `{feature}`"))
        }
        provider => {
            let there = match ADAPTERS {
                [] => "is none in this build (see the cargo features)".to_owned(),
                [one] => format!("is `{one}`"),
                all => format!("are `{}`", all.join("`, `")),
            };
            Err(format!(
                "no adapter is called `{provider}`; there {there}; a host adds its own with \
                 `Runtime::builder().model_provider(..)`"
            ))
        }
    }
}

#[cfg(feature = "http")]
#[allow(dead_code, reason = "a build may have no adapter")]
fn shared(model: Result<impl Model + 'static, ModelError>) -> Result<Arc<dyn Model>, String> {
    model.map(|model| Arc::new(model) as Arc<dyn Model>).map_err(|error| error.message().to_owned())
}
