//! Converts failed HTTP exchanges to [`ModelError`]s. It does not decide about retries.

use std::time::{Duration, SystemTime};

use agentflow_core::model::{ModelError, ModelErrorKind, TimeoutKind};
use agentflow_http::{ClientError, innermost_cause, retry_after};
use agentflow_schema::text;
use reqwest::header::HeaderMap;

/// A response with a status other than 2xx.
#[derive(Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) status: u16,
    pub(crate) headers: &'a HeaderMap,
    /// The start of the body as text.
    pub(crate) body: &'a str,
}

impl Refusal<'_> {
    /// Creates an error with the status, id and body of the response. Without a message from the
    /// provider, the error message contains the start of the body.
    pub(crate) fn error(&self, kind: ModelErrorKind, message: Option<String>) -> ModelError {
        let message = message.unwrap_or_else(|| {
            let shown = text::head(self.body.trim(), 200);
            match shown {
                "" => format!("the server answered with status {} and nothing else", self.status),
                shown => format!("the server answered: {shown}"),
            }
        });
        let mut error =
            ModelError::new(kind, message).with_status(self.status).with_body(self.body);
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

/// Returns the provider's id of the request.
pub(super) fn request_id(headers: &HeaderMap) -> Option<&str> {
    ["x-request-id", "request-id"].iter().find_map(|name| headers.get(*name)?.to_str().ok())
}

/// Returns the error for a connection that failed or broke. It contains only the host and the port,
/// because a URL may contain a key.
pub(super) fn transport(
    error: reqwest::Error,
    host: &str,
    connect_timeout: Duration,
) -> ModelError {
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

/// Returns the error for a client that could not be created.
pub(super) fn no_client(error: ClientError) -> ModelError {
    let failed = ModelError::new(ModelErrorKind::Transport, error.to_string());
    match error.into_source() {
        Some(source) => failed.with_source(source),
        None => failed,
    }
}

/// Returns the error for a time-out.
pub(super) fn timed_out(kind: TimeoutKind, limit: Duration) -> ModelError {
    let what = match kind {
        TimeoutKind::Connect => "no connection was opened",
        TimeoutKind::FirstByte => "the answer did not begin",
        TimeoutKind::Idle => "the answer stopped coming",
        _ => "the call did not end",
    };
    ModelError::new(ModelErrorKind::Timeout(kind), format!("{what} within {limit:?}"))
}
