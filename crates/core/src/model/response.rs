//! The answer of a model: its pieces as they arrive, the whole, why it ended, its usage. It knows no wire format.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::{Message, ToolCall};
use crate::state::SavedByStep;
use crate::value::Encoded;

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
    /// Progress that the server reports beside its answer. A run shows it as `step.progress` and does not record it.
    Progress(Encoded),
    /// The whole answer; always the last item.
    Completed(Box<ModelResponse>),
}

/// More of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCallDelta {
    /// Which call of this answer, from 0.
    pub index: usize,
    /// The call's id, when it became known with this piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name, if this piece changed it. Some servers send a name in pieces: then this is the whole name so far, and
    /// replaces an earlier value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// More of the arguments' JSON text.
    pub arguments: String,
}

impl ToolCallDelta {
    /// More of the arguments of the call with this index; they may be empty.
    pub fn new(index: usize, arguments: impl Into<String>) -> Self {
        Self { index, id: None, name: None, arguments: arguments.into() }
    }

    /// Adds the call's id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Adds the tool's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelResponse {
    /// The text, reasoning and tool calls of the answer.
    pub message: Arc<Message>,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// The tokens that the call used.
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
    /// State that the run saves with the answer, for scripted models.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Arc<SavedByStep>>,
}

impl ModelResponse {
    /// A complete answer: with [`StopReason::ToolCalls`] when the message has tool calls, else with
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
            saved: None,
        }
    }

    /// Sets why the answer ended.
    #[must_use]
    pub fn stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = reason;
        self
    }

    /// Sets the tokens that the call used.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the model that answered, as the provider names it.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the provider's id of the answer.
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

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The answer is complete.
    Stop,
    /// The model calls tools.
    ToolCalls,
    /// The token limit was reached.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
    /// The model declined.
    Refusal,
    /// The provider paused in the middle of a long answer: it continues when it is sent the conversation with this
    /// answer at its end. An agent does so.
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

/// The most tokens that a call is counted with. No model reaches a billion; a server that reports more is wrong, and
/// must not make sums overflow.
pub(crate) const MAX_TOKENS: u64 = 1_000_000_000;

/// Tokens, counted alike for every provider: cached tokens are part of the input, reasoning is part of the output.
///
/// The adapters of agentflow read a server's count of more than a billion as one billion. Sums never overflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// All tokens read, cached ones included.
    pub input_tokens: u64,
    /// All tokens written, reasoning included.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache, when it reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens written to the provider's cache, when it reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Tokens used for reasoning, when the provider reports them.
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
