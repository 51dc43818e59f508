//! [`ModelError`] and its kinds. The kind lets a caller react without parsing strings.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A failed model call.
///
/// It never contains an API key, since request headers are not part of it. `{:?}` shows the message
/// with the body and the causes.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::model::{ModelError, ModelErrorKind};
///
/// let error = ModelError::new(ModelErrorKind::RateLimited, "too many requests")
///     .with_status(429)
///     .with_retry_after(Duration::from_secs(20));
/// assert!(error.is_retryable());
/// ```
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

/// Kind of a [`ModelError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// Too many requests or tokens.
    RateLimited,
    /// The provider has no capacity at the moment.
    Overloaded,
    /// The provider had an internal error.
    Server,
    /// A time limit was exceeded.
    Timeout(TimeoutKind),
    /// The response ended early.
    Truncated,
    /// The connection failed or broke.
    Transport,
    /// The API key is missing or wrong.
    Auth,
    /// The API key lacks the permission.
    Permission,
    /// The model or the address does not exist.
    NotFound,
    /// The provider rejected the request as malformed.
    BadRequest,
    /// The conversation exceeds the context window of the model.
    ContextOverflow,
    /// The provider withheld an answer because of its content.
    ContentFilter,
    /// The response does not have the wire format.
    InvalidResponse,
    /// The response exceeds the size limit, in bytes or in parts.
    AnswerTooLarge,
    /// The call was cancelled.
    Cancelled,
}

/// The exceeded time limit of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TimeoutKind {
    /// Time for opening the connection.
    Connect,
    /// Time to the first byte of the response.
    FirstByte,
    /// Time between two pieces of the response.
    Idle,
    /// Time for the whole call.
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

    /// Returns the kind for an HTTP status other than 2xx. The provider's own error code may be
    /// more specific.
    pub fn from_status(status: u16) -> Self {
        match status {
            300..=399 => Self::InvalidResponse,
            401 => Self::Auth,
            402 | 403 => Self::Permission,
            404 | 410 => Self::NotFound,
            // 408: the server stopped waiting for the request. 409: it stopped waiting for a lock.
            // The official clients retry both.
            408 | 409 => Self::Server,
            429 => Self::RateLimited,
            503 | 529 => Self::Overloaded,
            500.. => Self::Server,
            _ => Self::BadRequest,
        }
    }

    /// Returns `true` if the same call may succeed when it is retried.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Overloaded
                | Self::Server
                | Self::Timeout(_)
                | Self::Truncated
                | Self::Transport
        )
    }
}

impl ModelError {
    /// Creates an error with a message.
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

    /// Creates the error for a stream that ended without the provider's end marker.
    pub fn truncated() -> Self {
        Self::new(
            ModelErrorKind::Truncated,
            "the answer stopped before its end; what came before is incomplete",
        )
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Sets the provider's own error code.
    #[must_use]
    pub fn with_provider_code(mut self, code: impl Into<String>) -> Self {
        self.0.provider_code = Some(code.into());
        self
    }

    /// Sets the provider's id of the request, for its support.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.0.request_id = Some(id.into());
        self
    }

    /// Sets the wait that the provider requests.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Sets the response body. Adapters shorten it.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<String>) -> Self {
        self.0.body = Some(body.into());
        self
    }

    /// Marks the error as permanent, regardless of its kind: an account without credit stays rate
    /// limited.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.0.permanent = true;
        self
    }

    /// Sets the source of the error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ModelErrorKind {
        self.0.kind
    }

    /// The error message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The HTTP status, if the server responded.
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

    /// The wait that the provider requests.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The beginning of the response body.
    pub fn body(&self) -> Option<&str> {
        self.0.body.as_deref()
    }

    /// Returns `true` if the same call may succeed when it is retried.
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable() && !self.0.permanent
    }

    /// Applies `clean` to every string, including the strings of the sources, and then `cap` to the
    /// strings of the error itself.
    pub(crate) fn map_texts(
        mut self,
        clean: impl Fn(String) -> String,
        cap: impl Fn(String) -> String,
    ) -> Self {
        let inner = &mut *self.0;
        inner.message = cap(clean(std::mem::take(&mut inner.message)));
        for text in [&mut inner.provider_code, &mut inner.request_id, &mut inner.body] {
            *text = text.take().map(&clean).map(&cap);
        }
        inner.source = inner.source.take().map(|source| cleaned(source, &clean));
        self
    }
}

/// Returns the source unchanged if all of its strings are clean. Otherwise replaces it and its own
/// sources with their cleaned messages. The `Debug` form is checked too, since serde's errors show
/// strings of the input in it.
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

/// The cleaned message of a source that contained a secret.
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
