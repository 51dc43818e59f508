//! What a run is asked, and what it comes to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::output::{Output, answer_text};
use crate::context::RunShared;
use crate::error::{Error, Result};
use crate::event::{AgentCompleted, Event, RunId};
use crate::message::{Conversation, Message};
use crate::model::{StopReason, Usage};

/// What a run is asked. A text, a [`Message`] or a [`Conversation`] turns into one by itself.
///
/// ```
/// use agentflow::RunRequest;
///
/// let request = RunRequest::new("What is 2 + 3?").max_steps(3);
/// # let _ = request;
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunRequest {
    /// The conversation that the agent continues, without its instructions: each request has them in front.
    #[doc(alias = "task")]
    pub conversation: Conversation,
    /// The run's id. Default: a new one from the runtime.
    pub run_id: Option<RunId>,
    /// The most turns, instead of the agent's own limit.
    pub max_steps: Option<u32>,
    /// The longest the run may take, instead of the agent's own limit.
    pub timeout: Option<Duration>,
    /// Scopes granted beside the agent's own.
    pub scopes: Vec<Arc<str>>,
}

impl RunRequest {
    /// A request with everything else left to the agent.
    pub fn new(conversation: impl Into<Conversation>) -> Self {
        Self { conversation: conversation.into(), ..Self::default() }
    }

    /// Names the run.
    #[must_use]
    pub fn run_id(mut self, id: RunId) -> Self {
        self.run_id = Some(id);
        self
    }

    /// Sets the most turns.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// Sets the longest the run may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Grants scopes to this run.
    #[must_use]
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }
}

impl<T: Into<Conversation>> From<T> for RunRequest {
    fn from(conversation: T) -> Self {
        Self::new(conversation)
    }
}

/// What a run came to: the answer as a value of the agent's output type. Shown with `{}` it is the answer's text.
#[derive(Clone)]
pub struct RunResult<O = String> {
    output: O,
    end: RunEnd,
}

/// How a run ended well, before the answer became a value.
#[derive(Clone)]
pub(crate) struct RunEnd {
    pub(super) completed: Arc<AgentCompleted>,
    pub(super) conversation: Conversation,
    pub(super) shared: Arc<RunShared>,
}

impl<O> RunResult<O> {
    pub(super) fn new(output: &Output<O>, end: RunEnd) -> Result<Self> {
        match output.decode(&end.completed.message) {
            Ok(output) => Ok(Self { output, end }),
            Err(problem) => Err(Error::InvalidOutput { attempts: 1, problem }),
        }
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

    /// The conversation, answer included and without the agent's instructions. To continue it, push the next message and
    /// run again: the same agent, another one, or the same with other instructions.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> agentflow::Result<()> {
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
        &self.end.conversation
    }

    /// The run's journal: everything that happened, in order.
    pub fn events(&self) -> Vec<Event> {
        self.end.shared.log.events()
    }
}

impl<O> fmt::Display for RunResult<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&answer_text(&self.end.completed.message))
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
