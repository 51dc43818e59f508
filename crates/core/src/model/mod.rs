//! Chat models: the [`Model`] trait, its requests and its answers.
//!
//! Streaming is the primitive; [`Model::call`] is a stream that is read to its end. The trait and its data do no I/O
//! and do not depend on wire formats: the adapters implement them, each behind its own cargo feature. `providers` has the names of providers.

mod http_settings;
pub(crate) mod linked_adapter;
mod model_error;
mod model_request;
mod model_server;
mod output_schema;
mod provider;
pub(crate) mod providers;
mod reference;
mod response;
mod secret;
mod source;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};

pub use self::http_settings::HttpSettings;
#[cfg(feature = "cli")]
pub(crate) use self::linked_adapter::{ServerSettings, adapter_of};
pub(crate) use self::linked_adapter::{built_in, built_in_providers, problem_of_provider};
pub use self::model_error::{ModelError, ModelErrorKind, TimeoutKind};
pub use self::model_request::{ModelRequest, ModelSettings, PromptCache, ToolChoice};
pub(crate) use self::model_server::ModelServer;
pub use self::output_schema::{OutputMode, OutputSchema};
pub use self::provider::ModelProvider;
pub(crate) use self::providers::{full_name, named as provider_named, says_provider, telemetry_name};
pub use self::reference::{ModelRef, ModelRefError};
pub(crate) use self::response::MAX_TOKENS;
pub use self::response::{ModelEvent, ModelResponse, StopReason, ToolCallDelta, Usage};
pub use self::secret::{EnvSecrets, Secret, SecretProvider};
pub use self::source::ModelSource;
use crate::future::Exclusive;

/// The items that a [`Model`] yields, in order. Dropping the stream drops its connection.
///
/// It is `Send` and `Sync`; the boxed stream only has to be `Send`.
#[must_use = "a stream does nothing unless it is read"]
pub struct ModelStream(Exclusive<BoxStream<'static, Result<ModelEvent, ModelError>>>);

impl ModelStream {
    /// Boxes a stream, such as one of `futures_util::stream`.
    pub fn new(stream: impl Stream<Item = Result<ModelEvent, ModelError>> + Send + 'static) -> Self {
        Self(Exclusive::new(Box::pin(stream)))
    }
}

impl Stream for ModelStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.get_mut().as_mut().poll_next(cx)
    }
}

impl fmt::Debug for ModelStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelStream").finish_non_exhaustive()
    }
}

/// A chat model: it is sent a conversation with tools and settings, and answers with a stream.
///
/// Most programs name one, as in `Agent::new("openai/gpt-5-mini")`, and never meet this trait. Implement it for a
/// proxy, a model of your own, or a provider that agentflow does not know; give it to an agent itself, or make it known
/// by name with [`RuntimeBuilder::model_provider`](crate::runtime::RuntimeBuilder::model_provider). For tests
/// `agentflow-testing` has a scripted one.
///
/// The stream ends with [`ModelEvent::Completed`] or with an error; one that ends without either counts as truncated.
/// Pieces before it are for those who watch; the completed response is what counts.
///
/// ```
/// use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
/// use agentflow::prelude::*;
///
/// /// Says back what it was told.
/// struct Echo(ModelInfo);
///
/// impl Model for Echo {
///     fn info(&self) -> &ModelInfo {
///         &self.0
///     }
///
///     fn stream(&self, request: ModelRequest) -> ModelStream {
///         let text = request.messages.last().map(|message| message.text().into_owned()).unwrap_or_default();
///         let response = ModelResponse::new(Message::assistant(text));
///         ModelStream::new(futures_util::stream::iter([Ok(ModelEvent::Completed(Box::new(response)))]))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let agent = Agent::new(Echo(ModelInfo::new("example", "echo")));
/// assert_eq!(agent.run("Hello").await?.output(), "Hello");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Model: Send + Sync {
    /// The provider and the model's name, for events and error messages.
    fn info(&self) -> &ModelInfo;

    /// Starts one call. Nothing happens before the stream is first polled; dropping it ends the call.
    fn stream(&self, request: ModelRequest) -> ModelStream;

    /// How this model is brought to answer in a given shape, with or without tools beside it.
    ///
    /// # Errors
    /// When the provider cannot express the schema; the text names the field, and is reported when the agent is built.
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
