//! Recording of those variants of [`Error`] that consist of data, as JSON in their [`Failure`].

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ControlError, ControlErrorKind, Error, Failure};
use crate::event::RunId;
use crate::message::ToolStatus;
use crate::model::{ModelError, ModelErrorKind};
use crate::path::StepPath;
use crate::value::Encoded;

macro_rules! error_data {
    ($($variant:ident { $($field:ident: $ty:ty),* },)+) => {
        /// The data of an error, from which the error is rebuilt.
        #[derive(Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum ErrorData {
            $($variant { $($field: $ty),* },)+
            Model {
                class: ModelErrorKind,
                message: String,
                status: Option<u16>,
                provider_code: Option<String>,
                request_id: Option<String>,
                retry_after: Option<Duration>,
                permanent: bool,
            },
            Control { class: ControlErrorKind, message: String },
            Draining,
        }

        impl ErrorData {
            /// Returns the data of an error, or `None` if its variant contains more than data.
            fn of_error(error: &Error) -> Option<Self> {
                Some(match error {
                    $(Error::$variant { $($field),* } => Self::$variant { $($field: $field.clone()),* },)+
                    Error::Model(error) => Self::Model {
                        class: error.kind(),
                        message: error.message().to_owned(),
                        status: error.status(),
                        provider_code: error.provider_code().map(ToOwned::to_owned),
                        request_id: error.request_id().map(ToOwned::to_owned),
                        retry_after: error.retry_after(),
                        permanent: error.kind().is_retryable() && !error.is_retryable(),
                    },
                    Error::Control(error) => {
                        Self::Control { class: error.kind(), message: error.to_string() }
                    }
                    Error::Draining => Self::Draining,
                    _ => return None,
                })
            }

            /// Rebuilds the error with its cause.
            fn into_error(self, cause: Option<&str>) -> Error {
                match self {
                    $(Self::$variant { $($field),* } => Error::$variant { $($field),* },)+
                    Self::Model { class, message, status, provider_code, request_id, retry_after, permanent } => {
                        let mut error = ModelError::new(class, message);
                        if let Some(status) = status {
                            error = error.with_status(status);
                        }
                        if let Some(code) = provider_code {
                            error = error.with_provider_code(code);
                        }
                        if let Some(id) = request_id {
                            error = error.with_request_id(id);
                        }
                        if let Some(wait) = retry_after {
                            error = error.with_retry_after(wait);
                        }
                        if permanent {
                            error = error.permanent();
                        }
                        match cause {
                            Some(cause) => error.with_source(cause).into(),
                            None => error.into(),
                        }
                    }
                    Self::Control { class, message } => Error::Control(ControlError::new(class, message)),
                    Self::Draining => Error::Draining,
                }
            }
        }
    };
}

error_data! {
    Toolset { toolset: Arc<str>, problem: String },
    NoAnswer { stop_reason: String },
    InvalidOutput { attempts: u32, problem: String },
    MaxStepsReached { steps: u32 },
    LlmCallLimit { calls: u32 },
    HandoffLimit { handoffs: u32 },
    NestingLimit { depth: u32 },
    BudgetExceeded { budget: Arc<str>, message: String },
    Middleware { name: Arc<str>, problem: String },
    ToolFailures { failures: u32, tool: String, status: ToolStatus, message: String },
    Timeout { limit: Duration },
    Cancelled { reason: Arc<str> },
    Node { node: StepPath, failure: Arc<Failure> },
    CompensationOwed { run: RunId, calls: Vec<StepPath>, problem: String },
    NestedChanged { workflow: Arc<str>, path: StepPath, wrote: Vec<String> },
    NestedOther { path: StepPath, began: String, called: String },
    UnknownAgent { run: RunId, agent: Arc<str>, near: Option<String> },
    Output { run: RunId, problem: String },
    Input { workflow: Arc<str>, problem: String },
    DefinitionChanged { workflow: Arc<str>, nodes: Vec<String> },
    WriteForgotten { workflow: Arc<str>, nodes: Vec<String> },
    Value { workflow: Arc<str>, problem: String },
    State { key: String, problem: String },
    Artifact { name: String, problem: String },
    Memory { problem: String },
    MissingResource { resource: String },
    RunResource { name: Arc<str>, problem: String },
    Lost { reason: String },
}

impl Failure {
    /// Creates the record of an error with the data for rebuilding the same variant.
    pub(crate) fn from_error_with_data(error: &Error) -> Self {
        let failure = Self::from(error);
        let data = ErrorData::of_error(error).and_then(|data| Encoded::new(&data).ok());
        Self { error: data.or(failure.error), ..failure }
    }
}

impl Error {
    /// Rebuilds a recorded error: the same variant if its data is recorded, otherwise
    /// [`Error::Recorded`].
    pub(crate) fn of_recorded(failure: Arc<Failure>) -> Self {
        let data = failure.error.as_ref().and_then(|data| data.decode::<ErrorData>().ok());
        let Some(error) = data.map(|data| data.into_error(failure.cause())) else {
            return Self::Recorded(failure);
        };
        // Middleware may have changed strings of the record, and a newer release may write other
        // data. The rebuilt error is only used if it has the same record.
        let plain = Failure { error: None, value: None, ..Failure::clone(&failure) };
        let again = Failure { error: None, value: None, ..Failure::from(&error) };
        if plain == again { error } else { Self::Recorded(failure) }
    }
}
