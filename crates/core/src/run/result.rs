//! `RunResult`: the outcome of an agent's run, with its answer, usage and conversation.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::shared::RunShared;
use crate::error::{Error, Result};
use crate::event::{AgentCompleted, Event, RunId};
use crate::message::{Conversation, Message};
use crate::model::{StopReason, Usage};
use crate::value::Encoded;

/// The outcome of a run: the answer as a value of the agent's output type. Shown with `{}` it is the answer's text.
#[derive(Clone)]
pub struct RunResult<O = String> {
    output: O,
    end: RunEnd,
}

/// How a run ended well, before the answer became a value.
#[derive(Clone)]
pub(crate) struct RunEnd {
    pub(crate) completed: Arc<AgentCompleted>,
    /// Not set where it is only known from the journal.
    pub(crate) conversation: OnceLock<Conversation>,
    pub(crate) shared: Arc<RunShared>,
}

impl RunEnd {
    /// The answer as JSON: text as a JSON string, unless the agent has an output type.
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

    /// The answer: its text, or the value of the agent's output type.
    #[doc(alias = "final_answer")]
    pub fn output(&self) -> &O {
        &self.output
    }

    /// The answer, owned.
    pub fn into_output(self) -> O {
        self.output
    }

    /// The answer as a message.
    pub fn message(&self) -> &Message {
        &self.end.completed.message
    }

    /// Why the model stopped there; [`StopReason::Length`] says that the answer was cut off.
    pub fn stop_reason(&self) -> &StopReason {
        &self.end.completed.stop_reason
    }

    /// How many turns it took.
    #[doc(alias = "steps_taken")]
    pub fn steps(&self) -> u32 {
        self.end.completed.steps
    }

    /// The tokens of all model calls.
    pub fn usage(&self) -> &Usage {
        &self.end.completed.usage
    }

    /// The run's id.
    pub fn run_id(&self) -> &RunId {
        &self.end.shared.id
    }

    /// The id of the session that it is a run of.
    pub fn session(&self) -> Option<&str> {
        self.end.shared.own().and_then(|own| own.began.session())
    }

    /// The trace that the run belongs to, when it was started with [`trace_id`](crate::agent::RunRequest::trace_id).
    pub fn trace_id(&self) -> Option<&str> {
        self.end.shared.own().and_then(|own| own.began.trace_id())
    }

    pub(super) fn shared(&self) -> &Arc<RunShared> {
        &self.end.shared
    }

    /// The conversation, answer included and without the agent's instructions. To continue it, push the next message
    /// and run again: the same agent, another one, or the same with other instructions.
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
        self.end.conversation.get_or_init(|| Conversation::from_events(&self.end.shared.log.events()))
    }

    /// The run's journal: everything that happened, in order.
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
