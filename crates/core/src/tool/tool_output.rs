//! `ToolOutput` and `ToolError`: the outcome of a tool's body, as JSON text with what goes with it, or as a failure that the
//! model can act on.

use std::any::Any;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::Context;
use crate::error::Error;
use crate::message::{Media, ResourceLink, ToolCall, ToolContent, ToolPart, ToolResult, ToolStatus};
use crate::model::ModelErrorKind;
use crate::value::{Encoded, NodeValue, json_of};

/// A tool's answer: JSON text, encoded once, for programs; and for the model a text of its own, files and links, where the
/// tool gives some.
///
/// A function under `#[tool]` returns any value that is JSON, or this, or a `Result` of either. In a `#[workflow]` it is the
/// value of a node as any other, with its files and links. The output of a node of a graph is the JSON alone, also in the
/// run's records: of files and links that later nodes need, let the JSON have the addresses, or call a `#[workflow]` there.
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
    /// Most answers have none, so it costs them a word.
    content: Option<Box<ToolContent>>,
}

impl ToolOutput {
    /// Encodes a value.
    ///
    /// # Errors
    /// When the value has no JSON form: a map with keys that are not strings, or a `Serialize` that fails.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, ToolError> {
        match json_of(value) {
            Ok(json) => Ok(Self { json, content: None }),
            Err(error) => Err(ToolError::new(format!("the tool's answer could not be written as JSON: {error}"))),
        }
    }

    /// A text; its JSON is a string.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self { json: Value::from(text.as_ref()).to_string(), content: None }
    }

    /// A file and nothing else; its JSON is `null`.
    pub fn media(file: Media) -> Self {
        Self { json: "null".to_owned(), content: None }.with_media(file)
    }

    /// Has the model read this text in the place of the JSON, which is kept beside it for programs.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.more().text = Some(text.into());
        self
    }

    /// Adds a file. All files and links together have at most [`ToolContent::MAX_BYTES`].
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

    /// A value that is encoded already.
    pub(crate) fn encoded(value: Encoded) -> Self {
        Self { json: value.as_str().to_owned(), content: None }
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.json
    }

    /// The JSON text, owned.
    pub fn into_json(self) -> String {
        self.json
    }

    /// The size in bytes, as [`ToolResult::output_size`] counts it.
    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.json.len()).unwrap_or(u64::MAX).saturating_add(ToolContent::size(self.content()))
    }

    /// What there is beside the JSON.
    pub fn content(&self) -> Option<&ToolContent> {
        self.content.as_deref()
    }

    /// The answer to a call.
    pub(crate) fn into_result(self, call: &ToolCall) -> ToolResult {
        ToolResult { content: self.content, ..ToolResult::new(call, ToolStatus::Success, self.json) }
    }
}

/// What the function of a tool can return: a value that has a JSON form, or a [`ToolOutput`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the answer of a tool",
    label = "this has no JSON form",
    note = "derive `serde::Serialize` for it"
)]
pub trait ToolReturn {
    /// The tool's answer.
    ///
    /// # Errors
    /// When the value has no JSON form.
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

/// As the output of a node: its JSON, or both when there is something beside that.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerOfNode {
    tool_output: Encoded,
    tool_content: Option<Box<ToolContent>>,
}

/// The name that tells the two forms apart; JSON of a tool that has it stands in the second one.
const CONTENT: &str = "\"tool_content\"";

/// The output of a node in a `#[workflow]`: every reader gets the whole answer, after a restart too. Its JSON is recorded as
/// it is; what goes with it, such as a file, stands beside it in an object with the fields `tool_output` and `tool_content`.
#[diagnostic::do_not_recommend]
impl NodeValue for ToolOutput {
    fn encode(&self) -> Result<Encoded, serde_json::Error> {
        let json = Encoded::from_json(self.json.clone())?;
        match self.content.is_none() && !self.json.contains(CONTENT) {
            true => Ok(json),
            false => Encoded::new(&AnswerOfNode { tool_output: json, tool_content: self.content.clone() }),
        }
    }

    fn decode(encoded: &Encoded) -> Result<Self, serde_json::Error> {
        if encoded.as_str().contains(CONTENT)
            && let Ok(whole) = encoded.decode::<AnswerOfNode>()
        {
            return Ok(Self { json: whole.tool_output.as_str().to_owned(), content: whole.tool_content });
        }
        Ok(Self::encoded(encoded.clone()))
    }

    fn schema() -> Value {
        Value::Bool(true)
    }
}

/// Why a tool has no answer.
///
/// The message goes to the model, so it should say what to do differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    status: ToolStatus,
    message: String,
    remedy: Option<Box<str>>,
}

impl ToolError {
    /// An error of the tool's own.
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_status(ToolStatus::Error, message)
    }

    /// The arguments do not fit.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::with_status(ToolStatus::InvalidArguments, message)
    }

    /// An error of any class, such as [`ToolStatus::Unauthorized`] from a service behind the tool.
    /// [`ToolStatus::Success`] is not one, and counts as [`ToolStatus::Error`].
    pub fn with_status(status: ToolStatus, message: impl Into<String>) -> Self {
        let status = if status.is_success() { ToolStatus::Error } else { status };
        Self { status, message: message.into(), remedy: None }
    }

    /// Adds advice for the program's authors, such as a setting that is missing. It is logged as a warning when the call ends
    /// with this error, and no model reads it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into().into());
        self
    }

    /// The error of a body: one of our own keeps its class.
    pub(crate) fn of<E: fmt::Display + 'static>(error: &E) -> Self {
        let any = error as &dyn Any;
        match (any.downcast_ref::<Self>(), any.downcast_ref::<Error>().and_then(sentence_for_model)) {
            (Some(error), _) => error.clone(),
            (None, Some(sentence)) => Self::new(sentence).remedy(error.to_string()),
            (None, None) => Self::new(error.to_string()),
        }
    }

    /// The class; never [`ToolStatus::Success`].
    pub fn status(&self) -> ToolStatus {
        self.status
    }

    /// The sentence for the model.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Changes the message and the advice, for example to mask a key in them.
    #[cfg_attr(not(feature = "tool-http"), allow(dead_code, reason = "only requests have keys"))]
    pub(crate) fn with_texts(&self, change: impl Fn(&str) -> String) -> Self {
        let remedy = self.remedy.as_deref().map(|remedy| change(remedy).into());
        Self { status: self.status, message: change(&self.message), remedy }
    }

    /// Logs the advice for the program's authors, if there is any.
    pub(crate) fn log_remedy(&self, tool: &str, cx: &Context) {
        let Some(remedy) = self.remedy.as_deref() else { return };
        let (error, remedy) = (cx.host().redacted(&self.message), cx.host().redacted(remedy));
        tracing::warn!(run = %cx.run_id(), tool, error, remedy, "a tool call needs a change of the program");
    }
}

/// Creates the sentence for a model that replaces advice for the program's authors. Returns `None` for an error
/// without such advice.
fn sentence_for_model(error: &Error) -> Option<String> {
    Some(match error {
        Error::MaxStepsReached { steps } => {
            format!("the agent took {steps} steps without an answer, which is its limit; ask for less")
        }
        Error::LlmCallLimit { calls } => format!("the run made {calls} model calls, which is its limit"),
        Error::HandoffLimit { handoffs } => {
            format!("the agents of the team transferred the conversation {handoffs} times, which is the limit")
        }
        Error::NestingLimit { depth } => {
            format!("agents and workflows are nested {depth} deep, which is the limit; do without this tool")
        }
        Error::Timeout { limit } => format!("the run took longer than its time limit of {limit:?}; ask for less"),
        Error::Build { what, name, .. } => format!("the {what} `{name}` is not available here; do without it"),
        Error::RunResource { name, .. } => format!("`{name}` is not available here; do without it"),
        Error::MissingResource { .. } => "this tool lacks what it needs here; do without it".to_owned(),
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
