//! `UserQuestion`: what a person is asked whose answer is that of a tool. It asks nobody.

use std::time::Duration;

use serde_json::{Value, json};

use crate::event::ApprovalRequest;
use crate::on_timeout::OnTimeout;
use crate::value::Encoded;

/// What a person is asked whose answer is that of a tool; see [`Tool::question`](super::Tool::question).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UserQuestion {
    /// The question, for a person to read.
    pub message: String,
    /// Data that the question is about, shown beside it. Default: `null`, for none.
    pub about: Value,
    /// The JSON Schema of the answer.
    pub answer: Value,
    /// How long the answer is waited for; `None`: for ever.
    pub timeout: Option<Duration>,
    /// What happens when nobody has answered by then: an [`Answer`](OnTimeout::Answer) is the tool's, and of any other the
    /// caller learns that nobody has answered.
    pub on_timeout: OnTimeout,
}

impl UserQuestion {
    /// A question whose answer fits a JSON Schema, such as `json!({"type": "integer"})`.
    pub fn new(message: impl Into<String>, answer: Value) -> Self {
        Self { message: message.into(), about: Value::Null, answer, timeout: None, on_timeout: OnTimeout::Fail }
    }

    /// A question whose answer is a text.
    pub fn text(message: impl Into<String>) -> Self {
        Self::new(message, json!({"type": "string"}))
    }

    /// A question whose answer is one of these.
    pub fn choice<S: Into<String>>(message: impl Into<String>, choices: impl IntoIterator<Item = S>) -> Self {
        let choices: Vec<String> = choices.into_iter().map(Into::into).collect();
        Self::new(message, json!({"type": "string", "enum": choices}))
    }

    /// As it is recorded.
    ///
    /// # Errors
    /// When its schema is not JSON.
    pub(crate) fn into_request(self) -> Result<ApprovalRequest, serde_json::Error> {
        let limit = self.timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let about = if self.about.is_null() { Encoded::null() } else { Encoded::new(&self.about)? };
        let request = ApprovalRequest::new(self.message, about, Encoded::new(&self.answer)?);
        Ok(request.within(limit, &self.on_timeout))
    }

    /// Sets the data that the question is about.
    #[must_use]
    pub fn about(mut self, about: Value) -> Self {
        self.about = about;
        self
    }

    /// Sets how long the answer is waited for, and what happens when nobody has answered by then.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration, on_timeout: OnTimeout) -> Self {
        (self.timeout, self.on_timeout) = (Some(timeout), on_timeout);
        self
    }
}
