//! Errors for requests whose method is unknown or whose parameters are invalid.

use agentflow_schema::text::head;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, CompleteRequestParams, CustomRequest, ErrorCode,
    GetPromptRequestParams, GetTaskParams, PaginatedRequestParams, ReadResourceRequestParams,
    UpdateTaskParams,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum number of bytes of a name or a reason in an error.
const MOST_WORDS: usize = 256;

/// Returns the error for a request that `rmcp` could not parse as a request of the protocol.
pub(super) fn refused(request: &CustomRequest) -> ErrorData {
    let method = head(&request.method, MOST_WORDS);
    match problem(&request.method, request.params.clone().unwrap_or_default()) {
        Some(problem) => {
            let problem =
                format!("the parameters of `{method}` do not fit: {}", head(&problem, MOST_WORDS));
            ErrorData::invalid_params(problem, None)
        }
        None => {
            let problem = format!("this server has no method `{method}`");
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, problem, None)
        }
    }
}

/// Returns the problem with the parameters of a method that all revisions have. Returns `None` for
/// other methods, which count as unknown.
fn problem(method: &str, params: Value) -> Option<String> {
    Some(match method {
        "tools/call" => of::<CallToolRequestParams>(params),
        "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" => {
            of::<Option<PaginatedRequestParams>>(params)
        }
        "resources/read" => of::<ReadResourceRequestParams>(params),
        "prompts/get" => of::<GetPromptRequestParams>(params),
        "completion/complete" => of::<CompleteRequestParams>(params),
        "tasks/get" => of::<GetTaskParams>(params),
        "tasks/update" => of::<UpdateTaskParams>(params),
        "tasks/cancel" => of::<CancelTaskParams>(params),
        "server/discover" | "subscriptions/listen" => of::<serde_json::Map<String, Value>>(params),
        _ => return None,
    })
}

fn of<P: DeserializeOwned>(params: Value) -> String {
    match serde_json::from_value::<P>(params) {
        Err(error) => error.to_string(),
        Ok(_) => "they are not those of this method".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_that_is_not_read_says_why() {
        let refused = |method: &str, params: Value| {
            let error = refused(&CustomRequest::new(method, Some(params)));
            (error.code.0, error.message.into_owned())
        };
        let (code, problem) = refused("tools/call", json!({"name": 5}));
        assert_eq!(code, -32602);
        assert!(
            problem.starts_with(
                "the parameters of `tools/call` do not fit: invalid type: integer `5`"
            ),
            "{problem}"
        );
        assert_eq!(
            refused("tools/cal", json!({})),
            (-32601, "this server has no method `tools/cal`".to_owned())
        );
        assert!(refused(&"x".repeat(10_000), json!({})).1.len() < 300);
        let (code, problem) = refused("server/discover", json!([]));
        assert_eq!(code, -32602, "{problem}");
        // The newest revision does not have this method.
        assert_eq!(refused("ping", json!([])).0, -32601);
    }
}
