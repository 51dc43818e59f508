//! Converts a server's questions to a person (elicitations) into [`UserQuestion`]s, and the answers
//! back into protocol results.

use agentflow_schema::text::head;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest};
use serde_json::{Value, json};

use agentflow_core::tool::{QuestionAnswer, UserQuestion};

/// Maximum number of questions in one call, and of questions that are sent together.
pub(super) const MOST_TIMES: u32 = 10;
/// Kind of the questions of MCP servers.
const KIND: &str = "mcp.elicitation";
/// Maximum number of bytes of a question.
const MOST_MESSAGE: usize = 16 << 10;
/// Maximum number of bytes of the schema of an answer.
const MOST_SCHEMA: usize = 64 << 10;

/// Converts an input request that a server returned instead of a result.
///
/// # Errors
/// Fails if this client does not support the request. The text follows the name of the server.
pub(super) fn question(server: &str, request: &InputRequest) -> Result<UserQuestion, String> {
    match request {
        InputRequest::Elicitation(request) => question_from_params(server, &request.params),
        InputRequest::CreateMessage(_) => {
            Err("asks for a model of this program, which it may not use".to_owned())
        }
        InputRequest::ListRoots(_) => {
            Err("asks for folders of this program, which has none for it".to_owned())
        }
        _ => Err("asks for something that this program does not know".to_owned()),
    }
}

/// Converts the parameters of an elicitation. The answer to the question is an object, or `null` if
/// the person declines.
///
/// # Errors
/// Fails if the person should open an address, or if the schema is too large.
pub(super) fn question_from_params(
    server: &str,
    params: &ElicitRequestParams,
) -> Result<UserQuestion, String> {
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = params
    else {
        return Err(
            "wants a person to open an address, which this program does not offer".to_owned()
        );
    };
    let schema = serde_json::to_value(requested_schema).unwrap_or_default();
    let size = schema.to_string().len();
    if size > MOST_SCHEMA {
        return Err(format!("asks with a schema of {size} bytes, and {MOST_SCHEMA} is the most"));
    }
    let message = format!("the MCP server `{server}` asks: {}", head(message, MOST_MESSAGE));
    let answer = json!({"anyOf": [schema, {"type": "null", "title": "decline"}]});
    Ok(UserQuestion::new(message, answer).kind(KIND))
}

/// Converts the answer of a person: an object accepts, any other value declines.
pub(super) fn answer(answer: &QuestionAnswer) -> ElicitResult {
    match serde_json::from_str::<Value>(answer.given.as_str()) {
        Ok(content @ Value::Object(_)) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        _ => ElicitResult::new(ElicitationAction::Decline),
    }
}
