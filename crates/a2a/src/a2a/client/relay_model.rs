//! `A2aRelay`: a model that forwards messages to a remote agent, so that the remote agent can take
//! part in sessions and handoffs. A message of the user becomes a call of the agent's tool, and the
//! result of the tool becomes the answer.

use std::sync::Arc;

use futures_util::stream;
use serde_json::{Value, json};

use super::remote_tool::INPUT_REQUIRED;
use agentflow_core::__private::extension::wire_name;
use agentflow_core::message::{Conversation, Message, Part, Role, ToolCall, ToolResult};
use agentflow_core::model::{
    Model, ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelRequest, ModelResponse,
    ModelStream,
};

/// A [`Model`] that forwards every message of the user to a remote agent, by calling its tool, and
/// answers with the result; created by [`A2aClient::relay`](super::A2aClient::relay). It does not
/// call a model provider.
///
/// The conversation with the agent continues by its `context`. If the agent asks a question, the
/// user's next message is the answer. Each message is a tool call, so the tool's policy, journal
/// records and limits apply: after a crash it is not sent twice.
#[derive(Clone, Debug)]
pub struct A2aRelay {
    info: ModelInfo,
    /// Name of the tool as models know it.
    tool: String,
}

impl A2aRelay {
    pub(super) fn new(agent: &Arc<str>) -> Self {
        Self {
            info: ModelInfo::new("a2a-relay", Arc::clone(agent)),
            tool: wire_name(&format!("a2a.{agent}")),
        }
    }

    fn answer(&self, messages: &Conversation) -> Result<ModelResponse, ModelError> {
        let newest = messages.last().filter(|message| message.role() == Role::Tool);
        // The previous turn called the tool: its result is the answer.
        if let Some(result) =
            newest.and_then(|message| message.results().find(|result| result.name == self.tool))
        {
            if !result.status.is_success() {
                return Err(
                    ModelError::new(ModelErrorKind::InvalidResponse, result.text()).permanent()
                );
            }
            let answered: Value = serde_json::from_str(&result.output).unwrap_or_default();
            let text = answered["output"]
                .as_str()
                .map_or_else(|| result.output.clone(), ToOwned::to_owned);
            return Ok(ModelResponse::new(Message::assistant(text)));
        }
        // Otherwise the user's newest message is forwarded, in the conversation of the previous
        // result.
        let said = messages.messages().iter().rfind(|message| message.role() == Role::User);
        let text = said.map(|message| message.text().into_owned()).unwrap_or_default();
        let mut arguments = json!({"message": text});
        if let Some(earlier) = self.newest_result(messages) {
            let answered: Value = serde_json::from_str(&earlier.output).unwrap_or_default();
            let asks = answered["state"] == INPUT_REQUIRED;
            // A completed task does not accept further messages, so the task is named only if it
            // asks a question.
            let fields = ["context", "task"].into_iter().filter(|field| asks || *field != "task");
            for field in fields.filter(|field| answered[*field].is_string()) {
                arguments[field] = answered[field].clone();
            }
        }
        let call =
            ToolCall::new(format!("relay-{}", messages.len()), &self.tool, arguments.to_string());
        Ok(ModelResponse::new(Message::new(Role::Assistant, vec![Part::ToolCall(Arc::new(call))])))
    }

    /// Returns the newest result of the tool.
    fn newest_result<'c>(&self, messages: &'c Conversation) -> Option<&'c ToolResult> {
        let all = messages.messages().iter().rev();
        all.flat_map(|message| message.results())
            .find(|result| result.name == self.tool)
            .map(|result| &**result)
    }
}

impl Model for A2aRelay {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let answer = self
            .answer(&request.messages)
            .map(|response| ModelEvent::Completed(Box::new(response)));
        ModelStream::new(stream::iter([answer]))
    }
}
