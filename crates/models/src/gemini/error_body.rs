//! Classifies the error bodies of Gemini servers, and finish reasons that are errors.

use std::time::Duration;

use agentflow_core::model::{ModelError, ModelErrorKind};
use serde_json::Value;

use crate::http::Refusal;

/// Returns the error for a response with a status other than 2xx.
pub(super) fn refused(refusal: &Refusal<'_>) -> ModelError {
    let body: Value = serde_json::from_str(refusal.body).unwrap_or_default();
    let problem = Problem::read(&body);
    let message = match (problem.message, refusal.status) {
        ("", 300..=399) => Some(
            "the server answered with a redirect; set the base URL to where it leads".to_owned(),
        ),
        ("", _) => None,
        (message, _) => Some(message.to_owned()),
    };
    problem.finish(refusal.error(problem.kind(Some(refusal.status)), message))
}

/// Returns the error for an error object within a stream or instead of a response.
pub(super) fn in_answer(raw: &str) -> ModelError {
    let value: Value = serde_json::from_str(raw).unwrap_or_else(|_| raw.trim().into());
    let problem = Problem::read(&value);
    let message = match problem.message {
        "" => "the server ended its answer with an error",
        message => message,
    };
    problem.finish(ModelError::new(problem.kind(None), message).with_body(raw))
}

/// Returns the error for a prompt that was blocked.
pub(super) fn blocked(reason: &str, message: &str, data: &[u8]) -> ModelError {
    let more = if message.is_empty() { String::new() } else { format!(": {message}") };
    ModelError::new(
        ModelErrorKind::ContentFilter,
        format!("the prompt was blocked ({reason}){more}"),
    )
    .with_provider_code(reason)
    .with_body(String::from_utf8_lossy(data))
}

/// Returns the error for a finish reason without a usable response. The model wrote output that
/// Google could not parse, and a retry usually succeeds.
pub(super) fn unusable(reason: &str, message: &str) -> Option<ModelError> {
    let kind = match reason {
        "MALFORMED_FUNCTION_CALL"
        | "MALFORMED_TOOL_CALL"
        | "MALFORMED_RESPONSE"
        | "UNEXPECTED_TOOL_CALL" => ModelErrorKind::Server,
        "MISSING_THOUGHT_SIGNATURE" => ModelErrorKind::BadRequest,
        _ => return None,
    };
    let more = if message.is_empty() { String::new() } else { format!(": {message}") };
    Some(
        ModelError::new(kind, format!("the answer cannot be used ({reason}){more}"))
            .with_provider_code(reason),
    )
}

/// The fields of an error.
#[derive(Debug)]
struct Problem<'a> {
    message: &'a str,
    /// A canonical name of Google, such as `RESOURCE_EXHAUSTED`.
    status: &'a str,
    code: Option<u16>,
    details: &'a [Value],
}

impl<'a> Problem<'a> {
    fn read(value: &'a Value) -> Self {
        // A stream without SSE wraps the object in a list.
        let value = value.get(0).unwrap_or(value);
        let value = value.get("error").unwrap_or(value);
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        Self {
            message: value.as_str().unwrap_or_else(|| text("message")),
            status: text("status"),
            code: value.get("code").and_then(|code| match code {
                Value::String(code) => code.parse().ok(),
                code => code.as_u64()?.try_into().ok(),
            }),
            details: value
                .get("details")
                .and_then(Value::as_array)
                .map(Vec::as_slice)
                .unwrap_or_default(),
        }
    }

    fn detail(&self, kind: &str) -> Option<&'a Value> {
        self.details
            .iter()
            .find(|detail| detail["@type"].as_str().is_some_and(|name| name.ends_with(kind)))
    }

    fn reason(&self) -> &'a str {
        self.detail("google.rpc.ErrorInfo")
            .and_then(|info| info["reason"].as_str())
            .unwrap_or_default()
    }

    fn kind(&self, status: Option<u16>) -> ModelErrorKind {
        // Google responds to an invalid key with 400.
        if self.reason() == "API_KEY_INVALID" || self.message.starts_with("API key not valid") {
            return ModelErrorKind::Auth;
        }
        if self.message.contains("token count")
            && self.message.contains("exceeds the maximum number of tokens")
        {
            return ModelErrorKind::ContextOverflow;
        }
        match (self.status, status.or(self.code).filter(|status| *status >= 300)) {
            // The service does not support the country or the account.
            ("FAILED_PRECONDITION", _) => ModelErrorKind::Permission,
            (_, Some(status)) => ModelErrorKind::from_status(status),
            ("UNAUTHENTICATED", _) => ModelErrorKind::Auth,
            ("PERMISSION_DENIED", _) => ModelErrorKind::Permission,
            ("NOT_FOUND", _) => ModelErrorKind::NotFound,
            ("RESOURCE_EXHAUSTED", _) => ModelErrorKind::RateLimited,
            ("UNAVAILABLE", _) => ModelErrorKind::Overloaded,
            ("INVALID_ARGUMENT" | "OUT_OF_RANGE", _) => ModelErrorKind::BadRequest,
            _ => ModelErrorKind::Server,
        }
    }

    fn finish(&self, mut error: ModelError) -> ModelError {
        match (self.reason(), self.status) {
            ("", "") => {}
            ("", code) | (code, _) => error = error.with_provider_code(code),
        }
        if error.retry_after().is_none()
            && let Some(wait) = self
                .detail("google.rpc.RetryInfo")
                .and_then(|info| wait(info["retryDelay"].as_str()?))
        {
            error = error.with_retry_after(wait);
        }
        // A daily quota is still exhausted after the delay that the error suggests.
        let quotas = self
            .detail("google.rpc.QuotaFailure")
            .and_then(|failure| failure["violations"].as_array());
        let daily =
            |quota: &Value| quota["quotaId"].as_str().is_some_and(|id| id.contains("PerDay"));
        if quotas.is_some_and(|quotas| quotas.iter().any(daily)) {
            error.permanent()
        } else {
            error
        }
    }
}

/// Parses a duration in Google's format: `34.07s`.
fn wait(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agentflow_core::model::{ModelError, ModelErrorKind};
    use reqwest::header::HeaderMap;
    use serde_json::json;

    use super::{in_answer, refused, wait};
    use crate::http::Refusal;

    fn error_of(status: u16, body: &str) -> ModelError {
        refused(&Refusal { status, headers: &HeaderMap::new(), body })
    }

    #[test]
    fn the_known_errors_are_classed() {
        let with = |message: &str, status: &str| {
            json!({"error": {"message": message, "status": status}}).to_string()
        };
        for (status, body, kind) in [
            (
                400,
                with("API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT"),
                ModelErrorKind::Auth,
            ),
            (
                400,
                with(
                    "The input token count (2) exceeds the maximum number of tokens allowed (1).",
                    "INVALID_ARGUMENT",
                ),
                ModelErrorKind::ContextOverflow,
            ),
            (400, with("no", "INVALID_ARGUMENT"), ModelErrorKind::BadRequest),
            (
                400,
                with("User location is not supported for the API use.", "FAILED_PRECONDITION"),
                ModelErrorKind::Permission,
            ),
            (401, with("no", "UNAUTHENTICATED"), ModelErrorKind::Auth),
            (403, with("no", "PERMISSION_DENIED"), ModelErrorKind::Permission),
            (404, with("no", "NOT_FOUND"), ModelErrorKind::NotFound),
            (429, with("no", "RESOURCE_EXHAUSTED"), ModelErrorKind::RateLimited),
            (500, with("no", "INTERNAL"), ModelErrorKind::Server),
            (503, with("no", "UNAVAILABLE"), ModelErrorKind::Overloaded),
            (504, with("no", "DEADLINE_EXCEEDED"), ModelErrorKind::Server),
        ] {
            assert_eq!(error_of(status, &body).kind(), kind, "{body}");
        }
        // An error in a list, and an error that is not JSON.
        let error = error_of(
            400,
            r#"[{"error":{"code":400,"message":"key","status":"INVALID_ARGUMENT"}}]"#,
        );
        assert_eq!((error.message(), error.provider_code()), ("key", Some("INVALID_ARGUMENT")));
        assert_eq!(error_of(502, "<html>").message(), "the server answered: <html>");
    }

    #[test]
    fn the_reason_of_a_bad_key_is_the_code() {
        let body = json!({"error": {"code": 400, "message": "x", "status": "INVALID_ARGUMENT", "details": [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}});
        let error = error_of(400, &body.to_string());
        assert_eq!(
            (error.kind(), error.provider_code()),
            (ModelErrorKind::Auth, Some("API_KEY_INVALID"))
        );
    }

    #[test]
    fn a_quota_says_when_to_come_back_unless_it_is_the_days() {
        let body = |quota: &str| {
            json!({"error": {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED", "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}})
            .to_string()
        };
        let error = error_of(429, &body("GenerateRequestsPerMinutePerProjectPerModel"));
        assert_eq!(
            (error.retry_after(), error.is_retryable()),
            (Some(Duration::from_millis(34_500)), true)
        );
        assert!(
            !error_of(429, &body("GenerateRequestsPerDayPerProjectPerModel-FreeTier"))
                .is_retryable()
        );
        assert_eq!(wait("2s"), Some(Duration::from_secs(2)));
        assert_eq!((wait("2"), wait("-1s"), wait("xs")), (None, None, None));
    }

    #[test]
    fn an_error_in_the_answer_is_classed_by_its_code_or_status() {
        for (raw, kind) in [
            (
                r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#,
                ModelErrorKind::Overloaded,
            ),
            (
                r#"{"error":{"message":"slow","status":"RESOURCE_EXHAUSTED"}}"#,
                ModelErrorKind::RateLimited,
            ),
            (r#"{"error":{"message":"oops"}}"#, ModelErrorKind::Server),
            (r#"{"error":"just a text"}"#, ModelErrorKind::Server),
        ] {
            assert_eq!(in_answer(raw).kind(), kind, "{raw}");
        }
        assert_eq!(in_answer(r#"{"error":"just a text"}"#).message(), "just a text");
    }
}
