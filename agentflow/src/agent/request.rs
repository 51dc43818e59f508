//! What a run is asked, and what it comes to.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::context::RunShared;
use crate::event::{Event, RunCompleted, RunId};
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
    /// The conversation the agent goes on from; its instructions are put before it.
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

/// What a run came to. Shown with `{}` it is the answer's text.
#[derive(Clone)]
pub struct RunResult {
    pub(super) completed: Arc<RunCompleted>,
    pub(super) conversation: Conversation,
    pub(super) shared: Arc<RunShared>,
}

impl RunResult {
    /// The answer's text.
    #[doc(alias = "final_answer")]
    pub fn output(&self) -> Cow<'_, str> {
        self.completed.message.text()
    }

    /// The answer as a message.
    pub fn message(&self) -> &Message {
        &self.completed.message
    }

    /// Why the model stopped there; [`StopReason::Length`] says that the answer was cut off.
    pub fn stop_reason(&self) -> &StopReason {
        &self.completed.stop_reason
    }

    /// How many turns it took.
    #[doc(alias = "steps_taken")]
    pub fn steps(&self) -> u32 {
        self.completed.steps
    }

    /// The tokens of all model calls.
    pub fn usage(&self) -> &Usage {
        &self.completed.usage
    }

    /// The run's id.
    pub fn run_id(&self) -> &RunId {
        &self.shared.id
    }

    /// The whole conversation, instructions and answer included. To go on with it, push the next message and run again.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The run's journal: everything that happened, in order.
    pub fn events(&self) -> Vec<Event> {
        self.shared.log.events()
    }
}

impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.output())
    }
}

impl fmt::Debug for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunResult").field("run_id", &self.shared.id).field("completed", &self.completed).finish()
    }
}
