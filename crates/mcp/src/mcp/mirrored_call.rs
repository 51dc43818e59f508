//! Executes a call to a server's tool, including the server's questions during the call.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agentflow_schema::schema_check::SchemaCheck;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CreateTaskResult, CustomResult,
    InputRequiredResult, InputResponses, JsonObject, ServerResult,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::connection::Connection;
use super::elicited::{self, MOST_TIMES};
use super::mcp_answer;
use super::mcp_error::McpError;
use super::server_link::ServerLink;
use agentflow_core::Context;
use agentflow_core::tool::{Effects, ToolError, ToolOutput, WaitingCall};

/// Maximum number of bytes of the state that a server returns for a waiting call.
const MOST_STATE: usize = 256 << 10;
/// First pause before a call is repeated that the server has postponed. Each further pause is twice
/// as long.
const PUT_OFF: Duration = Duration::from_secs(1);

/// A server's tool with the settings of its calls.
pub(super) struct RemoteToolCall {
    pub(super) link: Arc<ServerLink>,
    /// Name of the tool at the server.
    pub(super) name: Arc<str>,
    pub(super) is_repeatable: bool,
    pub(super) effects: Effects,
    pub(super) check: Option<SchemaCheck>,
}

/// State of a call that waits for answers. It is recorded, so that the call can continue after a
/// restart.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Continuation {
    /// Opaque state of the server, sent back with the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The server's keys of the questions, in order.
    questions: Vec<String>,
}

/// Additional values of a repeated call: the server's state and the answers to its questions.
#[derive(Clone, Default)]
struct RepeatedInput {
    token: Option<String>,
    responses: Option<InputResponses>,
}

impl RemoteToolCall {
    /// Calls the tool until it returns a result. Dropping the future cancels the call.
    pub(super) async fn made(
        &self,
        cx: &Context,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            // A tool without parameters may be called with `null`.
            Value::Null => JsonObject::new(),
            _ => return Err(ToolError::invalid_arguments("the arguments must be an object")),
        };
        let can_wait = self.can_wait(cx);
        // After a restart, the call continues with the questions that were recorded before.
        let mut given = match WaitingCall::resumed(cx).filter(|_| can_wait) {
            Some(waiting) => self.answered(waiting).await?,
            None => RepeatedInput::default(),
        };
        let failed = |error: McpError| error.into_tool_error(self.effects);
        for round in 0..MOST_TIMES {
            // A response is the result, or asks for another round.
            match self.sent(cx, &arguments, &given, can_wait).await.map_err(failed)? {
                ServerResult::CallToolResult(result) => {
                    return mcp_answer::output(result, self.check.as_ref());
                }
                ServerResult::InputRequiredResult(asked) => {
                    given = self.asked(cx, asked, can_wait, round).await?;
                }
                ServerResult::CreateTaskResult(CreateTaskResult { .. }) => {
                    return Err(ToolError::new(
                        "the tool began a task, whose end this program cannot wait for; do without it",
                    ));
                }
                ServerResult::CustomResult(CustomResult(result)) => {
                    let Some(result) = mcp_answer::with_known_blocks(result) else {
                        return Err(self.problem("gave an answer that is not one of a tool"));
                    };
                    return mcp_answer::output(result, self.check.as_ref());
                }
                _ => return Err(self.problem("gave an answer that is not one of a tool")),
            }
        }
        Err(self
            .problem(&format!("asked for more {MOST_TIMES} times in one call, which is the most")))
    }

    /// Returns `true` if the current call is recorded as a call to this tool, so that it can wait
    /// for answers across restarts.
    fn can_wait(&self, cx: &Context) -> bool {
        let in_catalogue = format!("mcp.{}.{}", self.link.name(), self.name);
        WaitingCall::can_begin(cx, &in_catalogue) || WaitingCall::can_begin(cx, &self.name)
    }

    /// Puts the server's questions to people, and returns the values for the next request.
    async fn asked(
        &self,
        cx: &Context,
        asked: InputRequiredResult,
        can_wait: bool,
        round: u32,
    ) -> Result<RepeatedInput, ToolError> {
        let InputRequiredResult { input_requests, request_state: token, .. } = asked;
        if token.as_ref().is_some_and(|token| token.len() > MOST_STATE) {
            return Err(self.problem(&format!(
                "gave a state of more than {MOST_STATE} bytes to continue the call with"
            )));
        }
        let requests = input_requests.unwrap_or_default();
        // Without questions, the server only wants the call to be repeated later.
        if requests.is_empty() {
            tokio::time::sleep(PUT_OFF.saturating_mul(1 << round.min(5))).await;
            return Ok(RepeatedInput { token, responses: None });
        }
        if requests.len() > MOST_TIMES as usize {
            return Err(self.problem(&format!(
                "asks {} questions at once, and {MOST_TIMES} is the most",
                requests.len()
            )));
        }
        let server = self.link.name();
        let questions = requests.values().map(|request| elicited::question(server, request));
        let questions =
            questions.collect::<Result<Vec<_>, _>>().map_err(|problem| self.problem(&problem))?;
        if !can_wait {
            return Err(ToolError::new(format!(
                "the tool asks a person: {}\nNobody can be asked here: the call is not one of a run with a store. Do \
                 without it",
                questions.first().map_or("", |question| &question.message)
            )));
        }
        let state = Continuation { token, questions: requests.into_keys().collect() };
        self.answered(WaitingCall::begin(cx, &state, questions).await?).await
    }

    /// Waits for the answers to all questions of a waiting call.
    async fn answered(&self, waiting: WaitingCall) -> Result<RepeatedInput, ToolError> {
        let state: Continuation = waiting.state().decode().map_err(|error| {
            self.problem(&format!(
                "was waited for by another release of this program, whose notes cannot be read: {error}"
            ))
        })?;
        let answers = waiting.answers(self.is_repeatable).await?;
        let responses = state.questions.into_iter().zip(&answers).map(|(key, answer)| {
            (key, serde_json::to_value(elicited::answer(answer)).unwrap_or_default())
        });
        Ok(RepeatedInput { token: state.token, responses: Some(responses.collect()) })
    }

    /// Sends the call. If the connection is lost, sends it once more over a new connection, but
    /// only if the tool is repeatable.
    async fn sent(
        &self,
        cx: &Context,
        arguments: &JsonObject,
        given: &RepeatedInput,
        can_wait: bool,
    ) -> Result<ServerResult, McpError> {
        match self.send_once(cx, arguments, given, can_wait).await {
            Err(error) if error.is_lost() && self.is_repeatable => {
                self.send_once(cx, arguments, given, can_wait).await
            }
            first => first,
        }
    }

    async fn send_once(
        &self,
        cx: &Context,
        arguments: &JsonObject,
        given: &RepeatedInput,
        can_wait: bool,
    ) -> Result<ServerResult, McpError> {
        let connection: Arc<Connection> = self.link.connection().await?;
        let mut params =
            CallToolRequestParams::new(self.name.to_string()).with_arguments(arguments.clone());
        params.input_responses.clone_from(&given.responses);
        params.request_state.clone_from(&given.token);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let (mut call, questions) = connection.questions().of_call(can_wait);
        // Older servers ask over the open connection. Such questions are answered while the call
        // runs.
        let answer = {
            let sent_as = |request| call.set_request(request);
            let mut asked =
                pin!(connection.request_with_id("tools/call", request, sent_as, |progress| {
                    cx.emit(&progress);
                }));
            tokio::select! {
                biased;
                answer = &mut asked => answer,
                never = questions.answered(cx, self.link.name()) => match never {},
            }
        };
        // A call without a final answer may still run at the server; see `QuestionRoutes`.
        let is_over = match &answer {
            Ok(_) | Err(McpError::Refused { .. } | McpError::Answer { .. }) => true,
            // In these cases the server has not executed the call, so it cannot ask anything for
            // it.
            Err(error) => matches!(error, McpError::Unauthorized { .. } | McpError::Connect { .. }),
        };
        if is_over {
            call.has_answer();
        }
        if answer.is_ok() {
            connection.count_answer();
        }
        answer
    }

    fn problem(&self, what: &str) -> ToolError {
        ToolError::new(format!("the MCP server `{}` {what}", self.link.name()))
    }
}
