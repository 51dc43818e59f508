//! `ApiError`: the error of a handler. Maps the errors of the runtime to HTTP statuses and codes.

use agentflow_core::error::{ControlErrorKind, Error, FailureKind};
use agentflow_core::store::StoreErrorKind;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::problem::{MistakeResource, ProblemDocument};

/// The error of a handler, boxed because a problem document is large.
#[derive(Debug)]
pub(crate) struct ApiError(Box<ProblemDocument>);

/// `Result` of a handler.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(ProblemDocument::new(status, code, detail)))
    }

    /// The request has a valid form, but its content cannot be used.
    pub(crate) fn unusable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail)
    }

    /// The thing does not exist, or the caller may not see it.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// Adds the place of the problem in the body of the request.
    pub(crate) fn at(mut self, pointer: String) -> Self {
        self.0.pointer = Some(pointer);
        self
    }

    /// Adds the mistakes of a document.
    pub(crate) fn with_mistakes(mut self, mistakes: Vec<MistakeResource>) -> Self {
        self.0.mistakes = mistakes;
        self
    }

    /// Returns the code, such as `not_found`.
    pub(crate) fn code(&self) -> &str {
        &self.0.code
    }

    /// Returns the problem and its remedy.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let (status, code) = match &error {
            Error::Store(store) => return Self::from_store(&error, store.kind()),
            Error::Control(control) => (control_status(control.kind()), control.kind().as_str()),
            Error::AccessDenied { .. } => (StatusCode::FORBIDDEN, "access_denied"),
            Error::UnknownWorkflow { .. } => (StatusCode::NOT_FOUND, "unknown_workflow"),
            Error::UnknownVersion { .. } => (StatusCode::NOT_FOUND, "unknown_version"),
            Error::UnknownAgent { .. } => (StatusCode::NOT_FOUND, "unknown_agent"),
            Error::Registry(_) => (StatusCode::NOT_FOUND, "unknown_name"),
            Error::Input { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_input"),
            Error::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
            Error::DefinitionChanged { .. }
            | Error::PartsChanged { .. }
            | Error::WriteForgotten { .. } => (StatusCode::CONFLICT, "definition_changed"),
            Error::CompensationOwed { .. } => (StatusCode::CONFLICT, "compensation_owed"),
            Error::Build { .. } | Error::State { .. } | Error::Memory { .. } => {
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid_request")
            }
            other => return Self::from_kind(&error, &other.kind()),
        };
        Self::new(status, code, error.to_string())
    }
}

impl ApiError {
    /// Maps an error of the store. Messages of a failing store can contain paths and addresses, so
    /// clients receive a general one, and the log has the details.
    fn from_store(error: &Error, kind: StoreErrorKind) -> Self {
        let status = match kind {
            StoreErrorKind::NotFound => StatusCode::NOT_FOUND,
            StoreErrorKind::Exists
            | StoreErrorKind::Ended
            | StoreErrorKind::Unfinished
            | StoreErrorKind::Busy
            | StoreErrorKind::SessionBusy
            | StoreErrorKind::InSession => StatusCode::CONFLICT,
            StoreErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            StoreErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            StoreErrorKind::Locked | StoreErrorKind::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
            StoreErrorKind::Full => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() && kind != StoreErrorKind::Unsupported {
            tracing::error!(%error, "a request failed because of the store");
            let detail = format!("the store failed ({kind}); see the log of the server");
            return Self::new(status, kind.as_str(), detail);
        }
        Self::new(status, kind.as_str(), error.to_string())
    }

    /// Maps every other error by its recorded kind.
    fn from_kind(error: &Error, kind: &FailureKind) -> Self {
        tracing::warn!(%error, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, kind.as_str(), error.to_string())
    }
}

fn control_status(kind: ControlErrorKind) -> StatusCode {
    match kind {
        ControlErrorKind::UnknownNode => StatusCode::NOT_FOUND,
        ControlErrorKind::WrongAnswer | ControlErrorKind::WrongMessage => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        ControlErrorKind::TooManyMessages => StatusCode::TOO_MANY_REQUESTS,
        ControlErrorKind::NoResponse => StatusCode::GATEWAY_TIMEOUT,
        // The state of the run does not allow the request.
        _ => StatusCode::CONFLICT,
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let may_retry = matches!(self.0.status, 429 | 503).then_some(HeaderValue::from_static("1"));
        let mut response = self.0.into_response();
        if let Some(seconds) = may_retry {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}
