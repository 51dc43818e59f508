//! `A2aRelay`: the model of an agent that only passes on, so that an agent of another program can have a conversation of its own,
//! as one that others transfer to. It decides nothing: a message of the user becomes a call of the agent's tool, and the tool's
//! answer becomes the answer.

use std::sync::Arc;

use futures_util::stream;
use serde_json::{Value, json};

use super::remote_tool::INPUT_REQUIRED;
use crate::message::{Conversation, Message, Part, Role, ToolCall, ToolResult};
use crate::model::{
    Model, ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream,
};
use crate::tool::wire_name;

/// A [`Model`] that passes every message of the user on to an agent of another program, by its tool, and answers as that agent
/// does; made by [`A2aClient::relay`](super::A2aClient::relay). No provider is asked.
///
/// The conversation with the agent continues with its `context`, and what it asks is answered by the user's next message. Since
/// the message is a tool call, its policy, its record and its limits are those of the tool: after a crash it is not sent twice.
#[derive(Clone, Debug)]
pub struct A2aRelay {
    info: ModelInfo,
    /// The tool, as models know it.
    tool: String,
}

impl A2aRelay {
    pub(super) fn new(agent: &Arc<str>) -> Self {
        Self { info: ModelInfo::new("a2a-relay", Arc::clone(agent)), tool: wire_name(&format!("a2a.{agent}")) }
    }

    fn answer(&self, messages: &Conversation) -> Result<ModelResponse, ModelError> {
        let newest = messages.last().filter(|message| message.role() == Role::Tool);
        if let Some(result) = newest.and_then(|message| message.results().find(|result| result.name == self.tool)) {
            if !result.status.is_success() {
                return Err(ModelError::new(ModelErrorKind::InvalidResponse, result.text()).permanent());
            }
            let answered: Value = serde_json::from_str(&result.output).unwrap_or_default();
            let text = answered["output"].as_str().map_or_else(|| result.output.clone(), ToOwned::to_owned);
            return Ok(ModelResponse::new(Message::assistant(text)));
        }
        let said = messages.messages().iter().rfind(|message| message.role() == Role::User);
        let text = said.map(|message| message.text().into_owned()).unwrap_or_default();
        let mut arguments = json!({"message": text});
        if let Some(earlier) = self.newest_result(messages) {
            let answered: Value = serde_json::from_str(&earlier.output).unwrap_or_default();
            let asks = answered["state"] == INPUT_REQUIRED;
            let fields = ["context", "task"].into_iter().filter(|field| asks || *field != "task");
            for field in fields.filter(|field| answered[*field].is_string()) {
                arguments[field] = answered[field].clone();
            }
        }
        let call = ToolCall::new(format!("relay-{}", messages.len()), &self.tool, arguments.to_string());
        Ok(ModelResponse::new(Message::new(Role::Assistant, vec![Part::ToolCall(Arc::new(call))])))
    }

    /// What the agent answered last.
    fn newest_result<'c>(&self, messages: &'c Conversation) -> Option<&'c ToolResult> {
        let all = messages.messages().iter().rev();
        all.flat_map(|message| message.results()).find(|result| result.name == self.tool).map(|result| &**result)
    }
}

impl Model for A2aRelay {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let answer = self.answer(&request.messages).map(|response| ModelEvent::Completed(Box::new(response)));
        ModelStream::new(stream::iter([answer]))
    }
}
