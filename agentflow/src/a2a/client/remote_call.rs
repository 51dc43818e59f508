//! The call of an agent of another program, with what the agent asks a person meanwhile. It knows nothing of the tool around it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::{A2aAnswer, A2aMessage, A2aTask, A2aTaskState, A2aUpdate};
use super::a2a_error::A2aError;
use super::asked::{Unfinished, asked};
use super::peer::Peer;
use crate::context::Context;
use crate::tool::{ToolError, UserQuestion, WaitingCall, wire_name};
use crate::value::Encoded;

/// How often an agent may ask in one call.
const MOST_ROUNDS: u32 = 10;

/// Whom a call asks, and how.
pub(super) struct RemoteCall {
    pub(super) peer: Arc<Peer>,
    pub(super) is_repeatable: bool,
}

/// What is needed to answer the agent.
#[derive(Serialize, Deserialize)]
struct Continuation {
    task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    /// The id of the message with the answer.
    message: String,
}

impl RemoteCall {
    /// Asks the agent until it has answered, or asks something that the caller is to answer. Dropping the future cancels the
    /// task.
    pub(super) async fn made(&self, cx: &Context, first: A2aMessage) -> Result<A2aAnswer, ToolError> {
        let can_wait = self.can_wait(cx);
        let mut message = match WaitingCall::of_earlier(cx).filter(|_| can_wait) {
            Some(waiting) => self.answered(cx, waiting).await?,
            None => first,
        };
        for round in 1..=MOST_ROUNDS {
            let answer = self.sent(cx, &message).await.map_err(A2aError::into_tool_error)?;
            match &answer {
                A2aAnswer::Task(task) if can_wait && task.status.state == A2aTaskState::InputRequired => {
                    message = self.asks(cx, task, round).await?;
                }
                _ => return Ok(answer),
            }
        }
        let name = &self.peer.name;
        Err(ToolError::new(format!("the A2A agent `{name}` asked {MOST_ROUNDS} times in one call, which is the most")))
    }

    /// Whether people are asked what the agent asks: those of a node, where no model could answer, and where the program says
    /// so. The call must be recorded as one of this tool.
    fn can_wait(&self, cx: &Context) -> bool {
        let in_catalogue = format!("a2a.{}", self.peer.name);
        let wire = wire_name(&in_catalogue);
        let may = |name: &str| match self.peer.settings.asks_people {
            true => WaitingCall::can_begin(cx, name),
            false => WaitingCall::can_begin_in_node(cx, name),
        };
        may(&wire) || may(&in_catalogue)
    }

    /// Asks a person what the agent asks, and gives the message that answers it.
    async fn asks(&self, cx: &Context, task: &A2aTask, round: u32) -> Result<A2aMessage, ToolError> {
        let asked = task.said().unwrap_or_else(|| task.text());
        let question = UserQuestion::text(format!("the A2A agent `{}` asks: {asked}", self.peer.name));
        let message = format!("{}-{}-{round}", cx.idempotency_key(), task.id);
        let state = Continuation { task: task.id.clone(), context: task.context_id.clone(), message };
        let state = Encoded::new(&state).map_err(|error| ToolError::new(error.to_string()))?;
        self.answered(cx, WaitingCall::begin(cx, state, vec![question]).await?).await
    }

    /// Waits until a person has answered. A call that is cancelled meanwhile cancels the task.
    async fn answered(&self, cx: &Context, waiting: WaitingCall) -> Result<A2aMessage, ToolError> {
        let Continuation { task, context, message } = waiting.state().decode().map_err(|error| {
            ToolError::new(format!(
                "another release of this program waited for the A2A agent `{}`: {error}",
                self.peer.name
            ))
        })?;
        let waits = WaitsForPerson { cx, unfinished: Unfinished::of(&self.peer, task.clone()) };
        let answers = waiting.answers(self.is_repeatable).await?;
        waits.over();
        let said = answers.first().and_then(|answer| answer.given.decode::<String>().ok()).unwrap_or_default();
        let message = A2aMessage::user_text(said).id(message).task(task);
        Ok(context.into_iter().fold(message, A2aMessage::context))
    }

    /// Sends a message; once more when it was lost and a second one does no harm.
    async fn sent(&self, cx: &Context, message: &A2aMessage) -> Result<A2aAnswer, A2aError> {
        let show = |update: &A2aUpdate| shown(cx, update);
        match asked(&self.peer, message, show).await {
            Err(A2aError::Lost { .. }) if self.is_repeatable => asked(&self.peer, message, show).await,
            answer => answer,
        }
    }
}

/// A task whose question waits for a person. It is cancelled with the call, and waits on when the process ends.
struct WaitsForPerson<'c> {
    cx: &'c Context,
    unfinished: Unfinished,
}

impl WaitsForPerson<'_> {
    fn over(mut self) {
        self.unfinished.settled();
    }
}

impl Drop for WaitsForPerson<'_> {
    fn drop(&mut self) {
        if self.cx.run().is_stopping() {
            self.unfinished.settled();
        }
    }
}

/// A change of the task, as progress of the call.
fn shown(cx: &Context, update: &A2aUpdate) {
    let text = match update {
        A2aUpdate::Status(update) => update.status.message.as_ref().map(A2aMessage::text),
        A2aUpdate::Artifact(update) => Some(update.artifact.text()),
        A2aUpdate::Task(_) | A2aUpdate::Message(_) => None,
    };
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        cx.emit(&text);
    }
}
