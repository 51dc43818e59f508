//! `ToolOutput` and `ToolError`: the outcome of a tool's body, as JSON text or as a failure that the model can act on.

use std::fmt;

use serde::Serialize;

use crate::message::ToolStatus;
use crate::value::Encoded;

/// A tool's answer: JSON text, encoded once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput(String);

impl ToolOutput {
    /// Encodes a value.
    ///
    /// # Errors
    /// When the value has no JSON form: a map with keys that are not strings, or a `Serialize` that fails.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, ToolError> {
        match serde_json::to_string(value) {
            Ok(json) => Ok(Self(json)),
            Err(error) => Err(ToolError::new(format!("the tool's answer could not be written as JSON: {error}"))),
        }
    }

    /// A value that is encoded already.
    pub(crate) fn encoded(value: Encoded) -> Self {
        Self(value.as_str().to_owned())
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The JSON text, owned.
    pub fn into_json(self) -> String {
        self.0
    }
}

/// Why a tool has no answer.
///
/// The message goes to the model, so it should say what to do differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    status: ToolStatus,
    message: String,
}

impl ToolError {
    /// An error of the tool's own.
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_status(ToolStatus::Error, message)
    }

    /// The arguments do not fit.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::with_status(ToolStatus::InvalidArguments, message)
    }

    pub(crate) fn with_status(status: ToolStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The class; never [`ToolStatus::Success`].
    pub fn status(&self) -> ToolStatus {
        self.status
    }

    /// The sentence for the model.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}
