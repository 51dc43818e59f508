//! [`ModelEvent`] and [`ModelResponse`]: the pieces of a response as they arrive, and the complete
//! response with its stop reason and its usage. Independent of wire formats.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::{Message, ToolCall};
use crate::state::SavedByStep;
use crate::value::Encoded;

/// An event of a model's stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// Next piece of text.
    Text(String),
    /// Next piece of readable reasoning.
    Reasoning(String),
    /// Next piece of a tool call.
    ToolCall(ToolCallDelta),
    /// Progress that the server reports besides its answer. A run shows it as `step.progress` and
    /// does not record it.
    Progress(Encoded),
    /// The complete response; always the last item.
    Completed(Box<ModelResponse>),
}

/// A piece of a tool call.
///
/// ```
/// use agentflow::model::ToolCallDelta;
///
/// let first = ToolCallDelta::new(0, "{\"a\": ").id("call-1").name("add");
/// let second = ToolCallDelta::new(0, "2}");
/// assert_eq!(first.arguments + &second.arguments, r#"{"a": 2}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCallDelta {
    /// Index of the call in this response, from 0.
    pub index: usize,
    /// Id of the call, if this piece contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the tool, if this piece changes it. Some servers send a name in pieces. This is
    /// always the whole name so far, which replaces an earlier value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Next piece of the arguments' JSON text.
    pub arguments: String,
}

impl ToolCallDelta {
    /// Creates a piece of the arguments of the call with this index. The piece may be empty.
    pub fn new(index: usize, arguments: impl Into<String>) -> Self {
        Self { index, id: None, name: None, arguments: arguments.into() }
    }

    /// Sets the id of the call.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the name of the tool.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// A complete response of a model.
///
/// ```
/// use agentflow::message::Message;
/// use agentflow::model::{ModelResponse, StopReason, Usage};
///
/// let response = ModelResponse::new(Message::assistant("5")).usage(Usage::new(12, 1));
/// assert_eq!(response.stop_reason, StopReason::Stop);
/// assert_eq!(response.text(), "5");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelResponse {
    /// The text, the reasoning and the tool calls.
    pub message: Arc<Message>,
    /// Reason why the response ended.
    pub stop_reason: StopReason,
    /// Tokens of the call.
    pub usage: Usage,
    /// Name of the model that answered, as reported by the provider.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Name of the middleware that answered instead of a model, such as `cache`; no model was
    /// called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Arc<str>>,
    /// State that the run saves with the answer, for scripted models.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Arc<SavedByStep>>,
}

impl ModelResponse {
    /// Creates a complete response. Its stop reason is [`StopReason::ToolCalls`] if the message has
    /// tool calls, otherwise [`StopReason::Stop`].
    pub fn new(message: impl Into<Arc<Message>>) -> Self {
        let message = message.into();
        let stop_reason = if message.tool_calls().next().is_some() {
            StopReason::ToolCalls
        } else {
            StopReason::Stop
        };
        Self {
            message,
            stop_reason,
            usage: Usage::default(),
            model: String::new(),
            id: String::new(),
            answered_by: None,
            saved: None,
        }
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = reason;
        self
    }

    /// Sets the tokens of the call.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the name of the model that answered, as reported by the provider.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the provider's id of the response.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// The text of the message.
    pub fn text(&self) -> Cow<'_, str> {
        self.message.text()
    }

    /// The tool calls of the message.
    pub fn tool_calls(&self) -> impl Iterator<Item = &Arc<ToolCall>> {
        self.message.tool_calls()
    }
}

/// Reason why a response ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The answer is complete.
    Stop,
    /// The model requests tool calls.
    ToolCalls,
    /// The token limit was reached.
    Length,
    /// The provider withheld the rest of the response.
    ContentFilter,
    /// The model declined to answer.
    Refusal,
    /// The provider paused a long response. It continues when it receives the conversation with
    /// this response at its end, which an agent sends automatically.
    PauseTurn,
    /// Any other reason, as written by the provider.
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

/// Maximum number of tokens that is recorded for a call. No model reaches a billion; a server that
/// reports more is wrong, and must not make sums overflow.
pub(crate) const MAX_TOKENS: u64 = 1_000_000_000;

/// Tokens of one or several calls, with the same meaning for every provider: cached tokens are part
/// of the input, reasoning is part of the output.
///
/// The adapters of agentflow limit the counts of a server to one billion. Sums saturate instead of
/// overflowing.
///
/// ```
/// use agentflow::model::Usage;
///
/// let mut usage = Usage::new(100, 20);
/// usage.add(&Usage::new(50, 10));
/// assert_eq!(usage.total_tokens(), 180);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// Input tokens, including cached tokens.
    pub input_tokens: u64,
    /// Output tokens, including reasoning.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache, if reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens written to the provider's cache, if reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Tokens used for reasoning, if reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// The provider's own usage object; `None` if it is larger than 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<Box<serde_json::Value>>,
}

impl Usage {
    /// Creates a usage of input and output tokens.
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, ..Self::default() }
    }

    /// Sum of the input and output tokens, saturating at `u64::MAX`.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds the counts of another call, saturating at `u64::MAX`. Sets `raw` to `None`.
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
