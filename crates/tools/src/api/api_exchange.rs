//! A single HTTP request of a tool that is described as data: credentials, retries and the meaning
//! of the status. Redirects are not followed, because the program decides which addresses are
//! called.

use agentflow_http::retry_after;
use agentflow_schema::text::head;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, Url};
use serde_json::Value;
use tokio::time::Instant;

use super::api_access::{ApiAccess, Keys};
use crate::http::http_exchange::{body_of, may_be_plain, send};
use crate::http::http_target::host_of;
use agentflow_core::message::ToolStatus;
use agentflow_core::model::{HttpSettings, ModelError, ModelErrorKind};
use agentflow_core::tool::ToolError;

/// Maximum number of bytes of an error response that are shown.
const SHOWN: usize = 500;
/// Maximum number of bytes of an error response that are read.
const READ: usize = 16 << 10;

/// A request, which may be sent several times.
#[derive(Clone)]
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<String>,
    /// `true` if the request may be repeated.
    pub(crate) repeatable: bool,
    /// `true` if only the status matters: the body of a success is not read, and the value is
    /// `null`.
    pub(crate) ignores_body: bool,
}

/// The answer to a successful request, with the key masked.
pub(crate) struct ApiAnswer {
    pub(crate) headers: HeaderMap,
    /// The JSON of the body if the content type declares it, otherwise its text. `null` for an
    /// empty body.
    pub(crate) value: Value,
    /// Size of the body in bytes, as it was received.
    pub(crate) bytes: usize,
}

/// A failed attempt.
struct FailedAttempt {
    error: ToolError,
    /// The error for the retry rules. `None` if the failure is final.
    passing: Option<ModelError>,
}

impl From<ToolError> for FailedAttempt {
    fn from(error: ToolError) -> Self {
        Self { error, passing: None }
    }
}

impl ApiAccess {
    /// Sends a request and retries it until it succeeds. Does not start a pause that would end
    /// after `deadline`.
    pub(crate) async fn exchange(
        &self,
        request: &ApiRequest,
        keys: &Keys,
        max_bytes: usize,
        deadline: Instant,
    ) -> Result<ApiAnswer, ToolError> {
        let settings = HttpSettings::default().max_retries(self.max_retries);
        let mut made = 0;
        loop {
            let failed = match self.attempt(request, keys, max_bytes).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let wait =
                failed.passing.and_then(|error| settings.wait_before_retry(made, &error, false));
            match wait.filter(|wait| Instant::now() + *wait < deadline) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(failed.error),
            }
            made += 1;
        }
    }

    async fn attempt(
        &self,
        request: &ApiRequest,
        keys: &Keys,
        max_bytes: usize,
    ) -> Result<ApiAnswer, FailedAttempt> {
        let (mut url, mut headers) = (request.url.clone(), request.headers.clone());
        let addresses = self.targets.addresses(&url).await?;
        if keys.are_secret() && url.scheme() != "https" && !may_be_plain(&addresses) {
            let problem = format!(
                "`{}` is called with a key, which is sent over `https:` alone",
                host_of(&url)
            );
            return Err(ToolError::new(problem).into());
        }
        keys.add(&mut url, &mut headers);
        let sent = send(
            &self.targets,
            &url,
            &addresses,
            &request.method,
            headers,
            request.body.as_deref(),
        )
        .await;
        let mut response = sent.map_err(|unsent| {
            let passes = request.repeatable || unsent.unconnected;
            let passing =
                passes.then(|| ModelError::new(ModelErrorKind::Transport, unsent.error.message()));
            FailedAttempt { error: unsent.error, passing }
        })?;
        let (status, headers) = (response.status(), response.headers().clone());
        if !status.is_success() {
            let mut body = Vec::new();
            // The first bytes of an error response suffice, also if the connection breaks while it
            // is read.
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk[..chunk.len().min(READ - body.len())]);
                if body.len() == READ {
                    break;
                }
            }
            let body = keys.masked(&String::from_utf8_lossy(&body));
            // The server rejects a 429 before it executes the request, so a repetition is safe.
            let passes = request.repeatable || status.as_u16() == 429;
            let passing = passes.then(|| {
                let error =
                    ModelError::new(ModelErrorKind::from_status(status.as_u16()), status.as_str());
                match retry_after(&headers, std::time::SystemTime::now()) {
                    Some(wait) => error.with_retry_after(wait),
                    None => error,
                }
            });
            return Err(FailedAttempt { error: refusal(status, &headers, &body), passing });
        }
        if request.ignores_body {
            return Ok(ApiAnswer { headers, value: Value::Null, bytes: 0 });
        }
        let body = body_of(&mut response, max_bytes).await.map_err(|error| {
            let broke = request.repeatable && error.status() == ToolStatus::Error;
            let passing =
                broke.then(|| ModelError::new(ModelErrorKind::Transport, error.message()));
            FailedAttempt { error, passing }
        })?;
        Ok(read(headers, body, keys)?)
    }
}

/// Creates the error for a response whose status is not a success.
fn refusal(status: reqwest::StatusCode, headers: &HeaderMap, body: &str) -> ToolError {
    let class = match status.as_u16() {
        400 | 422 => ToolStatus::InvalidArguments,
        401 | 403 => ToolStatus::Unauthorized,
        408 | 504 => ToolStatus::Timeout,
        _ => ToolStatus::Error,
    };
    if status.is_redirection() {
        let to = headers
            .get(LOCATION)
            .and_then(|to| to.to_str().ok())
            .and_then(|to| Url::parse(to).ok());
        let to = to.map_or_else(String::new, |to| format!(" to `{}`", host_of(&to)));
        let problem = format!(
            "the server redirects{to} with the status {status}, and redirects are not followed"
        );
        return ToolError::new(problem).remedy("name the address itself in the tool's description");
    }
    let problem = match head(body.trim(), SHOWN) {
        "" => format!("the server answered {status}"),
        shown if shown.len() < body.trim().len() => {
            format!("the server answered {status}: {shown}…")
        }
        shown => format!("the server answered {status}: {shown}"),
    };
    ToolError::with_status(class, problem)
}

fn read(headers: HeaderMap, body: Vec<u8>, keys: &Keys) -> Result<ApiAnswer, ToolError> {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let bytes = body.len();
    let text = String::from_utf8(body).map_err(|_| {
        ToolError::new(format!("the answer is not text of UTF-8, but `{}`", keys.masked(&kind)))
    })?;
    let text = keys.masked(&text);
    let is_json = kind.split(';').next().is_some_and(|kind| kind.trim().ends_with("json"));
    let value = match is_json {
        _ if text.is_empty() => Value::Null,
        true => serde_json::from_str(&text).map_err(|error| {
            ToolError::new(format!("the answer says that it is JSON and is not: {error}"))
        })?,
        false => Value::String(text),
    };
    Ok(ApiAnswer { headers, value, bytes })
}
