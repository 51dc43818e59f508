//! `RunRequest`: the input and options of an agent's run.

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
    #[doc(alias = "task")]
    pub(crate) conversation: Conversation,
    pub(crate) run_id: Option<RunId>,
    pub(crate) max_steps: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) scopes: Vec<Arc<str>>,
}

impl RunRequest {
    /// The conversation that the agent continues, without its instructions, which stand in front of each request.
    pub fn new(conversation: impl Into<Conversation>) -> Self {
        Self { conversation: conversation.into(), ..Self::default() }
    }

    /// Names the run. Default: a new id from the runtime.
    #[must_use]
    pub fn run_id(mut self, id: RunId) -> Self {
        self.run_id = Some(id);
        self
    }

    /// The most turns, instead of the agent's own limit.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// The longest that the run may be executed, instead of the agent's own limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Grants scopes to this run, beside the agent's own.
    #[must_use]
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }
}

impl RunRequest {
    /// The same with the scopes of the context that the agent begins in.
    pub(super) fn granted_as(mut self, grants: &[Arc<str>]) -> Self {
        let missing = |scope: &&Arc<str>| !self.scopes.contains(*scope);
        let more: Vec<Arc<str>> = grants.iter().filter(missing).cloned().collect();
        self.scopes.extend(more);
        self
    }
}

impl<T: Into<Conversation>> From<T> for RunRequest {
    fn from(conversation: T) -> Self {
        Self::new(conversation)
    }
}

impl<O> RunHandle<RunResult<O>> {
    /// The conversation so far, with a result for every tool call: another run can
    /// continue from it after this one has failed or was cancelled.
    pub fn conversation(&self) -> Conversation {
        Conversation::from_events(&self.recorded())
    }
}
