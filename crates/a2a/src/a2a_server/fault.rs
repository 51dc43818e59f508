//! `Fault`: the error response to a request, in both bindings.

use serde_json::{Value, json};

use crate::a2a::A2aErrorCode;
use agentflow_core::error::Error;

/// Domain of the protocol's errors in `google.rpc.ErrorInfo`.
const DOMAIN: &str = "a2a-protocol.org";

/// An error response.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) code: A2aErrorCode,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(code: A2aErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(A2aErrorCode::InvalidParams, message)
    }

    pub(super) fn no_task() -> Self {
        Self::new(A2aErrorCode::TaskNotFound, "there is no such task")
    }

    /// Returns the response to an internal error. The error is logged and not shown to the client.
    pub(super) fn internal(error: &Error) -> Self {
        tracing::error!(error = %error, "a request of the Agent2Agent protocol failed");
        Self::new(A2aErrorCode::Internal, "the server could not do this; its log says why")
    }

    fn details(&self) -> Value {
        json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": self.code.reason(), "domain": DOMAIN,
        }])
    }

    /// Returns the JSON-RPC response.
    pub(super) fn to_rpc(&self, id: &Value) -> Value {
        let error =
            json!({"code": self.code.code(), "message": self.message, "data": self.details()});
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }

    /// Returns the body of an HTTP+JSON response.
    pub(super) fn to_rest(&self) -> Value {
        json!({"error": {
            "code": self.code.http_status(), "status": self.code.status(), "message": self.message,
            "details": self.details(),
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_in_both_bindings() {
        let table = [
            (A2aErrorCode::TaskNotFound, -32001, "TASK_NOT_FOUND", 404, "NOT_FOUND"),
            (
                A2aErrorCode::TaskNotCancelable,
                -32002,
                "TASK_NOT_CANCELABLE",
                400,
                "FAILED_PRECONDITION",
            ),
            (
                A2aErrorCode::PushNotificationNotSupported,
                -32003,
                "PUSH_NOTIFICATION_NOT_SUPPORTED",
                400,
                "FAILED_PRECONDITION",
            ),
            (
                A2aErrorCode::UnsupportedOperation,
                -32004,
                "UNSUPPORTED_OPERATION",
                400,
                "FAILED_PRECONDITION",
            ),
            (
                A2aErrorCode::ContentTypeNotSupported,
                -32005,
                "CONTENT_TYPE_NOT_SUPPORTED",
                400,
                "INVALID_ARGUMENT",
            ),
            (A2aErrorCode::InvalidAgentResponse, -32006, "INVALID_AGENT_RESPONSE", 500, "INTERNAL"),
            (
                A2aErrorCode::ExtendedAgentCardNotConfigured,
                -32007,
                "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
                400,
                "FAILED_PRECONDITION",
            ),
            (
                A2aErrorCode::ExtensionSupportRequired,
                -32008,
                "EXTENSION_SUPPORT_REQUIRED",
                400,
                "FAILED_PRECONDITION",
            ),
            (
                A2aErrorCode::VersionNotSupported,
                -32009,
                "VERSION_NOT_SUPPORTED",
                400,
                "FAILED_PRECONDITION",
            ),
            (A2aErrorCode::Parse, -32700, "PARSE_ERROR", 400, "INVALID_ARGUMENT"),
            (A2aErrorCode::InvalidRequest, -32600, "INVALID_REQUEST", 400, "INVALID_ARGUMENT"),
            (A2aErrorCode::MethodNotFound, -32601, "METHOD_NOT_FOUND", 404, "NOT_FOUND"),
            (A2aErrorCode::InvalidParams, -32602, "INVALID_PARAMS", 400, "INVALID_ARGUMENT"),
            (A2aErrorCode::Internal, -32603, "INTERNAL_ERROR", 500, "INTERNAL"),
        ];
        for (code, number, reason, http, status) in table {
            let fault = Fault::new(code, "because");
            let info = json!([{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org",
            }]);
            assert_eq!(
                fault.to_rpc(&json!(7)),
                json!({"jsonrpc": "2.0", "id": 7, "error": {"code": number, "message": "because", "data": info}})
            );
            assert_eq!(
                fault.to_rest(),
                json!({"error": {"code": http, "status": status, "message": "because", "details": info}})
            );
        }
    }
}
