//! `Runtime::process_request`: a request in the form of another surface. The crate of the form runs it.

use std::sync::Arc;

use super::Runtime;

/// A request in the form of another surface, such as a task.
#[doc(hidden)]
pub trait ProcessedRequest: Sync {
    /// The result in the same form.
    type Answer: Send;

    /// Runs the request to its end on behalf of a caller.
    fn process(&self, runtime: &Runtime, caller: Arc<str>) -> impl Future<Output = Self::Answer> + Send;
}

impl Runtime {
    /// Runs a task to its end on behalf of a caller, and returns its result: a `TaskResult` for a `TaskRequest`, both of
    /// `agentflow::views` (feature `views`). A task that cannot start, or whose session
    /// belongs to another caller, has a result with the status `error` and the reason. A task that the same caller sends
    /// again has the result of the first one, which is awaited if it has not ended; that needs a store.
    ///
    /// Pass the caller that the program has authenticated; a task does not name its caller. The run has the grants of the
    /// runtime and of the agent.
    ///
    /// Dropping the future cancels a run without a store; a run with a store continues.
    #[doc(alias = "AIAssistant")]
    pub async fn process_request<R: ProcessedRequest>(&self, task: &R, caller: impl Into<Arc<str>>) -> R::Answer {
        task.process(self, caller.into()).await
    }
}
