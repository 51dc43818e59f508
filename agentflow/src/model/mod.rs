//! Chat models: the [`Model`] trait, what is sent and what comes back.
//!
//! Streaming is the primitive; [`Model::call`] is a stream that is read to its end. This module does no I/O: the
//! adapters beside it do, each behind its own cargo feature.

mod adapter;
mod error;
mod output;
mod provider;
mod reference;
mod secret;

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use serde::{Deserialize, Serialize};

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
pub use self::secret::{EnvSecrets, Secret, SecretProvider};
use crate::message::{Conversation, Message, ToolCall};
use crate::tool_definition::ToolManifest;

/// What a [`Model`] yields, in order. The stream drops its connection when it is dropped.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// A boxed future, as returned by [`Model::call`].
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A chat model.
///
/// Implement it for a stand-in, a proxy or a provider that agentflow does not know. The stream must end with
/// [`ModelEvent::Completed`] or with an error; one that just stops counts as truncated.
pub trait Model: Send + Sync {
    /// The provider and the model's name, for events and error messages.
    fn info(&self) -> &ModelInfo;

    /// Starts one call. Nothing happens before the stream is first polled; dropping it ends the call.
    fn stream(&self, request: ModelRequest) -> ModelStream;

    /// How this model is brought to answer in a given shape, with or without tools beside it.
    ///
    /// # Errors
    /// What in the schema the provider cannot express, naming the field; found when the agent is built.
    fn output_mode(&self, schema: &OutputSchema, with_tools: bool) -> Result<OutputMode, String> {
        let _ = (schema, with_tools);
        Ok(OutputMode::Tool)
    }

    /// One call, read to its end.
    ///
    /// # Errors
    /// Whatever the stream reports, or [`ModelErrorKind::Truncated`] when it stops without saying so.
    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let mut stream = self.stream(request);
            while let Some(event) = stream.next().await {
                if let ModelEvent::Completed(response) = event? {
                    return Ok(*response);
                }
            }
            Err(ModelError::truncated())
        })
    }
}

/// Who a [`Model`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// What one call sends. Cloning is cheap: every field is shared.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The conversation so far, instructions first.
    pub messages: Conversation,
    /// The tools the model may ask for, by name.
    pub tools: ToolManifest,
    /// The shape the answer must have; only set for a model whose mode is [`OutputMode::Native`].
    pub output: Option<Arc<OutputSchema>>,
    /// Temperature and the like.
    pub settings: Arc<ModelSettings>,
    /// Whether pieces are wanted as they come. Without it an adapter may wait for the whole answer.
    pub stream: bool,
    /// Whether the caller retries a failed call by itself, as a durable run does. An adapter then makes no retries of its
    /// own, so that the two do not multiply.
    pub retried_by_caller: bool,
}

impl ModelRequest {
    /// A request without tools, with default settings, not streamed.
    pub fn new(messages: impl Into<Conversation>) -> Self {
        Self {
            messages: messages.into(),
            tools: ToolManifest::default(),
            output: None,
            settings: Arc::default(),
            stream: false,
            retried_by_caller: false,
        }
    }

    /// Offers tools.
    #[must_use]
    pub fn tools(mut self, tools: impl Into<ToolManifest>) -> Self {
        self.tools = tools.into();
        self
    }

    /// Sets temperature and the like.
    #[must_use]
    pub fn settings(mut self, settings: impl Into<Arc<ModelSettings>>) -> Self {
        self.settings = settings.into();
        self
    }

    /// Asks for the pieces as they come.
    #[must_use]
    pub fn streamed(mut self) -> Self {
        self.stream = true;
        self
    }
}

/// Settings of a call. What is `None` is left to the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ModelSettings {
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The most tokens to generate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// A seed, where the provider knows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts at which generation stops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Whether and which tool the model must call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Further fields, put into the provider's request object as they are.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    #[doc(alias = "generate_content_config")]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl ModelSettings {
    /// Sets the sampling temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Sets nucleus sampling.
    #[must_use]
    pub fn top_p(mut self, top_p: f64) -> Self {
        self.top_p = Some(top_p);
        self
    }

    /// Sets the most tokens to generate.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: i64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds a text at which generation stops.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Sets whether and which tool the model must call.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// Adds a field that is put into the provider's request object as it is.
    #[must_use]
    pub fn extra(mut self, field: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.extra.insert(field.into(), value.into());
        self
    }
}

/// Whether and which tool the model must call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No tool.
    None,
    /// Some tool.
    Required,
    /// The tool of this name.
    Tool(String),
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More readable reasoning.
    Reasoning(String),
    /// More of a tool call.
    ToolCall(ToolCallDelta),
    /// The whole answer; always the last item.
    Completed(Box<ModelResponse>),
}

/// More of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallDelta {
    /// Which call of this answer, from 0.
    pub index: usize,
    /// The call's id, when it became known with this piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name, when it became known with this piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// More of the arguments' JSON text.
    pub arguments: String,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelResponse {
    /// What the model said and asked for.
    pub message: Arc<Message>,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// What it cost in tokens.
    pub usage: Usage,
    /// The model that answered, as the provider names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The provider's id of the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The middleware that answered in the model's place, such as `cache`; no model was called for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Arc<str>>,
}

impl ModelResponse {
    /// An answer that ended as it should: with [`StopReason::ToolCalls`] when the message asks for tools, else with
    /// [`StopReason::Stop`].
    pub fn new(message: impl Into<Arc<Message>>) -> Self {
        let message = message.into();
        let stop_reason = if message.tool_calls().next().is_some() { StopReason::ToolCalls } else { StopReason::Stop };
        Self {
            message,
            stop_reason,
            usage: Usage::default(),
            model: String::new(),
            id: String::new(),
            answered_by: None,
        }
    }

    /// The text of the message.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        self.message.text()
    }

    /// The tool calls of the message.
    pub fn tool_calls(&self) -> impl Iterator<Item = &Arc<ToolCall>> {
        self.message.tool_calls()
    }
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// It was done.
    Stop,
    /// It wants tools called.
    ToolCalls,
    /// It reached the token limit.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
    /// The model declined.
    Refusal,
    /// The provider paused in the middle of a long turn: it goes on when it is sent the conversation with this answer at
    /// its end. An agent does so.
    PauseTurn,
    /// A reason that has no name here, as the provider wrote it.
    Other(String),
}

impl StopReason {
    /// The name used in events and by the command line, such as `tool_calls`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::PauseTurn => "pause_turn",
            Self::Other(reason) => reason,
        }
    }
}

/// The most tokens that a call is taken to have read or written. No model reaches a billion; a server that says more says
/// nothing, and must not make sums overflow.
#[cfg_attr(not(any(feature = "http", feature = "metrics")), allow(dead_code, reason = "nobody counts"))]
pub(crate) const MAX_TOKENS: u64 = 1_000_000_000;

/// Tokens, counted alike for every provider: cached tokens are part of the input, reasoning is part of the output.
///
/// What a server says is not taken at its word: the adapters of agentflow read a count of more than a billion as one
/// billion. Sums never overflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// All tokens read, cached ones included.
    pub input_tokens: u64,
    /// All tokens written, reasoning included.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache, when it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens written to the provider's cache, when it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Tokens spent on reasoning, when the provider says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// The provider's own object, unchanged; `None` also when it is larger than 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<Box<serde_json::Value>>,
}

impl Usage {
    /// Counts of input and output tokens and nothing else.
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, ..Self::default() }
    }

    /// All tokens, read and written; `u64::MAX` when there are more.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds another call's counts, each up to `u64::MAX`; the raw object of a sum is `None`.
    pub fn add(&mut self, other: &Self) {
        fn sum(a: &mut Option<u64>, b: Option<u64>) {
            if let Some(b) = b {
                *a = Some(a.unwrap_or(0).saturating_add(b));
            }
        }
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        sum(&mut self.cached_tokens, other.cached_tokens);
        sum(&mut self.cache_write_tokens, other.cache_write_tokens);
        sum(&mut self.reasoning_tokens, other.reasoning_tokens);
        self.raw = None;
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
