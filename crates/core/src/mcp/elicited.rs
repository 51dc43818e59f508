//! What a server asks a person, as one of our questions, and the answer as the server gets it. It asks nobody.

use agentflow_schema::text::head;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest};
use serde_json::{Value, json};

use crate::tool::{CallAnswer, UserQuestion};

/// How often a server may ask in one call, and the most questions that it may ask at once.
pub(super) const MOST_TIMES: u32 = 10;
/// The most bytes of a question.
const MOST_MESSAGE: usize = 16 << 10;
/// The most bytes of the schema of an answer.
const MOST_SCHEMA: usize = 64 << 10;

/// What a server asks in the place of an answer.
///
/// # Errors
/// What it cannot have, in words that follow the server's name.
pub(super) fn question(server: &str, request: &InputRequest) -> Result<UserQuestion, String> {
    match request {
        InputRequest::Elicitation(request) => of_params(server, &request.params),
        InputRequest::CreateMessage(_) => Err("asks for a model of this program, which it may not use".to_owned()),
        InputRequest::ListRoots(_) => Err("asks for folders of this program, which has none for it".to_owned()),
        _ => Err("asks for something that this program does not know".to_owned()),
    }
}

/// The question of an elicitation. Its answer is an object, or `null` from whoever declines.
///
/// # Errors
/// As [`question`].
pub(super) fn of_params(server: &str, params: &ElicitRequestParams) -> Result<UserQuestion, String> {
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = params else {
        return Err("wants a person to open an address, which this program does not offer".to_owned());
    };
    let schema = serde_json::to_value(requested_schema).unwrap_or_default();
    let size = schema.to_string().len();
    if size > MOST_SCHEMA {
        return Err(format!("asks with a schema of {size} bytes, and {MOST_SCHEMA} is the most"));
    }
    let message = format!("the MCP server `{server}` asks: {}", head(message, MOST_MESSAGE));
    Ok(UserQuestion::new(message, json!({"anyOf": [schema, {"type": "null", "title": "decline"}]})))
}

/// The answer of a person.
pub(super) fn answer(answer: &CallAnswer) -> ElicitResult {
    match serde_json::from_str::<Value>(answer.given.as_str()) {
        Ok(content @ Value::Object(_)) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
        _ => ElicitResult::new(ElicitationAction::Decline),
    }
}
