//! Creates the requests for a reply of the client's model and for its folders, and parses their
//! responses.

#![expect(
    deprecated,
    reason = "the newest revision deprecates both and has nothing in their place"
)]

use rmcp::model::{
    CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, InputRequest,
    ListRootsRequest, ListRootsResult, SamplingMessage,
};
use serde::Serialize;
use serde_json::Value;

use super::client_answer::{ClientFolder, ClientFolders, ClientReply};
use agentflow_core::value::Encoded;

/// Maximum number of tokens of a reply.
const MOST_TOKENS: u32 = 4096;

/// Creates the request for a reply of the client's model.
pub(super) fn model_request(prompt: String) -> InputRequest {
    let params =
        CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], MOST_TOKENS);
    InputRequest::CreateMessage(CreateMessageRequest::new(params))
}

/// Creates the request for the client's folders.
pub(super) fn folders_request() -> InputRequest {
    InputRequest::ListRoots(ListRootsRequest::default())
}

/// Converts a reply of the client's model into the answer to a question.
///
/// # Errors
/// Fails if the response is not a reply, or has no text.
pub(super) fn reply(response: Value) -> Result<Encoded, String> {
    let result: CreateMessageResult = serde_json::from_value(response)
        .map_err(|error| format!("it is not a reply of a model: {error}"))?;
    let content = result.message.content.into_vec();
    let texts: Vec<&str> =
        content.iter().filter_map(|block| Some(block.as_text()?.text.as_str())).collect();
    if texts.is_empty() {
        return Err("the reply of the model has no text".to_owned());
    }
    encoded(&ClientReply { text: texts.join("\n"), model: Some(result.model) })
}

/// Converts the client's folders into the answer to a question.
///
/// # Errors
/// Fails if the response is not a list of folders.
pub(super) fn folders(response: Value) -> Result<Encoded, String> {
    let result: ListRootsResult = serde_json::from_value(response)
        .map_err(|error| format!("it is not a list of folders: {error}"))?;
    let folders =
        result.roots.into_iter().map(|root| ClientFolder { uri: root.uri, name: root.name });
    encoded(&ClientFolders { folders: folders.collect() })
}

fn encoded(answer: &impl Serialize) -> Result<Encoded, String> {
    Encoded::new(answer).map_err(|error| error.to_string())
}
