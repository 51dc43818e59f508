//! Provider-neutral messages and conversations. Opaque parts of a provider are preserved byte for
//! byte.
//!
//! A [`Message`] is a [`Role`] with a list of [`Part`]s. It is immutable once it is in a
//! [`Conversation`], so that an adapter can encode it once and cache the bytes in the message
//! ([`Message::encoded`]). This module does not depend on providers and does no I/O.

mod part_json;
mod tool_answer;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::tool_answer::{ResourceLink, ToolContent, ToolPart};
use crate::wire::{ListCache, WireCache};

/// Author of a [`Message`].
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
    /// The results of the tool calls in the preceding assistant message.
    Tool,
}

/// A part of a [`Message`].
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
    /// A model's reasoning. Sent back unchanged to the provider that produced it, and omitted for
    /// every other provider.
    Reasoning(Reasoning),
    /// A request of the model to call a tool.
    ToolCall(Arc<ToolCall>),
    /// The outcome of a tool call.
    ToolResult(Arc<ToolResult>),
    /// An image, a document or another file.
    Media(Media),
}

/// A model's reasoning, with the opaque data that its provider requires to accept it again.
///
/// ```
/// use agentflow::message::Reasoning;
///
/// let reasoning = Reasoning::new("2 + 3 is 5.", "openai-chat");
/// assert_eq!(reasoning.provider, "openai-chat");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reasoning {
    /// The readable text; empty if the provider does not disclose it.
    pub text: String,
    /// Wire format of the adapter that received the part, such as `openai-chat`. Only an adapter
    /// with the same format sends it back.
    pub provider: String,
    /// Model that produced the part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Signature, encrypted text or the whole original object, as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Box<serde_json::Value>>,
}

impl Reasoning {
    /// Creates readable reasoning. `provider` is the wire format.
    pub fn new(text: impl Into<String>, provider: impl Into<String>) -> Self {
        Self { text: text.into(), provider: provider.into(), ..Self::default() }
    }

    /// Sets the opaque data that the provider requires to accept the reasoning again.
    #[must_use]
    pub fn opaque(mut self, opaque: serde_json::Value) -> Self {
        self.opaque = Some(Box::new(opaque));
        self
    }
}

/// A model's request to call a tool.
///
/// ```
/// use agentflow::message::ToolCall;
///
/// let call = ToolCall::new("call-1", "add", r#"{"a": 2, "b": 3}"#);
/// assert_eq!(call.name, "add");
/// ```
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
    /// Opaque data that the provider expects back with this call, such as a thought signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Box<serde_json::Value>>,
}

impl ToolCall {
    /// Creates a call with its arguments as JSON text.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), opaque: None }
    }
}

/// Outcome of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolStatus {
    /// The tool returned a result.
    Success,
    /// The tool returned an error.
    Error,
    /// The arguments did not fit the tool's schema; the tool did not run.
    InvalidArguments,
    /// No tool with this name is offered; nothing was executed.
    NotFound,
    /// The tool requires a scope that the run was not granted; the tool did not run.
    Unauthorized,
    /// The turn exceeded the agent's limit of tool calls; the tool did not run.
    TooManyCalls,
    /// The tool exceeded its time limit.
    Timeout,
    /// The tool panicked.
    Panicked,
    /// The tool's output exceeded its size limit.
    OutputTooLarge,
    /// The run was cancelled while the tool was running; it is unknown whether the tool had its
    /// effect.
    Cancelled,
    /// The process ended while the tool was running; it is unknown whether the tool had its effect.
    Interrupted,
}

impl ToolStatus {
    /// Returns `true` if the call succeeded.
    pub fn is_success(self) -> bool {
        self == Self::Success
    }

    /// Returns `true` if the call completed. A cancelled or interrupted call may or may not have
    /// had its effect.
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

/// The result of a [`ToolCall`]. Each call has exactly one, however it ended.
///
/// ```
/// use agentflow::message::{ToolCall, ToolResult, ToolStatus};
///
/// let call = ToolCall::new("call-1", "add", r#"{"a": 2, "b": 3}"#);
/// let result = ToolResult::new(&call, ToolStatus::Success, "5");
/// assert_eq!((&*result.call_id, &*result.text()), ("call-1", "5"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the call that this answers.
    pub call_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// How the call ended.
    pub status: ToolStatus,
    /// JSON text on success, otherwise an instruction to the model.
    pub output: String,
    /// Further content that the tool returned besides the JSON, such as images. Boxed, since most
    /// results have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<ToolContent>>,
    /// Size of the tool's output in bytes, if `output` is only its beginning.
    /// [`output_size`](Self::output_size) handles both cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_bytes: Option<u64>,
}

impl ToolResult {
    /// Creates the result of a call. `output` is JSON text on success, otherwise an instruction to
    /// the model.
    pub fn new(call: &ToolCall, status: ToolStatus, output: impl Into<String>) -> Self {
        let (call_id, name) = (call.id.clone(), call.name.clone());
        Self { call_id, name, status, output: output.into(), content: None, whole_bytes: None }
    }
}

/// An image, a document or another file, by URL or as content.
///
/// ```
/// use agentflow::message::{Media, Message, Part, Role};
///
/// let image = Media::new("image/png", "https://example.org/chart.png").name("chart.png");
/// let message = Message::new(Role::User, [Part::Text { text: "Explain this.".into() }, Part::Media(image)]);
/// assert_eq!(message.text(), "Explain this.");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Media {
    /// The IANA media type, such as `image/png`.
    pub mime_type: String,
    /// Location of the content: an `https:` or a `data:` URL.
    pub url: String,
    /// File name to display, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Media {
    /// Creates a file from its media type and its `https:` or `data:` URL.
    pub fn new(mime_type: impl Into<String>, url: impl Into<String>) -> Self {
        Self { mime_type: mime_type.into(), url: url.into(), name: None }
    }

    /// Sets a file name to display.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// A message of a conversation: a role and its parts.
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
    /// Creates a message of any parts.
    pub fn new(role: Role, parts: impl Into<Vec<Part>>) -> Self {
        Self { role, parts: parts.into(), wire: WireCache::default() }
    }

    /// Creates a system message: the developer's instructions.
    pub fn system(text: impl Into<String>) -> Self {
        Self::from_text(Role::System, text.into())
    }

    /// Creates a message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::from_text(Role::User, text.into())
    }

    /// Creates a message of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::from_text(Role::Assistant, text.into())
    }

    /// Creates the message with the results of one turn's tool calls, in the order of the calls.
    pub fn tool_results(results: impl IntoIterator<Item = Arc<ToolResult>>) -> Self {
        Self::new(Role::Tool, results.into_iter().map(Part::ToolResult).collect::<Vec<_>>())
    }

    fn from_text(role: Role, text: String) -> Self {
        Self::new(role, vec![Part::Text { text }])
    }

    /// The author of the message.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the concatenated text parts, without reasoning.
    pub fn text(&self) -> Cow<'_, str> {
        joined(self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        }))
    }

    /// Returns the concatenated readable reasoning.
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

    /// Returns the message in a wire format. The bytes are cached, so `encode` is only called if
    /// the previous call used another `format`. `format` must identify everything the bytes depend
    /// on: adapter, model, quirks.
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
        // The cached wire bytes follow from the other fields.
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

/// An ordered list of messages. Cloning increments one reference count; pushing does not copy if
/// there is only one clone.
///
/// ```
/// use agentflow::message::{Conversation, Message};
///
/// let mut conversation = Conversation::new();
/// conversation.push(Message::user("What is 2 + 3?"));
/// conversation.push(Message::assistant("5"));
/// assert_eq!(conversation.len(), 2);
/// assert_eq!(conversation.last().unwrap().text(), "5");
/// ```
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
    /// Creates an empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a message.
    ///
    /// If other clones are alive, the list of references is copied first. Messages are never
    /// copied.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) {
        Arc::make_mut(&mut self.0).list.push(message.into());
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.0.list
    }

    /// Appends all messages in a wire format to `out`, separated by commas. A message with an empty
    /// encoding is omitted.
    ///
    /// `encode` is only called for messages that were added since the last call with the same
    /// format, so that a turn costs one copy of the bytes plus the encoding of its new messages.
    /// For `format` see [`Message::encoded`].
    pub fn encode_into(
        &self,
        out: &mut Vec<u8>,
        format: &str,
        encode: impl Fn(&Message) -> Vec<u8>,
    ) {
        self.0.wire.append(out, format, &self.0.list, |message| message.encoded(format, &encode));
    }

    /// Removes leading messages that equal `message`.
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

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.0.list.len()
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.0.list.is_empty()
    }

    /// Returns the ids of tool calls without a result, and of results without a call. Empty for
    /// every conversation that a provider accepts.
    pub fn open_calls(&self) -> Vec<&str> {
        // Positions in `open` of the unanswered calls with each id, oldest first. A provider may
        // reuse an id.
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
        Self(Arc::new(Messages {
            list: messages.into_iter().map(Into::into).collect(),
            wire: ListCache::default(),
        }))
    }
}

/// An empty conversation. As the input of an agent's run, it leaves only the prompt of the
/// `#[agent]` function.
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
