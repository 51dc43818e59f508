//! Masks the client's keys in each message of its server, before other code sees the message.

use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ErrorData, GetExtensions, JsonRpcError, JsonRpcMessage};
use rmcp::service::RxJsonRpcMessage;
use serde::Serialize;
use serde::de::DeserializeOwned;

use agentflow_core::__private::extension::SecretMasker;

/// Returns the message with its keys masked. If a response cannot be parsed after masking, returns
/// an error response instead. For other such messages, returns `None`.
pub(super) fn masked(
    message: RxJsonRpcMessage<RoleClient>,
    hidden: &SecretMasker,
) -> Option<RxJsonRpcMessage<RoleClient>> {
    if hidden.is_empty() {
        return Some(message);
    }
    Some(match message {
        JsonRpcMessage::Response(mut response) => match masked_part(&response.result, hidden) {
            MaskedPart::Unchanged => JsonRpcMessage::Response(response),
            MaskedPart::Changed(result) => {
                response.result = result;
                JsonRpcMessage::Response(response)
            }
            MaskedPart::Unusable => {
                // The caller gets an error instead of waiting for a response.
                let problem =
                    "the answer holds a key of this program and cannot be read without it";
                let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, problem, None);
                JsonRpcMessage::Error(JsonRpcError::new(Some(response.id), error))
            }
        },
        JsonRpcMessage::Error(mut error) => {
            if let Some(masked) = hidden.masked(&error.error.message) {
                error.error.message = masked.into();
            }
            if let Some(data) = &mut error.error.data {
                hidden.mask_value(data);
            }
            JsonRpcMessage::Error(error)
        }
        JsonRpcMessage::Request(mut request) => {
            request.request = masked_call(request.request, hidden)?;
            JsonRpcMessage::Request(request)
        }
        JsonRpcMessage::Notification(mut notification) => {
            notification.notification = masked_call(notification.notification, hidden)?;
            JsonRpcMessage::Notification(notification)
        }
    })
}

/// Masks a request or a notification. Keeps the extensions that the transport has set, because they
/// are not part of the JSON.
fn masked_call<T>(call: T, hidden: &SecretMasker) -> Option<T>
where
    T: Serialize + DeserializeOwned + GetExtensions,
{
    match masked_part(&call, hidden) {
        MaskedPart::Unchanged => Some(call),
        MaskedPart::Changed(mut masked) => {
            masked.extensions_mut().clone_from(call.extensions());
            Some(masked)
        }
        MaskedPart::Unusable => {
            tracing::warn!(
                "a message of an MCP server holds a key of this program and is left out"
            );
            None
        }
    }
}

enum MaskedPart<T> {
    Unchanged,
    Changed(T),
    /// The message cannot be parsed after masking.
    Unusable,
}

fn masked_part<T: Serialize + DeserializeOwned>(part: &T, hidden: &SecretMasker) -> MaskedPart<T> {
    let Ok(mut value) = serde_json::to_value(part) else { return MaskedPart::Unusable };
    let found = match value.as_object_mut() {
        // The method name is not masked, because it determines the type of the message.
        Some(fields) if fields.contains_key("method") => {
            fields.get_mut("params").is_some_and(|params| hidden.mask_value(params))
        }
        _ => hidden.mask_value(&mut value),
    };
    if !found {
        return MaskedPart::Unchanged;
    }
    match serde_json::from_value(value) {
        Ok(masked) => MaskedPart::Changed(masked),
        Err(_) => MaskedPart::Unusable,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;
    use rmcp::service::InboundStreamOrigin;
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str = "sk-1234567890";

    fn message(of: &str, value: Value) -> RxJsonRpcMessage<RoleClient> {
        let mut message = json!({"jsonrpc": "2.0", "id": 7});
        message[of] = value;
        serde_json::from_value(message).unwrap()
    }

    #[test]
    fn no_message_of_a_server_has_a_key() {
        let hidden = SecretMasker::new([KEY.to_owned()]);
        let text = json!({"type": "text", "text": format!("your header was Bearer {KEY}")});
        let inside = json!({"note": KEY}).to_string();
        for message in [
            message("result", json!({"content": [text], "structuredContent": {"key": KEY, "inside": inside, KEY: 1}})),
            message(
                "result",
                json!({"tools": [{"name": "a", "description": KEY, "inputSchema": {
                    "type": "object", "properties": {KEY: {"type": "string", "description": KEY}},
                }}]}),
            ),
            message("result", json!({"contents": [{"uri": "note://a", "text": KEY}]})),
            message("result", json!({"contents": [{"uri": "note://a", "blob": "a2V5PXNrLTEyMzQ1Njc4OTA="}]})),
            message("result", json!({"messages": [{"role": "user", "content": text}]})),
            message("error", json!({"code": -32000, "message": KEY, "data": {"key": [KEY]}})),
            serde_json::from_value(json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {
                "mode": "form", "message": KEY, "requestedSchema": {"type": "object", "properties": {
                    "answer": {"type": "string", "description": KEY},
                }},
            }}))
            .unwrap(),
            serde_json::from_value(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": 1, "progress": 1, "message": KEY,
            }}))
            .unwrap(),
        ] {
            let before = serde_json::to_value(&message).unwrap();
            let after = serde_json::to_string(&masked(message, &hidden).unwrap()).unwrap();
            assert!(after.contains("***") || after.contains("a2V5PSoqKg=="), "{after}");
            assert!(!after.contains(KEY) && !after.contains("a2V5PXNrLTEy"), "{after}");
            assert_eq!(before["id"], serde_json::from_str::<Value>(&after).unwrap()["id"]);
        }
    }

    #[test]
    fn a_question_keeps_the_stream_that_it_came_on() {
        let mut asked: RxJsonRpcMessage<RoleClient> = serde_json::from_value(json!({
            "jsonrpc": "2.0", "id": 7, "method": "elicitation/create",
            "params": {"mode": "form", "message": KEY, "requestedSchema": {"type": "object", "properties": {}}},
        }))
        .unwrap();
        let JsonRpcMessage::Request(request) = &mut asked else { panic!("a request") };
        request
            .request
            .extensions_mut()
            .insert(InboundStreamOrigin::OutboundRequest(RequestId::Number(3)));
        let hidden = SecretMasker::new([KEY.to_owned(), "elicitation/create".to_owned()]);
        let Some(JsonRpcMessage::Request(request)) = masked(asked, &hidden) else {
            panic!("a request")
        };
        assert!(request.request.extensions().get::<InboundStreamOrigin>().is_some());
    }
}
