//! The request of one model call: the conversation, the tools, the settings. It knows no wire format.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::OutputSchema;
use crate::message::Conversation;
use crate::tool_definition::ToolManifest;

/// The request of one call. Cloning is cheap: every field is shared.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The conversation so far, instructions first.
    pub messages: Conversation,
    /// The tools that the model may call, by name.
    pub tools: ToolManifest,
    /// The shape that the answer must have; only set for a model whose mode is
    /// [`OutputMode::Native`](crate::model::OutputMode::Native).
    pub output: Option<Arc<OutputSchema>>,
    /// Temperature and the like.
    pub settings: Arc<ModelSettings>,
    /// Whether pieces are wanted as they arrive. Otherwise an adapter may wait for the whole answer.
    pub stream: bool,
    /// Whether the caller retries a failed call by itself, as a durable run does. An adapter then does not retry, so
    /// that the two do not multiply.
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

    /// Sets the shape that the answer must have.
    #[must_use]
    pub fn output(mut self, schema: impl Into<Arc<OutputSchema>>) -> Self {
        self.output = Some(schema.into());
        self
    }

    /// Sets temperature and the like.
    #[must_use]
    pub fn settings(mut self, settings: impl Into<Arc<ModelSettings>>) -> Self {
        self.settings = settings.into();
        self
    }

    /// Asks for the pieces as they arrive.
    #[must_use]
    pub fn streamed(mut self) -> Self {
        self.stream = true;
        self
    }
}

/// Settings of a call. A setting that is not set is left to the provider.
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
    /// Not serialised: it is about the price of an answer, and what is serialised says which answer it is.
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

    /// Sets the most tokens to generate.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets the seed, for providers that have one.
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

    /// Has the provider keep the part of the prompt that is the same in every call, the tools and the instruction, so that
    /// the next calls read it at a lower price. None by default, since keeping costs more than reading where no call
    /// follows in time.
    ///
    /// The Anthropic format takes it, and keeps a prompt only from a length on that its model sets. The others have
    /// nothing to send: OpenAI's and Gemini's services keep prompts by themselves. It changes no answer, so it is left
    /// out where settings are serialised: a cassette, a response cache and an agent's definition do not see it.
    #[must_use]
    #[doc(alias = "cache_control")]
    #[doc(alias = "context_cache_config")]
    pub fn prompt_cache(mut self, kept: PromptCache) -> Self {
        self.prompt_cache = Some(kept);
        self
    }

    /// Adds a field that is put into the provider's request object unchanged.
    #[must_use]
    #[doc(alias = "generate_content_config")]
    pub fn extra(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(field.into(), value.into());
        self
    }

    /// The sampling temperature.
    pub fn get_temperature(&self) -> Option<f64> {
        self.temperature
    }

    /// The value of nucleus sampling.
    pub fn get_top_p(&self) -> Option<f64> {
        self.top_p
    }

    /// The most tokens to generate.
    pub fn get_max_tokens(&self) -> Option<u32> {
        self.max_tokens
    }

    /// The seed.
    pub fn get_seed(&self) -> Option<i64> {
        self.seed
    }

    /// The texts at which generation stops.
    pub fn get_stop(&self) -> &[String] {
        &self.stop
    }

    /// Whether and which tool the model must call.
    pub fn get_tool_choice(&self) -> Option<&ToolChoice> {
        self.tool_choice.as_ref()
    }

    /// How long the provider keeps the part of the prompt that is the same in every call.
    pub fn get_prompt_cache(&self) -> Option<PromptCache> {
        self.prompt_cache
    }

    /// The fields that are put into the provider's request object unchanged.
    pub fn get_extra(&self) -> &Map<String, Value> {
        &self.extra
    }
}

/// How long a provider keeps a prompt after the last call that read it. The times and prices are Anthropic's: writing for
/// five minutes costs 1.25 times, and for an hour twice, what the tokens cost otherwise; reading costs a tenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PromptCache {
    /// For calls that follow each other, as in the turns of a conversation.
    FiveMinutes,
    /// For calls with longer pauses between them.
    OneHour,
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
