//! The outcome of a tool's body: [`ToolOutput`] is JSON text with optional text, files and links;
//! [`ToolError`] is a failure that the model can act on.

use std::any::Any;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::Context;
use crate::error::Error;
use crate::message::{
    Media, ResourceLink, ToolCall, ToolContent, ToolPart, ToolResult, ToolStatus,
};
use crate::model::ModelErrorKind;
use crate::value::{Encoded, NodeValue, json_of};

/// The answer of a tool: JSON text for programs, and optionally another text, files and links for
/// the model. The JSON is encoded once.
///
/// A `#[tool]` function returns any value with a JSON form, a `ToolOutput`, or a `Result` of
/// either. In a `#[workflow]`, a `ToolOutput` is the value of a node, with its files and links. The
/// output of a node of a graph is only the JSON, also in the run's records. If later nodes need
/// files or links, put their addresses into the JSON, or call a `#[workflow]` there.
///
/// ```
/// use agentflow::message::{Media, ResourceLink};
/// use agentflow::prelude::*;
/// use agentflow::tool::ToolOutput;
///
/// /// Draw the sales of a year.
/// #[tool(effects = "read")]
/// async fn chart(year: u16) -> ToolOutput {
///     let png = [0x89, b'P', b'N', b'G'];
///     ToolOutput::text(format!("The sales of {year}."))
///         .with_media(Media::of_bytes("image/png", png))
///         .with_link(ResourceLink::new("https://example.com/sales").name("all years"))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    json: String,
    /// Boxed, because most answers have no content.
    content: Option<Box<ToolContent>>,
}

impl ToolOutput {
    /// Encodes a value as JSON.
    ///
    /// # Errors
    /// The value has no JSON form: a map has keys that are not strings, or its `Serialize`
    /// implementation fails.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, ToolError> {
        match json_of(value) {
            Ok(json) => Ok(Self { json, content: None }),
            Err(error) => Err(ToolError::new(format!(
                "the tool's answer could not be written as JSON: {error}"
            ))),
        }
    }

    /// Creates an answer from text. Its JSON is a string.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self { json: Value::from(text.as_ref()).to_string(), content: None }
    }

    /// Creates an answer that is only a file. Its JSON is `null`.
    pub fn media(file: Media) -> Self {
        Self { json: "null".to_owned(), content: None }.with_media(file)
    }

    /// Sets the text that the model reads instead of the JSON. Programs still get the JSON.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.more().text = Some(text.into());
        self
    }

    /// Adds a file. All files and links together are limited to [`ToolContent::MAX_BYTES`].
    #[must_use]
    pub fn with_media(mut self, file: Media) -> Self {
        self.more().parts.push(ToolPart::Media(file));
        self
    }

    /// Adds a link.
    #[must_use]
    pub fn with_link(mut self, link: ResourceLink) -> Self {
        self.more().parts.push(ToolPart::Link(link));
        self
    }

    fn more(&mut self) -> &mut ToolContent {
        self.content.get_or_insert_default()
    }

    /// Creates an answer from a value that is encoded already.
    pub(crate) fn encoded(value: Encoded) -> Self {
        Self { json: value.as_str().to_owned(), content: None }
    }

    /// Returns the JSON text.
    pub fn as_json(&self) -> &str {
        &self.json
    }

    /// Returns the JSON text as an owned string.
    pub fn into_json(self) -> String {
        self.json
    }

    /// Returns the text, files and links for the model, if the tool added any.
    pub fn content(&self) -> Option<&ToolContent> {
        self.content.as_deref()
    }

    /// Creates the successful result of a call.
    pub(crate) fn into_result(self, call: &ToolCall) -> ToolResult {
        ToolResult {
            content: self.content,
            ..ToolResult::new(call, ToolStatus::Success, self.json)
        }
    }
}

/// Return types of a tool's function: a value with a JSON form, or a [`ToolOutput`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the answer of a tool",
    label = "this has no JSON form",
    note = "derive `serde::Serialize` for it"
)]
pub trait ToolReturn {
    /// Converts the value into the tool's answer.
    ///
    /// # Errors
    /// The value has no JSON form.
    fn to_output(&self) -> Result<ToolOutput, ToolError>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize> ToolReturn for T {
    fn to_output(&self) -> Result<ToolOutput, ToolError> {
        ToolOutput::json(self)
    }
}

impl ToolReturn for ToolOutput {
    fn to_output(&self) -> Result<ToolOutput, ToolError> {
        Ok(self.clone())
    }
}

/// Recorded form of a node's output that has content in addition to its JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedToolOutput {
    tool_output: Encoded,
    tool_content: Option<Box<ToolContent>>,
}

/// Field name that marks [`RecordedToolOutput`]. JSON of a tool that contains this text is wrapped in it
/// too, so that decoding is unambiguous.
const CONTENT: &str = "\"tool_content\"";

/// The output of a node in a `#[workflow]`. Every reader gets the whole answer, also after a
/// restart. An answer without content is recorded as its plain JSON. An answer with content, such
/// as a file, is recorded as an object with the fields `tool_output` and `tool_content`.
#[diagnostic::do_not_recommend]
impl NodeValue for ToolOutput {
    fn encode(&self) -> Result<Encoded, serde_json::Error> {
        let json = Encoded::from_json(self.json.clone())?;
        // The plain form is used only if it cannot be mistaken for the wrapped form.
        match self.content.is_none() && !self.json.contains(CONTENT) {
            true => Ok(json),
            false => Encoded::new(&RecordedToolOutput {
                tool_output: json,
                tool_content: self.content.clone(),
            }),
        }
    }

    fn decode(encoded: &Encoded) -> Result<Self, serde_json::Error> {
        // The text search avoids parsing every value; only candidates are decoded.
        if encoded.as_str().contains(CONTENT)
            && let Ok(whole) = encoded.decode::<RecordedToolOutput>()
        {
            return Ok(Self {
                json: whole.tool_output.as_str().to_owned(),
                content: whole.tool_content,
            });
        }
        Ok(Self::encoded(encoded.clone()))
    }

    fn schema() -> Value {
        Value::Bool(true)
    }
}

/// The error of a tool call.
///
/// The model reads the message, so it should explain what to do differently.
///
/// ```
/// use agentflow::message::ToolStatus;
/// use agentflow::tool::ToolError;
///
/// let error = ToolError::new("order 17 does not exist").remedy("list the orders first");
/// assert_eq!(error.status(), ToolStatus::Error);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    status: ToolStatus,
    message: String,
    remedy: Option<Box<str>>,
}

impl ToolError {
    /// Creates an error with the status [`ToolStatus::Error`].
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_status(ToolStatus::Error, message)
    }

    /// Creates an error for arguments that do not fit.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::with_status(ToolStatus::InvalidArguments, message)
    }

    /// Creates an error of any class, such as [`ToolStatus::Unauthorized`] from a service that the
    /// tool uses. [`ToolStatus::Success`] is replaced by [`ToolStatus::Error`].
    pub fn with_status(status: ToolStatus, message: impl Into<String>) -> Self {
        let status = if status.is_success() { ToolStatus::Error } else { status };
        Self { status, message: message.into(), remedy: None }
    }

    /// Adds advice for the program's developers, such as a missing setting. It is logged as a
    /// warning when the call ends with this error. Models do not see it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into().into());
        self
    }

    #[doc(hidden)]
    /// Converts the error of a body. A [`ToolError`] is kept, and an [`Error`] of this crate
    /// becomes a message that suits a model.
    pub fn from_error<E: fmt::Display + 'static>(error: &E) -> Self {
        let any = error as &dyn Any;
        // An SDK error may advise the developer. Models get another message, and the advice is
        // logged.
        match (any.downcast_ref::<Self>(), any.downcast_ref::<Error>().and_then(sentence_for_model))
        {
            (Some(error), _) => error.clone(),
            (None, Some(sentence)) => Self::new(sentence).remedy(error.to_string()),
            (None, None) => Self::new(error.to_string()),
        }
    }

    /// Returns the class of the error. Never [`ToolStatus::Success`].
    pub fn status(&self) -> ToolStatus {
        self.status
    }

    /// Returns the message for the model.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the error with its message and advice changed, for example to mask a key in them.
    #[doc(hidden)]
    pub fn with_texts(&self, change: impl Fn(&str) -> String) -> Self {
        let remedy = self.remedy.as_deref().map(|remedy| change(remedy).into());
        Self { status: self.status, message: change(&self.message), remedy }
    }

    /// Logs the advice for the program's developers, if any.
    pub(crate) fn log_remedy(&self, tool: &str, cx: &Context) {
        let Some(remedy) = self.remedy.as_deref() else { return };
        let (error, remedy) = (cx.host().redacted(&self.message), cx.host().redacted(remedy));
        tracing::warn!(run = %cx.run_id(), tool, error, remedy, "a tool call needs a change of the program");
    }
}

/// Creates the message for a model that replaces advice for the program's developers. Returns
/// `None` for an error without such advice.
fn sentence_for_model(error: &Error) -> Option<String> {
    Some(match error {
        Error::MaxStepsReached { steps } => {
            format!(
                "the agent took {steps} steps without an answer, which is its limit; ask for less"
            )
        }
        Error::LlmCallLimit { calls } => {
            format!("the run made {calls} model calls, which is its limit")
        }
        Error::HandoffLimit { handoffs } => {
            format!(
                "the agents of the team transferred the conversation {handoffs} times, which is the limit"
            )
        }
        Error::NestingLimit { depth } => {
            format!(
                "agents and workflows are nested {depth} deep, which is the limit; do without this tool"
            )
        }
        Error::Timeout { limit } => {
            format!("the run took longer than its time limit of {limit:?}; ask for less")
        }
        Error::Build { what, name, .. } => {
            format!("the {what} `{name}` is not available here; do without it")
        }
        Error::RunResource { name, .. } => format!("`{name}` is not available here; do without it"),
        Error::MissingResource { .. } => {
            "this tool lacks what it needs here; do without it".to_owned()
        }
        Error::Model(model) if model.kind() == ModelErrorKind::Auth => {
            "the agent's model refused the program's key; do without this agent".to_owned()
        }
        _ => return None,
    })
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}
