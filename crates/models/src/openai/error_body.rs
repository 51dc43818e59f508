//! Classifies the error bodies of OpenAI-compatible servers. The servers use different structures,
//! so the fields are searched at all places that known servers use.

use agentflow_core::model::{ModelError, ModelErrorKind};
use serde_json::Value;

use crate::http::Refusal;

/// Returns the error for a response with a status other than 2xx.
pub(crate) fn refused(refusal: &Refusal<'_>) -> ModelError {
    let body: Value = serde_json::from_str(refusal.body).unwrap_or_default();
    let problem = Problem::read(&body);
    let (kind, permanent) = problem.class(Some(refusal.status));
    let message = match (problem.message.is_empty(), refusal.status) {
        (false, _) => Some(problem.message.clone()),
        (true, 300..=399) => Some(
            "the server answered with a redirect; set the base URL to where it leads".to_owned(),
        ),
        (true, _) => None,
    };
    problem.finish(refusal.error(kind, message), permanent)
}

/// Returns the error for an error object within a stream or instead of a response.
pub(crate) fn in_answer(raw: &str) -> ModelError {
    let value: Value = serde_json::from_str(raw).unwrap_or_else(|_| raw.trim().into());
    let problem = Problem::read(&value);
    let (kind, permanent) = problem.class(None);
    let message = match problem.message.is_empty() {
        true => "the server ended its answer with an error".to_owned(),
        false => problem.message.clone(),
    };
    problem.finish(ModelError::new(kind, message).with_body(raw), permanent)
}

/// Parts of the messages that servers send if a conversation exceeds the model's context. Few
/// servers have a code for this error.
const TOO_LONG: [&str; 9] = [
    "maximum context length",
    "maximum prompt length",
    "exceeded model token limit",
    "exceeds the context window",
    "context window exceeds limit",
    "exceeds the available context size",
    "greater than the context length",
    "reduce the length of the messages",
    "is longer than the model's context length",
];

/// The fields of an error.
#[derive(Debug, Default)]
struct Problem {
    message: String,
    kind: String,
    code: String,
    /// A code that is an HTTP status.
    number: Option<u16>,
    /// `true` if a moderator flagged the input.
    flagged: bool,
}

impl Problem {
    fn read(value: &Value) -> Self {
        // Gemini's compatible endpoint wraps the object in a list, and Cloudflare returns a list of
        // errors.
        let value = value.get(0).filter(|first| first.get("error").is_some()).unwrap_or(value);
        let listed = value.get("errors").and_then(|errors| errors.get(0));
        let inner = value.get("error").filter(|error| !error.is_null()).or(listed).unwrap_or(value);
        let text = |value: &Value, name: &str| match value.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let message = |value: &Value| {
            let names = ["message", "detail", "title", "Message", "msg"];
            names
                .into_iter()
                .map(|name| text(value, name))
                .find(|text| !text.is_empty())
                .unwrap_or_default()
        };
        // Some servers write the fields next to the error object, which then contains other data.
        let or_beside =
            |found: String, beside: String| if found.is_empty() { beside } else { found };
        let said = inner.as_str().map_or_else(|| message(inner), str::to_owned);
        let code = or_beside(text(inner, "code"), text(value, "code"));
        // The type of an event of the Responses API does not describe the error.
        let kind = Some(text(inner, "type"))
            .filter(|kind| kind != "error" && !kind.starts_with("response."));
        Self {
            message: or_beside(said, message(value)),
            kind: kind.unwrap_or_default(),
            number: code.parse().ok().filter(|number| (300..600).contains(number)),
            flagged: inner.pointer("/metadata/reasons/0").is_some(),
            code,
        }
    }

    /// Returns the kind of the error, and `true` if a retry cannot succeed regardless of the kind.
    fn class(&self, status: Option<u16>) -> (ModelErrorKind, bool) {
        let says = |name: &str| {
            self.code.eq_ignore_ascii_case(name) || self.kind.eq_ignore_ascii_case(name)
        };
        let status = status.or(self.number);
        let without_money = [
            "insufficient_quota",
            "insufficient_balance",
            "insufficient_balance_error",
            "exceeded_current_quota_error",
        ];
        if says("insufficient_quota")
            || without_money.into_iter().any(says) && matches!(status, None | Some(429))
        {
            return (ModelErrorKind::RateLimited, true);
        }
        // `exceed_context_size_error` is a type of llama.cpp. Other servers only describe the error
        // in the message.
        if says("context_length_exceeded")
            || says("exceed_context_size_error")
            || matches!(status, None | Some(400 | 413 | 422))
                && TOO_LONG.iter().any(|text| self.message.contains(text))
        {
            return (ModelErrorKind::ContextOverflow, false);
        }
        if says("content_filter") || says("content_policy_violation") || self.flagged {
            return (ModelErrorKind::ContentFilter, false);
        }
        // Groq refused a tool call that the model wrote. A retry usually succeeds.
        if says("tool_use_failed") {
            return (ModelErrorKind::Server, false);
        }
        // The Responses API sends this error with the status 400.
        if says("model_not_found") && status.is_none_or(|status| matches!(status, 400 | 404)) {
            return (ModelErrorKind::NotFound, false);
        }
        if let Some(status) = status {
            return (ModelErrorKind::from_status(status), false);
        }
        let kind = match (self.code.as_str(), self.kind.as_str()) {
            ("rate_limit_exceeded" | "too_many_requests", _)
            | (
                _,
                "rate_limit_error"
                | "rate_limit_exceeded"
                | "too_many_requests"
                | "tokens"
                | "requests",
            ) => ModelErrorKind::RateLimited,
            (
                _,
                "overloaded_error"
                | "engine_overloaded"
                | "unavailable_error"
                | "service_unavailable",
            ) => ModelErrorKind::Overloaded,
            ("server_is_overloaded" | "slow_down", _) => ModelErrorKind::Overloaded,
            ("invalid_api_key", _) | (_, "authentication_error") => ModelErrorKind::Auth,
            (_, "not_found_error") => ModelErrorKind::NotFound,
            (_, "permission_error") => ModelErrorKind::Permission,
            ("invalid_prompt", _) | (_, "invalid_request_error" | "BadRequestError") => {
                ModelErrorKind::BadRequest
            }
            _ => ModelErrorKind::Server,
        };
        (kind, false)
    }

    fn finish(self, mut error: ModelError, permanent: bool) -> ModelError {
        let code = if self.code.is_empty() { self.kind } else { self.code };
        if !code.is_empty() {
            error = error.with_provider_code(code);
        }
        if permanent { error.permanent() } else { error }
    }
}

#[cfg(test)]
mod tests {
    use agentflow_core::model::{ModelError, ModelErrorKind};
    use reqwest::header::HeaderMap;

    use super::{in_answer, refused};
    use crate::http::Refusal;

    fn error_of(status: u16, body: &str) -> ModelError {
        refused(&Refusal { status, headers: &HeaderMap::new(), body })
    }

    #[test]
    fn the_known_shapes_are_read() {
        let error = error_of(
            401,
            r#"{"error":{"message":"Bad key","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        );
        assert_eq!(
            (error.kind(), error.message(), error.provider_code()),
            (ModelErrorKind::Auth, "Bad key", Some("invalid_api_key"))
        );
        let error = error_of(
            400,
            r#"{"error":{"message":"x","type":"invalid_request_error","code":"model_not_found"}}"#,
        );
        assert_eq!(error.kind(), ModelErrorKind::NotFound);
        // llama.cpp: the code is a number.
        let error = error_of(
            400,
            r#"{"error":{"code":400,"message":"no","type":"exceed_context_size_error"}}"#,
        );
        assert_eq!(
            (error.kind(), error.provider_code()),
            (ModelErrorKind::ContextOverflow, Some("400"))
        );
        // vLLM: without an outer object.
        let error = error_of(
            400,
            r#"{"object":"error","message":"the maximum context length is 9","code":400}"#,
        );
        assert_eq!(error.kind(), ModelErrorKind::ContextOverflow);
        // FastAPI, Ollama, Gemini.
        assert_eq!(error_of(404, r#"{"detail":"Not Found"}"#).message(), "Not Found");
        assert_eq!(
            error_of(404, r#"{"error":"model 'x' not found"}"#).message(),
            "model 'x' not found"
        );
        assert_eq!(error_of(400, r#"[{"error":{"code":400,"message":"key"}}]"#).message(), "key");
        // Not JSON.
        assert_eq!(error_of(502, "<html>").message(), "the server answered: <html>");
        assert!(error_of(502, "").message().contains("502"));
    }

    #[test]
    fn an_account_without_money_is_not_asked_again() {
        let error = error_of(
            429,
            r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        );
        assert_eq!((error.kind(), error.is_retryable()), (ModelErrorKind::RateLimited, false));
        assert!(
            error_of(429, r#"{"error":{"message":"x","code":"rate_limit_exceeded"}}"#)
                .is_retryable()
        );
    }

    #[test]
    fn an_error_in_the_answer_is_classed_by_its_code_or_type() {
        for (raw, kind) in [
            (r#"{"code":502,"message":"upstream"}"#, ModelErrorKind::Server),
            (r#"{"code":"429","message":"slow down"}"#, ModelErrorKind::RateLimited),
            (r#"{"type":"overloaded_error","message":"busy"}"#, ModelErrorKind::Overloaded),
            (r#"{"type":"server_error","message":"oops","code":null}"#, ModelErrorKind::Server),
            (r#"{"type":"invalid_request_error","message":"no"}"#, ModelErrorKind::BadRequest),
            (
                r#"{"type":"error","code":"rate_limit_exceeded","message":"slow"}"#,
                ModelErrorKind::RateLimited,
            ),
            (
                r#"{"type":"error","error":{"code":"server_is_overloaded","message":"x"}}"#,
                ModelErrorKind::Overloaded,
            ),
            (r#"{"code":"invalid_prompt","message":"no"}"#, ModelErrorKind::BadRequest),
            (r#"{"code":"model_not_found","message":"no"}"#, ModelErrorKind::NotFound),
            (r#""just a text""#, ModelErrorKind::Server),
        ] {
            assert_eq!(in_answer(raw).kind(), kind, "{raw}");
        }
        assert_eq!(in_answer(r#""just a text""#).message(), "just a text");
        assert_eq!(
            in_answer(r#"{"type":"error","code":null,"message":"x"}"#).provider_code(),
            None
        );
    }
}
