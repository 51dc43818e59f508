//! `Fault`: a request that fails, in both bindings. It decides nothing.

use serde_json::{Value, json};

use crate::a2a::A2aErrorCode;
use crate::error::Error;

/// The domain of the protocol's own errors.
const DOMAIN: &str = "a2a-protocol.org";

/// Why a request fails, as its client reads it.
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

    /// Something of this program. The log has it; the client reads nothing of it.
    pub(super) fn internal(error: &Error) -> Self {
        tracing::error!(error = %error, "a request of the Agent2Agent protocol failed");
        Self::new(A2aErrorCode::Internal, "the server could not do this; its log says why")
    }

    fn details(&self) -> Value {
        json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": self.code.reason(), "domain": DOMAIN,
        }])
    }

    /// The response of JSON-RPC.
    pub(super) fn to_rpc(&self, id: &Value) -> Value {
        let error = json!({"code": self.code.code(), "message": self.message, "data": self.details()});
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }

    /// The body of a response over HTTP.
    pub(super) fn to_rest(&self) -> Value {
        json!({"error": {
            "code": self.code.http_status(), "status": self.code.status(), "message": self.message,
            "details": self.details(),
        }})
    }
}
