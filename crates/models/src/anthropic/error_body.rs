//! Classifies the error bodies of Anthropic servers.

use agentflow_core::model::{ModelError, ModelErrorKind};
use serde_json::Value;

use crate::http::Refusal;

/// Returns the error for a response with a status other than 2xx.
pub(super) fn refused(refusal: &Refusal<'_>) -> ModelError {
    let problem = Problem::read(&serde_json::from_str(refusal.body).unwrap_or_default());
    let message = match (problem.message.is_empty(), refusal.status) {
        (false, _) => Some(problem.message.clone()),
        (true, 300..=399) => Some(
            "the server answered with a redirect; set the base URL to where it leads".to_owned(),
        ),
        (true, _) => None,
    };
    let kind = problem.kind(Some(refusal.status));
    problem.finish(refusal.error(kind, message))
}

/// Returns the error for an error object within a stream or instead of a response.
pub(super) fn in_answer(data: &[u8]) -> ModelError {
    let text_alone = |_| Value::String(String::from_utf8_lossy(data).trim().to_owned());
    let problem = Problem::read(&serde_json::from_slice(data).unwrap_or_else(text_alone));
    let message = match problem.message.is_empty() {
        true => "the server ended its answer with an error".to_owned(),
        false => problem.message.clone(),
    };
    let kind = problem.kind(None);
    problem.finish(ModelError::new(kind, message).with_body(String::from_utf8_lossy(data)))
}

/// The fields of an error.
struct Problem {
    message: String,
    code: String,
    /// A code that is an HTTP status. Google sends it when it serves these models.
    number: Option<u16>,
    request_id: String,
}

impl Problem {
    fn read(body: &Value) -> Self {
        // Google wraps the object in a list.
        let body = body.get(0).unwrap_or(body);
        // A gateway may omit the outer object, or send a string instead.
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let text = |name: &str| match error.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let names = ["message", "detail", "Message"];
        let message = names.into_iter().map(text).find(|text| !text.is_empty()).unwrap_or_default();
        let codes = ["type", "status"].into_iter().map(text);
        Self {
            message: error.as_str().map_or(message, str::to_owned),
            code: codes
                .into_iter()
                .find(|code| !code.is_empty() && code != "error")
                .unwrap_or_default(),
            number: text("code").parse().ok().filter(|number| (300..600).contains(number)),
            request_id: body
                .get("request_id")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        }
    }

    fn kind(&self, status: Option<u16>) -> ModelErrorKind {
        let says = |texts: &[&str]| texts.iter().any(|text| self.message.contains(text));
        let is_bad_request = match status {
            Some(status) => matches!(status, 400 | 413),
            None => self.code == "invalid_request_error",
        };
        match (&*self.code, status.or(self.number)) {
            ("overloaded_error", _) => ModelErrorKind::Overloaded,
            // Only llama.cpp has a type for this error. Other servers describe it in the message.
            ("exceed_context_size_error", _) => ModelErrorKind::ContextOverflow,
            _ if is_bad_request
                && says(&[
                    "prompt is too long",
                    "exceed context limit",
                    "Input is too long for",
                ]) =>
            {
                ModelErrorKind::ContextOverflow
            }
            // Anthropic has no type for these two errors.
            _ if is_bad_request && says(&["blocked by content filtering"]) => {
                ModelErrorKind::ContentFilter
            }
            _ if is_bad_request && says(&["credit balance is too low"]) => {
                ModelErrorKind::Permission
            }
            (_, Some(status)) => ModelErrorKind::from_status(status),
            ("rate_limit_error", None) => ModelErrorKind::RateLimited,
            ("authentication_error", None) => ModelErrorKind::Auth,
            ("permission_error" | "billing_error", None) => ModelErrorKind::Permission,
            ("not_found_error", None) => ModelErrorKind::NotFound,
            ("invalid_request_error" | "request_too_large", None) => ModelErrorKind::BadRequest,
            (_, None) => ModelErrorKind::Server,
        }
    }

    fn finish(self, mut error: ModelError) -> ModelError {
        if !self.code.is_empty() {
            error = error.with_provider_code(self.code);
        }
        match error.request_id().is_none() && !self.request_id.is_empty() {
            true => error.with_request_id(self.request_id),
            false => error,
        }
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
    fn a_refusal_is_read() {
        let error = error_of(
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"req_1"}"#,
        );
        assert_eq!((error.kind(), error.message()), (ModelErrorKind::Auth, "invalid x-api-key"));
        assert_eq!(
            (error.provider_code(), error.request_id()),
            (Some("authentication_error"), Some("req_1"))
        );
        let error = error_of(
            400,
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        );
        assert_eq!(error.kind(), ModelErrorKind::ContextOverflow);
        assert_eq!(
            error_of(529, r#"{"error":{"type":"overloaded_error"}}"#).kind(),
            ModelErrorKind::Overloaded
        );
        assert_eq!(
            error_of(402, r#"{"error":{"type":"billing_error"}}"#).kind(),
            ModelErrorKind::Permission
        );
        assert_eq!(
            error_of(504, r#"{"error":{"type":"timeout_error"}}"#).kind(),
            ModelErrorKind::Server
        );
        assert_eq!(error_of(404, r#"{"error":"no such model"}"#).message(), "no such model");
        assert_eq!(error_of(502, "<html>").message(), "the server answered: <html>");
    }

    #[test]
    fn an_error_in_the_answer_is_classed_by_its_type() {
        for (code, kind) in [
            ("overloaded_error", ModelErrorKind::Overloaded),
            ("rate_limit_error", ModelErrorKind::RateLimited),
            ("api_error", ModelErrorKind::Server),
            ("timeout_error", ModelErrorKind::Server),
            ("invalid_request_error", ModelErrorKind::BadRequest),
            ("something_new", ModelErrorKind::Server),
        ] {
            let error = in_answer(
                format!(r#"{{"type":"error","error":{{"type":"{code}","message":"m"}},"request_id":"req_2"}}"#)
                    .as_bytes(),
            );
            assert_eq!((error.kind(), error.request_id()), (kind, Some("req_2")), "{code}");
        }
        assert_eq!(in_answer(b"not JSON").kind(), ModelErrorKind::Server);
    }
}
