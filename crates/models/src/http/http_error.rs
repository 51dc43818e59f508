//! From a failed HTTP exchange to a [`ModelError`]. It decides nothing about retries.

use std::time::{Duration, SystemTime};

use agentflow_core::model::{ModelError, ModelErrorKind, TimeoutKind};
use agentflow_http::{ClientError, innermost_cause, retry_after};
use agentflow_schema::text;
use reqwest::header::HeaderMap;

/// An answer whose status is not 2xx.
#[derive(Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) status: u16,
    pub(crate) headers: &'a HeaderMap,
    /// The start of the body, as text.
    pub(crate) body: &'a str,
}

impl Refusal<'_> {
    /// An error that carries the status, id and body of this answer. Without a message of the provider's the body's
    /// beginning is shown.
    pub(crate) fn error(&self, kind: ModelErrorKind, message: Option<String>) -> ModelError {
        let message = message.unwrap_or_else(|| {
            let shown = text::head(self.body.trim(), 200);
            match shown {
                "" => format!("the server answered with status {} and nothing else", self.status),
                shown => format!("the server answered: {shown}"),
            }
        });
        let mut error = ModelError::new(kind, message).with_status(self.status).with_body(self.body);
        if let Some(id) = request_id(self.headers) {
            error = error.with_request_id(id);
        }
        if let Some(wait) = retry_after(self.headers, SystemTime::now()) {
            error = error.with_retry_after(wait);
        }
        if self.headers.get("x-should-retry").is_some_and(|value| value == "false") {
            error = error.permanent();
        }
        error
    }
}

/// The provider's id of the request.
pub(super) fn request_id(headers: &HeaderMap) -> Option<&str> {
    ["x-request-id", "request-id"].iter().find_map(|name| headers.get(*name)?.to_str().ok())
}

/// A connection that failed or broke. The address is the host and port only: a URL may hold a key.
pub(super) fn transport(error: reqwest::Error, host: &str, connect_timeout: Duration) -> ModelError {
    let error = error.without_url();
    if error.is_timeout() {
        return timed_out(TimeoutKind::Connect, connect_timeout).with_source(error);
    }
    let reason = innermost_cause(&error);
    let message = match error.is_connect() {
        true => format!("no connection to {host}: {reason}"),
        false => format!("the connection to {host} broke: {reason}"),
    };
    ModelError::new(ModelErrorKind::Transport, message).with_source(error)
}

/// Explains why there is no client.
pub(super) fn no_client(error: ClientError) -> ModelError {
    let failed = ModelError::new(ModelErrorKind::Transport, error.to_string());
    match error.into_source() {
        Some(source) => failed.with_source(source),
        None => failed,
    }
}

/// A wait that was too long.
pub(super) fn timed_out(kind: TimeoutKind, limit: Duration) -> ModelError {
    let what = match kind {
        TimeoutKind::Connect => "no connection was opened",
        TimeoutKind::FirstByte => "the answer did not begin",
        TimeoutKind::Idle => "the answer stopped coming",
        _ => "the call did not end",
    };
    ModelError::new(ModelErrorKind::Timeout(kind), format!("{what} within {limit:?}"))
}
