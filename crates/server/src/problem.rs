//! `ProblemDocument`: the body of an error response, as RFC 9457 defines it, and `MistakeResource`, a
//! mistake in a document.

use agentflow_core::diagnostic::Diagnostic;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Media type of problem documents (RFC 9457, section 3).
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The body of every error response of the API, as [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)
/// defines it. Clients react to [`code`](Self::code) and show [`detail`](Self::detail).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
#[non_exhaustive]
pub struct ProblemDocument {
    /// `urn:agentflow:problem:` followed by the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the status, such as `Not Found`.
    pub title: String,
    /// HTTP status of the response.
    pub status: u16,
    /// Stable code of the problem, such as `not_found`, `wrong_state` or `access_denied`.
    pub code: String,
    /// Problem and remedy, as a sentence for people.
    pub detail: String,
    /// Place in the body of the request, as a JSON Pointer. Absent if the problem concerns the whole request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Mistakes of a document. Empty for all other problems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<MistakeResource>,
}

impl ProblemDocument {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:agentflow:problem:{code}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            code: code.to_owned(),
            detail: detail.into(),
            pointer: None,
            mistakes: Vec::new(),
        }
    }
}

impl IntoResponse for ProblemDocument {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&self).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response()
    }
}

/// A mistake in a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Mistake")]
#[non_exhaustive]
pub struct MistakeResource {
    /// Stable code, such as `document.unknown-node`.
    pub code: String,
    /// Problem and remedy.
    pub message: String,
    /// Line in the text, starting at 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in the text, starting at 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
}

impl From<&Diagnostic> for MistakeResource {
    fn from(problem: &Diagnostic) -> Self {
        let start = problem.location().span.as_ref().map(|span| span.start);
        Self {
            code: problem.code().name().to_owned(),
            message: problem.to_string(),
            line: start.map(|start| start.line),
            column: start.map(|start| start.column),
        }
    }
}
