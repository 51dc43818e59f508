//! The call of an agent of another program, with what the agent asks a person meanwhile. It knows nothing of the tool around it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{A2aAnswer, A2aMessage, A2aTask, A2aTaskState, A2aUpdate};
use super::a2a_error::A2aError;
use super::asked::{Unfinished, answer_message, asked};
use super::peer::Peer;
use super::task_question::{AnswerForm, answer_parts, questions_of};
use crate::context::Context;
use crate::tool::{ToolError, WaitingCall, wire_name};
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
    /// The form of each answer. Earlier releases ask one question, and answer with text.
    #[serde(default)]
    forms: Vec<AnswerForm>,
}

impl RemoteCall {
    /// Asks the agent until it has answered, or asks something that the caller is to answer. Dropping the future cancels the
    /// task.
    pub(super) async fn made(&self, cx: &Context, first: A2aMessage) -> Result<A2aAnswer, ToolError> {
        let can_wait = self.can_wait(cx);
        let mut message = match WaitingCall::of_earlier(cx).filter(|_| can_wait) {
            Some(waiting) => self.answered(cx, waiting).await?,
            None => self.in_form(first).await.map_err(A2aError::into_tool_error)?,
        };
        for round in 1..=MOST_ROUNDS {
            let answer = self.sent(cx, &message).await.map_err(A2aError::into_tool_error)?;
            match &answer {
                A2aAnswer::Task(task) if can_wait && task.status.state == A2aTaskState::InputRequired => {
                    message = self.asks(cx, task, round).await?;
                }
                A2aAnswer::Task(task)
                    if task.status.state == A2aTaskState::InputRequired && self.is_any(cx, WaitingCall::is_node) =>
                {
                    return Err(self.unasked(task));
                }
                _ => return Ok(answer),
            }
        }
        let name = &self.peer.name;
        Err(ToolError::new(format!("the A2A agent `{name}` asked {MOST_ROUNDS} times in one call, which is the most")))
    }

    /// The message of a model. If it answers a task, it gets the form that the server expects.
    async fn in_form(&self, message: A2aMessage) -> Result<A2aMessage, A2aError> {
        let Some(task) = &message.task_id else { return Ok(message) };
        let mut answer = answer_message(&self.peer, task, message.text()).await?.id(message.message_id);
        answer.context_id = message.context_id.or(answer.context_id);
        Ok(answer)
    }

    /// Whether people are asked what the agent asks: those of a node, where no model could answer, and where the program says
    /// so. The call must be recorded as one of this tool.
    fn can_wait(&self, cx: &Context) -> bool {
        self.is_any(
            cx,
            match self.peer.settings.asks_people {
                true => WaitingCall::can_begin,
                false => WaitingCall::can_begin_in_node,
            },
        )
    }

    /// Returns true if this is so of the tool by one of its names.
    fn is_any(&self, cx: &Context, is_so: fn(&Context, &str) -> bool) -> bool {
        is_so(cx, &wire_name(self.peer.tool_name())) || is_so(cx, self.peer.tool_name())
    }

    /// The error of a node whose agent asks in a run without a store, which lists no questions. Cancels the task.
    fn unasked(&self, task: &A2aTask) -> ToolError {
        drop(Unfinished::of(&self.peer, task.id.clone()));
        let question = task.question().unwrap_or_default();
        ToolError::new(format!(
            "the A2A agent `{}` asks, and a run without a store cannot ask a person; give the runtime a store: {question}",
            self.peer.name
        ))
    }

    /// Asks a person what the agent asks, and gives the message that answers it.
    async fn asks(&self, cx: &Context, task: &A2aTask, round: u32) -> Result<A2aMessage, ToolError> {
        // Without an answer the task is of no use.
        let mut unfinished = Unfinished::of(&self.peer, task.id.clone());
        let questions = questions_of(task).map_err(|problem| self.peer.unanswerable(problem).into_tool_error())?;
        unfinished.settled();
        let forms = questions.iter().map(|question| question.form.clone()).collect();
        let questions = questions.iter().map(|question| question.for_person(&self.peer.name)).collect();
        let message = format!("{}-{}-{round}", cx.idempotency_key(), task.id);
        let state = Continuation { task: task.id.clone(), context: task.context_id.clone(), message, forms };
        let state = Encoded::new(&state).map_err(|error| ToolError::new(error.to_string()))?;
        self.answered(cx, WaitingCall::begin(cx, state, questions).await?).await
    }

    /// Waits until a person has answered. A call that is cancelled meanwhile cancels the task.
    async fn answered(&self, cx: &Context, waiting: WaitingCall) -> Result<A2aMessage, ToolError> {
        let Continuation { task, context, message, mut forms } = waiting.state().decode().map_err(|error| {
            ToolError::new(format!(
                "another release of this program waited for the A2A agent `{}`: {error}",
                self.peer.name
            ))
        })?;
        let waits = WaitsForPerson { cx, unfinished: Unfinished::of(&self.peer, task.clone()) };
        let answers = waiting.answers(self.is_repeatable).await?;
        waits.over();
        if forms.is_empty() {
            forms.push(AnswerForm::Text);
        }
        let answers: Vec<Value> = answers.iter().map(|answer| answer.given.decode().unwrap_or_default()).collect();
        let message = A2aMessage::user(answer_parts(&forms, &answers)).id(message).task(task);
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
