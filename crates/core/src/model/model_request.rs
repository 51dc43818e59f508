//! [`ModelRequest`] and [`ModelSettings`]: the conversation, the tools and the settings of a model
//! call, independent of wire formats.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::OutputSchema;
use crate::message::Conversation;
use crate::tool_definition::ToolManifest;

/// The request of a model call. Cloning is cheap, since every field is shared.
///
/// ```
/// use agentflow::model::{ModelRequest, ModelSettings};
///
/// let request = ModelRequest::new("What is 2 + 3?").settings(ModelSettings::default().temperature(0.0));
/// assert_eq!(request.messages.len(), 1);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The conversation so far, starting with the instructions.
    pub messages: Conversation,
    /// The tools that the model may call, sorted by name.
    pub tools: ToolManifest,
    /// The schema of the answer. Only set for a model with the mode
    /// [`OutputMode::Native`](crate::model::OutputMode::Native).
    pub output: Option<Arc<OutputSchema>>,
    /// Settings, such as the temperature.
    pub settings: Arc<ModelSettings>,
    /// `true` to receive pieces of the answer as they arrive. Otherwise an adapter may wait for the
    /// whole response.
    pub stream: bool,
    /// `true` if the caller retries a failed call, as a durable run does. The adapter then does not
    /// retry, so that the numbers of retries do not multiply.
    pub retried_by_caller: bool,
}

impl ModelRequest {
    /// Creates a request without tools and streaming, with default settings.
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

    /// Sets the tools that the model may call.
    #[must_use]
    pub fn tools(mut self, tools: impl Into<ToolManifest>) -> Self {
        self.tools = tools.into();
        self
    }

    /// Sets the schema of the answer.
    #[must_use]
    pub fn output(mut self, schema: impl Into<Arc<OutputSchema>>) -> Self {
        self.output = Some(schema.into());
        self
    }

    /// Sets the settings, such as the temperature.
    #[must_use]
    pub fn settings(mut self, settings: impl Into<Arc<ModelSettings>>) -> Self {
        self.settings = settings.into();
        self
    }

    /// Requests pieces of the answer as they arrive.
    #[must_use]
    pub fn streamed(mut self) -> Self {
        self.stream = true;
        self
    }
}

/// Settings of a model call. For settings that are not set, the provider's defaults apply.
///
/// ```
/// use agentflow::model::ModelSettings;
///
/// let settings = ModelSettings::default().temperature(0.0).max_tokens(200).stop("END");
/// assert_eq!(settings.get_temperature(), Some(0.0));
/// assert_eq!(settings.get_seed(), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stop: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) extra: Map<String, Value>,
    /// Not serialized: the serialized settings identify an answer, and this setting only affects
    /// its price.
    #[serde(skip)]
    pub(crate) prompt_cache: Option<PromptCache>,
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

    /// Sets the maximum number of tokens to generate.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets the seed, for providers that support it.
    #[must_use]
    pub fn seed(mut self, seed: i64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds a stop sequence: a string at which generation stops.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Sets whether the model must call a tool, and which one.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// Enables the provider's prompt cache for the constant part of the prompt: the tools and the
    /// instruction. The next calls read it at a lower price. Disabled by default, since writing to
    /// the cache costs more than a normal call if no other call follows in time.
    ///
    /// Only the Anthropic format supports this setting, and only for prompts above a minimum length
    /// that depends on the model. The services of OpenAI and Gemini cache prompts automatically, so
    /// their formats send nothing. The setting does not change answers and is omitted from
    /// serialized settings: a cassette, a response cache and an agent's definition do not depend on
    /// it.
    #[must_use]
    #[doc(alias = "cache_control")]
    #[doc(alias = "context_cache_config")]
    pub fn prompt_cache(mut self, kept: PromptCache) -> Self {
        self.prompt_cache = Some(kept);
        self
    }

    /// Adds a field to the provider's request object.
    #[must_use]
    #[doc(alias = "generate_content_config")]
    pub fn extra(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(field.into(), value.into());
        self
    }

    /// Sampling temperature.
    pub fn get_temperature(&self) -> Option<f64> {
        self.temperature
    }

    /// Value for nucleus sampling.
    pub fn get_top_p(&self) -> Option<f64> {
        self.top_p
    }

    /// Maximum number of tokens to generate.
    pub fn get_max_tokens(&self) -> Option<u32> {
        self.max_tokens
    }

    /// Seed.
    pub fn get_seed(&self) -> Option<i64> {
        self.seed
    }

    /// Stop sequences.
    pub fn get_stop(&self) -> &[String] {
        &self.stop
    }

    /// Setting whether the model must call a tool, and which one.
    pub fn get_tool_choice(&self) -> Option<&ToolChoice> {
        self.tool_choice.as_ref()
    }

    /// Lifetime of the prompt cache, if enabled.
    pub fn get_prompt_cache(&self) -> Option<PromptCache> {
        self.prompt_cache
    }

    /// Additional fields of the provider's request object.
    pub fn get_extra(&self) -> &Map<String, Value> {
        &self.extra
    }
}

/// Lifetime of a cached prompt after the last call that read it. The times and prices are
/// Anthropic's: writing costs 1.25 times the normal price for five minutes, and twice the normal
/// price for an hour. Reading costs a tenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PromptCache {
    /// Five minutes, for calls in quick succession, such as the turns of a conversation.
    FiveMinutes,
    /// An hour, for calls with longer pauses.
    OneHour,
}

/// Setting whether the model must call a tool, and which one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call the tool with this name.
    Tool(String),
}
