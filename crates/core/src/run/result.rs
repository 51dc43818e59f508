//! `RunResult`: the outcome of an agent's run, with its answer, usage and conversation.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::shared::RunShared;
use crate::error::{Error, Result};
use crate::event::{AgentCompleted, Event, RunId};
use crate::message::{Conversation, Message};
use crate::model::{StopReason, Usage};
use crate::value::Encoded;

/// The outcome of an agent's run, with the answer as a value of the agent's output type. `Display`
/// shows the text of the answer.
#[derive(Clone)]
pub struct RunResult<O = String> {
    output: O,
    end: RunEnd,
}

/// The end of a completed run, before the answer is converted to a value.
#[derive(Clone)]
pub(crate) struct RunEnd {
    pub(crate) completed: Arc<AgentCompleted>,
    /// Not set if the end is only known from the journal. It is then computed on demand.
    pub(crate) conversation: OnceLock<Conversation>,
    pub(crate) shared: Arc<RunShared>,
}

impl RunEnd {
    /// Returns the answer as JSON. Without an output type, the text becomes a JSON string.
    pub(crate) fn encoded(&self) -> Result<Encoded> {
        self.shared
            .log
            .answer_form()
            .encoded(&self.completed.text())
            .map_err(|error| Error::InvalidOutput { attempts: 1, problem: error.to_string() })
    }
}

impl<O> RunResult<O> {
    pub(crate) fn new(output: O, end: RunEnd) -> Self {
        Self { output, end }
    }

    /// Returns the answer: its text, or the value of the agent's output type.
    #[doc(alias = "final_answer")]
    pub fn output(&self) -> &O {
        &self.output
    }

    /// Converts the result into the answer.
    pub fn into_output(self) -> O {
        self.output
    }

    /// Returns the answer as a message.
    pub fn message(&self) -> &Message {
        &self.end.completed.message
    }

    /// Returns the reason why the model stopped. [`StopReason::Length`] marks a truncated answer.
    pub fn stop_reason(&self) -> &StopReason {
        &self.end.completed.stop_reason
    }

    /// Returns the number of turns.
    #[doc(alias = "steps_taken")]
    pub fn steps(&self) -> u32 {
        self.end.completed.steps
    }

    /// Returns the token usage of all model calls.
    pub fn usage(&self) -> &Usage {
        &self.end.completed.usage
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> &RunId {
        &self.end.shared.id
    }

    /// Returns the id of the session that the run belongs to.
    pub fn session(&self) -> Option<&str> {
        self.end.shared.own().and_then(|own| own.began.session())
    }

    /// Returns the id of the trace that the run belongs to, if it was started with
    /// [`trace_id`](crate::agent::RunRequest::trace_id).
    pub fn trace_id(&self) -> Option<&str> {
        self.end.shared.own().and_then(|own| own.began.trace_id())
    }

    pub(super) fn shared(&self) -> &Arc<RunShared> {
        &self.end.shared
    }

    /// Returns the conversation, including the answer and excluding the agent's instructions. To
    /// continue it, push the next message and run again, with the same agent, another agent, or
    /// changed instructions.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let model = ScriptedModel::new([
    ///     Turn::text("Ada."),
    ///     Turn::text("Ada.").expect_conversation([
    ///         "system: Be short.",
    ///         "user: Name somebody.",
    ///         "assistant: Ada.",
    ///         "user: Whom did you name?",
    ///     ]),
    /// ]);
    /// let agent = Agent::new(model).instruct("Be short.");
    /// let mut conversation = agent.run("Name somebody.").await?.conversation().clone();
    /// conversation.push(Message::user("Whom did you name?"));
    /// assert_eq!(agent.run(conversation).await?.output(), "Ada.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn conversation(&self) -> &Conversation {
        self.end
            .conversation
            .get_or_init(|| Conversation::from_events(&self.end.shared.log.events()))
    }

    /// Returns the journal of the run: all recorded events, in order.
    pub fn events(&self) -> Vec<Event> {
        self.end.shared.log.events()
    }
}

impl<O> fmt::Display for RunResult<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.end.completed.text())
    }
}

impl<O> fmt::Debug for RunResult<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunResult")
            .field("run_id", &self.end.shared.id)
            .field("completed", &self.end.completed)
            .finish()
    }
}
