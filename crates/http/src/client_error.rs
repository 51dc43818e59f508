//! Errors of HTTP clients, and helpers that find the cause of a failed request.

use std::error::Error;

/// The error of an HTTP client that cannot be set up: no tokio runtime is running, or TLS has no
/// certificate authorities.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ClientError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    pub(crate) fn caused_by(
        message: String,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { message, source: Some(source.into()) }
    }

    /// Returns the underlying error, if the failure has one. Its text is part of the message.
    pub fn into_source(self) -> Option<Box<dyn Error + Send + Sync>> {
        self.source
    }
}

/// Returns the text of the innermost cause. The outer layers only report that a request failed.
pub fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Returns true if the direct cause of an error is a failed connection. The server has not seen the
/// request then.
pub fn could_not_connect(error: &(dyn Error + 'static)) -> bool {
    error
        .source()
        .and_then(|cause| cause.downcast_ref::<reqwest::Error>())
        .is_some_and(reqwest::Error::is_connect)
}
