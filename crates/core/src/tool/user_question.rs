//! `UserQuestion`: a question to a person whose answer becomes the result of a tool call.

use std::time::Duration;

use serde_json::{Value, json};

use crate::event::ApprovalRequest;
use crate::on_timeout::OnTimeout;
use crate::value::Encoded;

/// A question to a person. With [`Tool::question`](super::Tool::question), the answer becomes the
/// result of a tool call; with [`WaitingCall`](super::WaitingCall), the call continues with it.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::tool::UserQuestion;
/// use agentflow::run::OnTimeout;
///
/// let question = UserQuestion::choice("Which size?", ["small", "large"])
///     .timeout(Duration::from_secs(3600), OnTimeout::Answer("small".into()));
/// assert_eq!(question.answer["enum"][1], "large");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UserQuestion {
    /// Kind of the question for programs that show it, such as `mcp.elicitation`. Any dotted name
    /// is allowed. Default: empty.
    pub kind: String,
    /// Text of the question.
    pub message: String,
    /// Data about the question, shown next to it. Default: `null`, for no data.
    pub about: Value,
    /// JSON Schema of the answer.
    pub answer: Value,
    /// Time limit for the answer. `None` waits forever.
    pub timeout: Option<Duration>,
    /// Behavior at the end of the time limit. With [`Answer`](OnTimeout::Answer), that answer is
    /// used; otherwise the caller receives an error.
    pub on_timeout: OnTimeout,
}

impl UserQuestion {
    /// Creates a question whose answer must match a JSON Schema, such as `json!({"type":
    /// "integer"})`. It has no time limit.
    pub fn new(message: impl Into<String>, answer: Value) -> Self {
        Self {
            kind: String::new(),
            message: message.into(),
            about: Value::Null,
            answer,
            timeout: None,
            on_timeout: OnTimeout::Fail,
        }
    }

    /// Creates a question with a text answer.
    pub fn text(message: impl Into<String>) -> Self {
        Self::new(message, json!({"type": "string"}))
    }

    /// Creates a question whose answer is one of these choices.
    pub fn choice<S: Into<String>>(
        message: impl Into<String>,
        choices: impl IntoIterator<Item = S>,
    ) -> Self {
        let choices: Vec<String> = choices.into_iter().map(Into::into).collect();
        Self::new(message, json!({"type": "string", "enum": choices}))
    }

    /// Converts the question into its recorded form.
    ///
    /// # Errors
    /// The schema is not valid JSON.
    pub(crate) fn into_request(self) -> Result<ApprovalRequest, serde_json::Error> {
        let limit = self.timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let about = if self.about.is_null() { Encoded::null() } else { Encoded::new(&self.about)? };
        let mut request = ApprovalRequest::new(self.message, about, Encoded::new(&self.answer)?);
        request.kind = self.kind.into();
        Ok(request.within(limit, &self.on_timeout))
    }

    /// Sets the kind, by which a program can choose a form for the question.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Sets the data about the question.
    #[must_use]
    pub fn about(mut self, about: Value) -> Self {
        self.about = about;
        self
    }

    /// Sets the time limit for the answer and the behavior at its end.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration, on_timeout: OnTimeout) -> Self {
        (self.timeout, self.on_timeout) = (Some(timeout), on_timeout);
        self
    }
}
