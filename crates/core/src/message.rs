//! The conversation: provider-neutral messages that keep a provider's opaque parts byte for byte.
//!
//! A message is immutable once it is in a [`Conversation`], so an adapter encodes it once and keeps the bytes beside it
//! ([`Message::encoded`]). This module knows no provider and does no I/O.

mod part_json;
mod tool_answer;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::tool_answer::{ResourceLink, ToolContent, ToolPart};
use crate::wire::{ListCache, WireCache};

/// Who speaks in a [`Message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The developer's instructions.
    System,
    /// The person or program that asks.
    User,
    /// The model.
    Assistant,
    /// Results of the tool calls of the assistant message before it.
    Tool,
}

/// One piece of a [`Message`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
#[doc(alias = "ContentPart")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A model's reasoning; returned unchanged to the provider that made it and dropped for every other.
    Reasoning(Reasoning),
    /// The model asks for a tool.
    ToolCall(Arc<ToolCall>),
    /// The outcome of a tool call.
    ToolResult(Arc<ToolResult>),
    /// An image, a document or another file.
    Media(Media),
}

/// A model's reasoning, with whatever its provider needs to recognise it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reasoning {
    /// The readable text; empty when the provider keeps it to itself.
    pub text: String,
    /// The wire format that made the part, such as `openai-chat`; only an adapter of the same name sends it back.
    pub provider: String,
    /// The model that made the part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Signature, encrypted text or the whole original object, kept as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Box<serde_json::Value>>,
}

impl Reasoning {
    /// Readable reasoning of a wire format's model.
    pub fn new(text: impl Into<String>, provider: impl Into<String>) -> Self {
        Self { text: text.into(), provider: provider.into(), ..Self::default() }
    }

    /// Adds what its provider needs to recognise it again.
    #[must_use]
    pub fn opaque(mut self, opaque: serde_json::Value) -> Self {
        self.opaque = Some(Box::new(opaque));
        self
    }
}

/// A model's request to call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(alias = "ToolRequest")]
pub struct ToolCall {
    /// The provider's id of the call, or one the adapter made when the provider gave none.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: JSON text, byte for byte, and possibly not valid JSON at all.
    pub arguments: String,
    /// What the provider wants to see again with this call (a thought signature, say).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Box<serde_json::Value>>,
}

impl ToolCall {
    /// A call with the arguments given as JSON text.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), opaque: None }
    }
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolStatus {
    /// The tool answered.
    Success,
    /// The tool answered with an error of its own.
    Error,
    /// The arguments did not fit the tool's schema; the tool did not run.
    InvalidArguments,
    /// No tool of that name is offered; nothing ran.
    NotFound,
    /// The tool needs a scope that the run was not granted; the tool did not run.
    Unauthorized,
    /// The turn had more tool calls than the agent's limit; the tool did not run.
    TooManyCalls,
    /// The tool did not answer in its time.
    Timeout,
    /// The tool panicked.
    Panicked,
    /// The tool's answer was larger than its limit.
    OutputTooLarge,
    /// The run was cancelled while the tool was running; whether it had its effect is unknown.
    Cancelled,
    /// The process ended while the tool was running; whether it had its effect is unknown.
    Interrupted,
}

impl ToolStatus {
    /// Whether the tool answered as it should.
    pub fn is_success(self) -> bool {
        self == Self::Success
    }

    /// Whether it says how a call ended. A call that was stopped may have had its effect.
    pub(crate) fn is_outcome(self) -> bool {
        !matches!(self, Self::Cancelled | Self::Interrupted)
    }

    /// The name used in events and documents, such as `invalid_arguments`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::InvalidArguments => "invalid_arguments",
            Self::NotFound => "not_found",
            Self::Unauthorized => "unauthorized",
            Self::TooManyCalls => "too_many_calls",
            Self::Timeout => "timeout",
            Self::Panicked => "panicked",
            Self::OutputTooLarge => "output_too_large",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for ToolStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The one answer that every [`ToolCall`] gets, whatever happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the call that this answers.
    pub call_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// How the call ended.
    pub status: ToolStatus,
    /// JSON text on success, otherwise a sentence for the model that says what to do.
    pub output: String,
    /// What the tool gave beside its JSON; boxed, since most answers have nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<ToolContent>>,
    /// Size of the tool's answer in bytes, if `output` is only its beginning. [`output_size`](Self::output_size) covers both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_bytes: Option<u64>,
}

impl ToolResult {
    /// The answer to a call: JSON text when it succeeded, otherwise a sentence for the model.
    pub fn new(call: &ToolCall, status: ToolStatus, output: impl Into<String>) -> Self {
        let (call_id, name) = (call.id.clone(), call.name.clone());
        Self { call_id, name, status, output: output.into(), content: None, whole_bytes: None }
    }
}

/// An image, a document or another file, by address or by content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Media {
    /// The IANA media type, such as `image/png`.
    pub mime_type: String,
    /// Where the content is: an `https:` or a `data:` URL.
    pub url: String,
    /// A file name to show, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Media {
    /// A file by its media type and its `https:` or `data:` URL.
    pub fn new(mime_type: impl Into<String>, url: impl Into<String>) -> Self {
        Self { mime_type: mime_type.into(), url: url.into(), name: None }
    }

    /// Adds a file name to show.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// One turn of a conversation.
///
/// ```
/// use agentflow::Message;
/// use agentflow::message::Role;
///
/// let question = Message::user("What is 2 + 3?");
/// assert_eq!(question.role(), Role::User);
/// assert_eq!(question.text(), "What is 2 + 3?");
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[doc(alias = "UniversalMessage")]
pub struct Message {
    role: Role,
    parts: Vec<Part>,
    #[serde(skip)]
    wire: WireCache,
}

impl Message {
    /// A message of any parts.
    pub fn new(role: Role, parts: impl Into<Vec<Part>>) -> Self {
        Self { role, parts: parts.into(), wire: WireCache::default() }
    }

    /// The developer's instructions.
    pub fn system(text: impl Into<String>) -> Self {
        Self::of_text(Role::System, text.into())
    }

    /// What the user says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::of_text(Role::User, text.into())
    }

    /// What the model says.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::of_text(Role::Assistant, text.into())
    }

    /// The results of one turn's tool calls, in the order of the calls.
    pub fn tool_results(results: impl IntoIterator<Item = Arc<ToolResult>>) -> Self {
        Self::new(Role::Tool, results.into_iter().map(Part::ToolResult).collect::<Vec<_>>())
    }

    fn of_text(role: Role, text: String) -> Self {
        Self::new(role, vec![Part::Text { text }])
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The pieces, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// All text parts in a row; reasoning is left out.
    pub fn text(&self) -> Cow<'_, str> {
        joined(self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        }))
    }

    /// All readable reasoning in a row.
    pub fn reasoning(&self) -> Cow<'_, str> {
        joined(self.parts.iter().filter_map(|part| match part {
            Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        }))
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &Arc<ToolCall>> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results, in order.
    pub fn results(&self) -> impl Iterator<Item = &Arc<ToolResult>> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// This message in one wire format, encoded once and kept: `encode` runs only when the format asked for last was
    /// another one. `format` must name everything the bytes depend on (adapter, model, quirks).
    pub fn encoded(&self, format: &str, encode: impl FnOnce(&Self) -> Vec<u8>) -> Arc<[u8]> {
        self.wire.get_or_encode(format, || encode(self))
    }
}

fn joined<'a>(mut pieces: impl Iterator<Item = &'a str>) -> Cow<'a, str> {
    let Some(first) = pieces.next() else { return Cow::Borrowed("") };
    match pieces.next() {
        None => Cow::Borrowed(first),
        Some(second) => Cow::Owned([first, second].into_iter().chain(pieces).collect()),
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.role == other.role && self.parts == other.parts
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("role", &self.role).field("parts", &self.parts).finish()
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

/// An ordered list of messages. Cloning is one reference count; pushing to the only owner copies nothing.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conversation(Arc<Messages>);

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Messages {
    list: Vec<Arc<Message>>,
    #[serde(skip)]
    wire: ListCache,
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Conversation {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message at the end.
    ///
    /// While another clone is alive the list of references (never a message) is copied first.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) {
        Arc::make_mut(&mut self.0).list.push(message.into());
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.0.list
    }

    /// Appends all messages in one wire format to `out`, with commas between them; a message whose encoding is empty is
    /// left out.
    ///
    /// `encode` runs once for each message that is new since the same format was asked for last, so the cost of a step
    /// is one copy of bytes and the step's own messages. For `format` see [`Message::encoded`].
    pub fn encode_into(&self, out: &mut Vec<u8>, format: &str, encode: impl Fn(&Message) -> Vec<u8>) {
        self.0.wire.append(out, format, &self.0.list, |message| message.encoded(format, &encode));
    }

    /// The conversation from the first message on that is not this one.
    pub(crate) fn without_leading(self, message: &Message) -> Self {
        match self.0.list.iter().take_while(|leading| ***leading == *message).count() {
            0 => self,
            count => self.0.list.iter().skip(count).map(Arc::clone).collect(),
        }
    }

    /// The newest message.
    pub fn last(&self) -> Option<&Message> {
        self.0.list.last().map(|message| &**message)
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.0.list.len()
    }

    /// Whether there is no message yet.
    pub fn is_empty(&self) -> bool {
        self.0.list.is_empty()
    }

    /// The ids of tool calls that have no result, and of results that answer no call: empty for every conversation a
    /// provider accepts.
    pub fn open_calls(&self) -> Vec<&str> {
        // Each id with the places of its calls that have no result yet, the next to be answered first.
        let mut waiting: HashMap<&str, VecDeque<usize>> = HashMap::new();
        let mut open: Vec<Option<&str>> = Vec::new();
        let mut stray: Vec<&str> = Vec::new();
        for message in &self.0.list {
            for call in message.tool_calls() {
                waiting.entry(&call.id).or_default().push_back(open.len());
                open.push(Some(&call.id));
            }
            for result in message.results() {
                match waiting.get_mut(&*result.call_id).and_then(VecDeque::pop_front) {
                    Some(at) => open[at] = None,
                    None => stray.push(&result.call_id),
                }
            }
        }
        open.into_iter().flatten().chain(stray).collect()
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Conversation").field(&self.0.list).finish()
    }
}

impl<M: Into<Arc<Message>>> FromIterator<M> for Conversation {
    fn from_iter<I: IntoIterator<Item = M>>(messages: I) -> Self {
        Self(Arc::new(Messages { list: messages.into_iter().map(Into::into).collect(), wire: ListCache::default() }))
    }
}

/// Nothing is said yet: of an agent's run, that it asks what its `#[agent]` function asks.
impl From<()> for Conversation {
    fn from((): ()) -> Self {
        Self::new()
    }
}

impl From<Message> for Conversation {
    fn from(message: Message) -> Self {
        Self::from_iter([message])
    }
}

impl From<&str> for Conversation {
    fn from(text: &str) -> Self {
        Message::user(text).into()
    }
}

impl From<&String> for Conversation {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Conversation {
    fn from(text: String) -> Self {
        Message::user(text).into()
    }
}

impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        messages.into_iter().collect()
    }
}
