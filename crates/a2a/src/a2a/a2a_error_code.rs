//! Error codes of the A2A protocol, with their JSON-RPC codes, reasons and statuses.

use std::fmt;

/// An error code of the A2A protocol or of JSON-RPC.
///
/// ```
/// use agentflow::a2a::A2aErrorCode;
///
/// assert_eq!(A2aErrorCode::TaskNotFound.code(), -32001);
/// assert_eq!(A2aErrorCode::from_reason("TASK_NOT_FOUND"), Some(A2aErrorCode::TaskNotFound));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum A2aErrorCode {
    /// The task does not exist, or the client may not see it.
    TaskNotFound,
    /// The task has already ended.
    TaskNotCancelable,
    /// The agent does not support push notifications.
    PushNotificationNotSupported,
    /// The agent does not support the operation.
    UnsupportedOperation,
    /// The agent does not accept a media type of the message.
    ContentTypeNotSupported,
    /// The agent returned an invalid response.
    InvalidAgentResponse,
    /// The agent has no extended card.
    ExtendedAgentCardNotConfigured,
    /// The agent requires a protocol extension that the client did not declare.
    ExtensionSupportRequired,
    /// The agent does not support this version of the protocol.
    VersionNotSupported,
    /// The request is not valid JSON.
    Parse,
    /// The request is not a valid JSON-RPC request.
    InvalidRequest,
    /// The method does not exist.
    MethodNotFound,
    /// The parameters are invalid.
    InvalidParams,
    /// The agent failed internally.
    Internal,
}

use A2aErrorCode::*;

/// Error, JSON-RPC code, `reason`, HTTP status and `google.rpc` status.
const TABLE: [(A2aErrorCode, i32, &str, u16, &str); 14] = [
    (TaskNotFound, -32001, "TASK_NOT_FOUND", 404, "NOT_FOUND"),
    (TaskNotCancelable, -32002, "TASK_NOT_CANCELABLE", 400, "FAILED_PRECONDITION"),
    (
        PushNotificationNotSupported,
        -32003,
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        400,
        "FAILED_PRECONDITION",
    ),
    (UnsupportedOperation, -32004, "UNSUPPORTED_OPERATION", 400, "FAILED_PRECONDITION"),
    (ContentTypeNotSupported, -32005, "CONTENT_TYPE_NOT_SUPPORTED", 400, "INVALID_ARGUMENT"),
    (InvalidAgentResponse, -32006, "INVALID_AGENT_RESPONSE", 500, "INTERNAL"),
    (
        ExtendedAgentCardNotConfigured,
        -32007,
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        400,
        "FAILED_PRECONDITION",
    ),
    (ExtensionSupportRequired, -32008, "EXTENSION_SUPPORT_REQUIRED", 400, "FAILED_PRECONDITION"),
    (VersionNotSupported, -32009, "VERSION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION"),
    (Parse, -32700, "PARSE_ERROR", 400, "INVALID_ARGUMENT"),
    (InvalidRequest, -32600, "INVALID_REQUEST", 400, "INVALID_ARGUMENT"),
    (MethodNotFound, -32601, "METHOD_NOT_FOUND", 404, "NOT_FOUND"),
    (InvalidParams, -32602, "INVALID_PARAMS", 400, "INVALID_ARGUMENT"),
    (Internal, -32603, "INTERNAL_ERROR", 500, "INTERNAL"),
];

impl A2aErrorCode {
    /// Returns the JSON-RPC error code, such as -32001.
    pub fn code(self) -> i32 {
        self.row().1
    }

    /// Returns the `reason` in the details of the error, such as `TASK_NOT_FOUND`.
    pub fn reason(self) -> &'static str {
        self.row().2
    }

    /// Returns the status of the HTTP response, such as 404.
    pub fn http_status(self) -> u16 {
        self.row().3
    }

    /// Returns the `google.rpc` status in the body of an HTTP response, such as `NOT_FOUND`.
    pub fn status(self) -> &'static str {
        self.row().4
    }

    /// Returns the error with a JSON-RPC code, or `None` if the code is unknown.
    pub fn from_code(code: i64) -> Option<Self> {
        TABLE.iter().find(|row| i64::from(row.1) == code).map(|row| row.0)
    }

    /// Returns the error with a `reason`, or `None` if the reason is unknown.
    pub fn from_reason(reason: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.2 == reason).map(|row| row.0)
    }

    fn row(self) -> &'static (Self, i32, &'static str, u16, &'static str) {
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[TABLE.len() - 1])
    }
}

impl fmt::Display for A2aErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::{A2aErrorCode, TABLE};

    #[test]
    fn every_error_is_found_by_its_code_and_by_its_reason() {
        for (error, code, reason, _, _) in TABLE {
            assert_eq!(error.code(), code);
            assert_eq!(A2aErrorCode::from_code(i64::from(code)), Some(error));
            assert_eq!(A2aErrorCode::from_reason(reason), Some(error));
        }
        assert_eq!(A2aErrorCode::from_code(-32099), None);
    }
}
