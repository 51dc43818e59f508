//! The errors of model calls, classified so that a caller can decide without reading texts.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A failed model call.
///
/// It never holds a key: request headers are not part of it. Shown with `{:?}` it is the same sentence with the body
/// and the causes.
pub struct ModelError(Box<Inner>);

struct Inner {
    kind: ModelErrorKind,
    message: String,
    status: Option<u16>,
    provider_code: Option<String>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    body: Option<String>,
    permanent: bool,
    source: Option<Source>,
}

/// The class of a [`ModelError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// Too many requests or tokens.
    RateLimited,
    /// The provider has no capacity now.
    Overloaded,
    /// The provider failed.
    Server,
    /// Nothing came in time.
    Timeout(TimeoutKind),
    /// The answer stopped without its end.
    Truncated,
    /// The connection failed or broke.
    Transport,
    /// No key, or a wrong one.
    Auth,
    /// The key may not do this.
    Permission,
    /// No such model or address.
    NotFound,
    /// The provider refuses the request as it is.
    BadRequest,
    /// The conversation is longer than the model's context.
    ContextOverflow,
    /// The provider withholds an answer because of its content.
    ContentFilter,
    /// The answer is not of the wire format.
    InvalidResponse,
    /// The answer is larger than an answer may be, in bytes or in parts.
    AnswerTooLarge,
    /// The call was cancelled.
    Cancelled,
}

/// Which wait was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TimeoutKind {
    /// Opening the connection.
    Connect,
    /// Waiting for the first byte of the answer.
    FirstByte,
    /// Waiting between two pieces of the answer.
    Idle,
    /// The call as a whole.
    Total,
}

impl ModelErrorKind {
    /// The name used in events and by the command line, such as `rate_limited`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Timeout(_) => "timeout",
            Self::Truncated => "truncated",
            Self::Transport => "transport",
            Self::Auth => "auth",
            Self::Permission => "permission",
            Self::NotFound => "not_found",
            Self::BadRequest => "bad_request",
            Self::ContextOverflow => "context_overflow",
            Self::ContentFilter => "content_filter",
            Self::InvalidResponse => "invalid_response",
            Self::AnswerTooLarge => "answer_too_large",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the class of an HTTP status that is not 2xx. A provider's own error code may say more.
    pub fn from_status(status: u16) -> Self {
        match status {
            300..=399 => Self::InvalidResponse,
            401 => Self::Auth,
            402 | 403 => Self::Permission,
            404 | 410 => Self::NotFound,
            // The server gave up waiting for the request, or for a lock: the official clients retry both.
            408 | 409 => Self::Server,
            429 => Self::RateLimited,
            503 | 529 => Self::Overloaded,
            500.. => Self::Server,
            _ => Self::BadRequest,
        }
    }

    /// Whether the same call may succeed when it is retried.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Overloaded | Self::Server | Self::Timeout(_) | Self::Truncated | Self::Transport
        )
    }
}

impl ModelError {
    /// An error of a class, with a sentence about what happened.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            status: None,
            provider_code: None,
            request_id: None,
            retry_after: None,
            body: None,
            permanent: false,
            source: None,
        }))
    }

    /// The stream stopped without the provider's own sign that the answer is whole.
    pub fn truncated() -> Self {
        Self::new(ModelErrorKind::Truncated, "the answer stopped before its end; what came before is incomplete")
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Adds the provider's own error code.
    #[must_use]
    pub fn with_provider_code(mut self, code: impl Into<String>) -> Self {
        self.0.provider_code = Some(code.into());
        self
    }

    /// Adds the provider's id of the request, for its support.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.0.request_id = Some(id.into());
        self
    }

    /// Adds how long the provider asks to wait.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Adds the answer's body; an adapter caps it.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<String>) -> Self {
        self.0.body = Some(body.into());
        self
    }

    /// Says that the same call would fail again, whatever its class: an account without money is rate limited for good.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.0.permanent = true;
        self
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The class.
    pub fn kind(&self) -> ModelErrorKind {
        self.0.kind
    }

    /// The sentence about what happened.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The HTTP status, when there was an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The provider's own error code.
    pub fn provider_code(&self) -> Option<&str> {
        self.0.provider_code.as_deref()
    }

    /// The provider's id of the request.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// How long the provider asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The start of the answer's body.
    pub fn body(&self) -> Option<&str> {
        self.0.body.as_deref()
    }

    /// Whether the same call may succeed when it is retried.
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable() && !self.0.permanent
    }

    /// Passes every text through `clean`, that of the causes included, and those of the error itself through `cap`
    /// after that.
    pub(crate) fn map_texts(mut self, clean: impl Fn(String) -> String, cap: impl Fn(String) -> String) -> Self {
        let inner = &mut *self.0;
        inner.message = cap(clean(std::mem::take(&mut inner.message)));
        for text in [&mut inner.provider_code, &mut inner.request_id, &mut inner.body] {
            *text = text.take().map(&clean).map(&cap);
        }
        inner.source = inner.source.take().map(|source| cleaned(source, &clean));
        self
    }
}

/// A cause, or the sentences of it and of its own causes where one of them, or a debugger's view of it, is not clean:
/// serde shows a text that it found in the place of something else.
fn cleaned(source: Source, clean: &impl Fn(String) -> String) -> Source {
    let mut sentences = Vec::new();
    let mut shown = String::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*source);
    while let Some(error) = cause {
        sentences.push(error.to_string());
        shown.push_str(&format!("{error} {error:?} {error:#?}\n"));
        cause = error.source();
    }
    if clean(shown.clone()) == shown {
        return source;
    }
    let cleaned = sentences.into_iter().rev().fold(None, |source, sentence| {
        let source: Option<Source> = source;
        Some(Box::new(Sentence { sentence: clean(sentence), source }))
    });
    cleaned.unwrap_or(source)
}

/// The sentence of a cause that showed a secret, without it.
#[derive(thiserror::Error)]
#[error("{sentence}")]
struct Sentence {
    sentence: String,
    source: Option<Source>,
}

impl fmt::Debug for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model call failed ({}", self.0.kind.as_str())?;
        if let Some(status) = self.0.status {
            write!(f, ", status {status}")?;
        }
        if let Some(code) = &self.0.provider_code {
            write!(f, ", code {code}")?;
        }
        if let Some(id) = &self.0.request_id {
            write!(f, ", request {id}")?;
        }
        write!(f, "): {}", self.0.message)
    }
}

impl fmt::Debug for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        if let Some(body) = &self.0.body {
            write!(f, "\n  body: {body}")?;
        }
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            write!(f, "\n  because {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for ModelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::ModelErrorKind;

    #[test]
    fn no_status_that_is_the_callers_fault_is_retryable() {
        for status in [400, 401, 402, 403, 404, 405, 410, 413, 422, 301] {
            assert!(!ModelErrorKind::from_status(status).is_retryable(), "{status}");
        }
        for status in [408, 409, 429, 500, 502, 503, 504, 529] {
            assert!(ModelErrorKind::from_status(status).is_retryable(), "{status}");
        }
    }
}
