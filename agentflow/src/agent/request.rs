//! What a run of an agent is asked.

use std::sync::Arc;
use std::time::Duration;

use crate::event::RunId;
use crate::message::Conversation;
use crate::run::{RunHandle, RunResult};

/// What a run is asked. A text, a [`Message`](crate::Message) or a [`Conversation`] turns into one by itself.
///
/// ```
/// use agentflow::agent::RunRequest;
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

impl<O> RunHandle<RunResult<O>> {
    /// The conversation so far, with a result for every tool call: after a failed or cancelled run it is what another
    /// run can go on from.
    pub fn conversation(&self) -> Conversation {
        Conversation::from_events(&self.recorded())
    }
}
