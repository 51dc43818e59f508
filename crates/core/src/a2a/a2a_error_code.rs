//! The errors of the protocol: their codes, names and statuses. It sends none.

use std::fmt;

/// An error that the protocol names, or one of JSON-RPC.
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
    /// There is no such task, or the client may not see it.
    TaskNotFound,
    /// The task has ended.
    TaskNotCancelable,
    /// The agent sends no push notifications.
    PushNotificationNotSupported,
    /// The agent does not do this.
    UnsupportedOperation,
    /// The agent does not read a media type of the message.
    ContentTypeNotSupported,
    /// The agent itself gave an answer that is not one.
    InvalidAgentResponse,
    /// The agent has no extended card.
    ExtendedAgentCardNotConfigured,
    /// The agent asks for an extension that the client did not name.
    ExtensionSupportRequired,
    /// The agent does not speak this version of the protocol.
    VersionNotSupported,
    /// The request is not JSON.
    Parse,
    /// The request is not one of JSON-RPC.
    InvalidRequest,
    /// There is no such method.
    MethodNotFound,
    /// The parameters do not fit.
    InvalidParams,
    /// Something went wrong in the agent.
    Internal,
}

use A2aErrorCode::*;

/// Code of JSON-RPC, reason, status of HTTP, status of `google.rpc`.
const TABLE: [(A2aErrorCode, i32, &str, u16, &str); 14] = [
    (TaskNotFound, -32001, "TASK_NOT_FOUND", 404, "NOT_FOUND"),
    (TaskNotCancelable, -32002, "TASK_NOT_CANCELABLE", 400, "FAILED_PRECONDITION"),
    (PushNotificationNotSupported, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION"),
    (UnsupportedOperation, -32004, "UNSUPPORTED_OPERATION", 400, "FAILED_PRECONDITION"),
    (ContentTypeNotSupported, -32005, "CONTENT_TYPE_NOT_SUPPORTED", 400, "INVALID_ARGUMENT"),
    (InvalidAgentResponse, -32006, "INVALID_AGENT_RESPONSE", 500, "INTERNAL"),
    (ExtendedAgentCardNotConfigured, -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", 400, "FAILED_PRECONDITION"),
    (ExtensionSupportRequired, -32008, "EXTENSION_SUPPORT_REQUIRED", 400, "FAILED_PRECONDITION"),
    (VersionNotSupported, -32009, "VERSION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION"),
    (Parse, -32700, "PARSE_ERROR", 400, "INVALID_ARGUMENT"),
    (InvalidRequest, -32600, "INVALID_REQUEST", 400, "INVALID_ARGUMENT"),
    (MethodNotFound, -32601, "METHOD_NOT_FOUND", 404, "NOT_FOUND"),
    (InvalidParams, -32602, "INVALID_PARAMS", 400, "INVALID_ARGUMENT"),
    (Internal, -32603, "INTERNAL_ERROR", 500, "INTERNAL"),
];

impl A2aErrorCode {
    /// The code of JSON-RPC, such as -32001.
    pub fn code(self) -> i32 {
        self.row().1
    }

    /// The `reason` of an error's details, such as `TASK_NOT_FOUND`.
    pub fn reason(self) -> &'static str {
        self.row().2
    }

    /// The status of an HTTP response, such as 404.
    pub fn http_status(self) -> u16 {
        self.row().3
    }

    /// The status of an error in a response over HTTP, such as `NOT_FOUND`.
    pub fn status(self) -> &'static str {
        self.row().4
    }

    /// The error of a code of JSON-RPC.
    pub fn from_code(code: i64) -> Option<Self> {
        TABLE.iter().find(|row| i64::from(row.1) == code).map(|row| row.0)
    }

    /// The error of a `reason`.
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
