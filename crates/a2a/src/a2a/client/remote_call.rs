//! A tool call of a remote agent. It can ask a person the agent's questions in the middle of the
//! call, and it continues after a restart of the process.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{A2aAnswer, A2aMessage, A2aTask, A2aTaskState, A2aUpdate};
use super::a2a_error::A2aError;
use super::asked::{Unfinished, answer_message, asked};
use super::peer::Peer;
use super::task_question::{AnswerForm, answer_parts, questions_of};
use agentflow_core::Context;
use agentflow_core::tool::{ToolError, WaitingCall};

/// Maximum number of questions (rounds) of the agent in one call.
const MOST_ROUNDS: u32 = 10;

/// Sends messages to one agent on behalf of its tool.
pub(super) struct RemoteCall {
    pub(super) peer: Arc<Peer>,
    pub(super) is_repeatable: bool,
}

/// State of a waiting call, recorded in the journal, with which the call continues after a restart.
#[derive(Serialize, Deserialize)]
struct Continuation {
    task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    /// Id of the message that carries the answer. It is fixed before the question is asked, so that
    /// a repeated answer has the same id.
    message: String,
    /// Form of each answer. Journals of earlier releases have none: they asked one question,
    /// answered with text.
    #[serde(default)]
    forms: Vec<AnswerForm>,
}

impl RemoteCall {
    /// Sends the message and asks people the agent's questions, until the agent has answered or
    /// asks a question that the caller must answer. Dropping the future cancels the task.
    pub(super) async fn made(
        &self,
        cx: &Context,
        first: A2aMessage,
    ) -> Result<A2aAnswer, ToolError> {
        let can_wait = self.can_wait(cx);
        // If an earlier process already sent the message and recorded a question, continue with its
        // answer.
        let mut message = match WaitingCall::resumed(cx).filter(|_| can_wait) {
            Some(waiting) => self.answered(cx, waiting).await?,
            None => self.convert_answer(first).await.map_err(A2aError::into_tool_error)?,
        };
        for round in 1..=MOST_ROUNDS {
            let answer = self.sent(cx, &message).await.map_err(A2aError::into_tool_error)?;
            match &answer {
                // A person can answer: the call continues with the answer.
                A2aAnswer::Task(task)
                    if can_wait && task.status.state == A2aTaskState::InputRequired =>
                {
                    message = self.asks(cx, task, round).await?;
                }
                // No model reads the result of a node, so a question that no person can answer is
                // an error.
                A2aAnswer::Task(task)
                    if task.status.state == A2aTaskState::InputRequired
                        && WaitingCall::is_node(cx, self.peer.tool_name()) =>
                {
                    return Err(self.unasked(task));
                }
                _ => return Ok(answer),
            }
        }
        let name = &self.peer.name;
        Err(ToolError::new(format!(
            "the A2A agent `{name}` asked {MOST_ROUNDS} times in one call, which is the most"
        )))
    }

    /// Converts a model's answer to a task into the form that the server expects. Other messages
    /// are not changed.
    async fn convert_answer(&self, message: A2aMessage) -> Result<A2aMessage, A2aError> {
        let Some(task) = &message.task_id else { return Ok(message) };
        let mut answer =
            answer_message(&self.peer, task, message.text()).await?.id(message.message_id);
        answer.context_id = message.context_id.or(answer.context_id);
        Ok(answer)
    }

    /// Returns `true` if people are asked the agent's questions: in a node, where no model could
    /// answer, and elsewhere if [`Settings::asks_people`](super::peer::Settings) is set. Requires a
    /// durable run in which the call is recorded as a call to this tool.
    fn can_wait(&self, cx: &Context) -> bool {
        match self.peer.settings.asks_people {
            true => WaitingCall::can_begin(cx, self.peer.tool_name()),
            false => WaitingCall::can_begin_in_node(cx, self.peer.tool_name()),
        }
    }

    /// Returns the error for an agent that asks a question in a node of a run without a store,
    /// where questions cannot be listed. Cancels the task.
    fn unasked(&self, task: &A2aTask) -> ToolError {
        drop(Unfinished::new(&self.peer, task.id.clone()));
        let question = task.question().unwrap_or_default();
        ToolError::new(format!(
            "the A2A agent `{}` asks, and a run without a store cannot ask a person; give the runtime a store: {question}",
            self.peer.name
        ))
    }

    /// Asks a person the questions of a task, and returns the message with the answers.
    async fn asks(
        &self,
        cx: &Context,
        task: &A2aTask,
        round: u32,
    ) -> Result<A2aMessage, ToolError> {
        // Cancels the task if its questions cannot be shown.
        let mut unfinished = Unfinished::new(&self.peer, task.id.clone());
        let questions = questions_of(task)
            .map_err(|problem| self.peer.unanswerable(problem).into_tool_error())?;
        unfinished.settled();
        let forms = questions.iter().map(|question| question.form.clone()).collect();
        let questions =
            questions.iter().map(|question| question.for_person(&self.peer.name)).collect();
        let message = format!("{}-{}-{round}", cx.idempotency_key(), task.id);
        let state = Continuation {
            task: task.id.clone(),
            context: task.context_id.clone(),
            message,
            forms,
        };
        self.answered(cx, WaitingCall::begin(cx, &state, questions).await?).await
    }

    /// Waits for the answers of a person. Cancelling the call meanwhile cancels the task.
    async fn answered(&self, cx: &Context, waiting: WaitingCall) -> Result<A2aMessage, ToolError> {
        let Continuation { task, context, message, mut forms } =
            waiting.state().decode().map_err(|error| {
                ToolError::new(format!(
                    "another release of this program waited for the A2A agent `{}`: {error}",
                    self.peer.name
                ))
            })?;
        let waits =
            PendingQuestionGuard { cx, unfinished: Unfinished::new(&self.peer, task.clone()) };
        let answers = waiting.answers(self.is_repeatable).await?;
        // The question is answered, so dropping `waits` must not cancel the task.
        waits.over();
        if forms.is_empty() {
            forms.push(AnswerForm::Text);
        }
        let answers: Vec<Value> =
            answers.iter().map(|answer| answer.given.decode().unwrap_or_default()).collect();
        let message = A2aMessage::user(answer_parts(&forms, &answers)).id(message).task(task);
        Ok(context.into_iter().fold(message, A2aMessage::context))
    }

    /// Sends a message. Sends it a second time if it was lost and the call is repeatable.
    async fn sent(&self, cx: &Context, message: &A2aMessage) -> Result<A2aAnswer, A2aError> {
        let show = |update: &A2aUpdate| shown(cx, update);
        match asked(&self.peer, message, show).await {
            // The agent may have received the message, so only a repeatable call sends it twice.
            Err(A2aError::Lost { .. }) if self.is_repeatable => {
                asked(&self.peer, message, show).await
            }
            answer => answer,
        }
    }
}

/// A task whose question waits for a person. Dropping it cancels the task, unless the process is
/// shutting down: then the call continues in another process.
struct PendingQuestionGuard<'c> {
    cx: &'c Context,
    unfinished: Unfinished,
}

impl PendingQuestionGuard<'_> {
    fn over(mut self) {
        self.unfinished.settled();
    }
}

impl Drop for PendingQuestionGuard<'_> {
    fn drop(&mut self) {
        if self.cx.is_draining() {
            self.unfinished.settled();
        }
    }
}

/// Emits an update of the task as progress of the call.
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
