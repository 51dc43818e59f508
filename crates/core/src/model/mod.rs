//! Chat models: the [`Model`] trait, its requests and its responses.
//!
//! A [`ModelRequest`] contains the conversation, the tools and the [`ModelSettings`]. A model
//! returns a [`ModelStream`] of [`ModelEvent`]s, whose last item is the complete [`ModelResponse`];
//! [`Model::call`] reads the stream to its end. A failed call returns a [`ModelError`].
//!
//! The trait and its data do no I/O and do not depend on wire formats. The adapters implement the
//! trait, each with its own cargo feature. `providers` contains the table of provider names, and a
//! [`ModelRef`] such as `openai/gpt-5-mini` selects a model.

mod http_settings;
pub(crate) mod linked_adapter;
pub(crate) mod model_codes;
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
#[doc(hidden)]
pub use self::linked_adapter::{ServerSettings, adapter_of};
pub(crate) use self::linked_adapter::{built_in, built_in_providers, problem_of_provider};
pub use self::model_error::{ModelError, ModelErrorKind, TimeoutKind};
pub use self::model_request::{ModelRequest, ModelSettings, PromptCache, ToolChoice};
#[doc(hidden)]
pub use self::model_server::ModelServer;
pub use self::output_schema::{OutputMode, OutputSchema};
pub use self::provider::ModelProvider;
#[doc(hidden)]
pub use self::providers::{full_name, named as provider_named};
pub(crate) use self::providers::{has_known_prefix, telemetry_name};
pub use self::reference::{ModelRef, ModelRefError};
pub(crate) use self::response::MAX_TOKENS;
pub use self::response::{ModelEvent, ModelResponse, StopReason, ToolCallDelta, Usage};
pub use self::secret::{EnvSecrets, Secret, SecretProvider};
pub use self::source::ModelSource;
use crate::future::Exclusive;

/// Stream of the events of a model call, in order. Dropping it closes its connection.
///
/// The type is `Send` and `Sync`, while the boxed stream only has to be `Send`.
///
/// ```
/// use agentflow::message::Message;
/// use agentflow::model::{ModelEvent, ModelResponse, ModelStream};
///
/// let response = ModelResponse::new(Message::assistant("Hello."));
/// let events = [Ok(ModelEvent::Text("Hello.".into())), Ok(ModelEvent::Completed(Box::new(response)))];
/// let stream = ModelStream::new(futures_util::stream::iter(events));
/// # drop(stream);
/// ```
#[must_use = "a stream does nothing unless it is read"]
pub struct ModelStream(Exclusive<BoxStream<'static, Result<ModelEvent, ModelError>>>);

impl ModelStream {
    /// Boxes a stream, such as a stream of `futures_util::stream`.
    pub fn new(
        stream: impl Stream<Item = Result<ModelEvent, ModelError>> + Send + 'static,
    ) -> Self {
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

/// A chat model. It receives a conversation with tools and settings, and answers with a stream.
///
/// Most programs name a model, as in `Agent::new("openai/gpt-5-mini")`, and do not use this trait.
/// Implement it for a proxy, for your own model, or for a provider that agentflow does not support.
/// Pass the model to an agent, or register it by name with
/// [`RuntimeBuilder::model_provider`](crate::runtime::RuntimeBuilder::model_provider). For tests,
/// `agentflow-testing` has a scripted model.
///
/// The stream ends with [`ModelEvent::Completed`] or with an error. A stream that ends without
/// either counts as truncated. The earlier events are only for display; the completed response is
/// the result.
///
/// ```
/// use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
/// use agentflow::prelude::*;
///
/// /// Repeats the last message.
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

    /// Starts a call. Nothing happens before the stream is first polled; dropping the stream ends
    /// the call.
    fn stream(&self, request: ModelRequest) -> ModelStream;

    /// Returns the method by which this model answers with a given schema, with or without
    /// other tools.
    ///
    /// # Errors
    /// A message that names the field, if the provider cannot express the schema. It is reported
    /// when the agent is built.
    fn output_mode(&self, schema: &OutputSchema, with_tools: bool) -> Result<OutputMode, String> {
        let _ = (schema, with_tools);
        Ok(OutputMode::Tool)
    }

    /// Makes a call and reads the stream to its end.
    ///
    /// # Errors
    /// The error of the stream, or [`ModelErrorKind::Truncated`] if it ends without a complete
    /// response.
    ///
    /// # Cancel safety
    /// Dropping the future ends the call.
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

/// Provider and name of a [`Model`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// Name of the wire format or provider, such as `openai-chat`.
    pub provider: Arc<str>,
    /// Name of the model at the provider.
    pub model: Arc<str>,
}

impl ModelInfo {
    /// Creates the info from the names of a provider and a model.
    pub fn new(provider: impl Into<Arc<str>>, model: impl Into<Arc<str>>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}
