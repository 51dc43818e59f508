//! [`Runtime::process_request`] runs a request in the format of another interface. The crate that
//! defines the format implements it.

use std::sync::Arc;

use super::Runtime;

/// A request in the format of another interface, such as a task.
#[doc(hidden)]
pub trait ProcessedRequest: Sync {
    /// The result in the same format.
    type Answer: Send;

    /// Runs the request to its end on behalf of a caller.
    fn process(
        &self,
        runtime: &Runtime,
        caller: Arc<str>,
    ) -> impl Future<Output = Self::Answer> + Send;
}

impl Runtime {
    /// Runs a task to its end on behalf of a caller and returns its result: a `TaskResult` for a
    /// `TaskRequest`, both of `agentflow::views` (feature `views`). If a task cannot start, or its
    /// session belongs to another caller, the result has the status `error` and the reason. If the
    /// same caller sends a task again, it receives the result of the first one, waiting for its end
    /// if necessary; this requires a store.
    ///
    /// Pass the caller that the program has authenticated; a task does not name its caller. The run
    /// has the grants of the runtime and of the agent.
    ///
    /// # Cancel safety
    /// Dropping the future cancels a run without a store; a run with a store continues.
    #[doc(alias = "AIAssistant")]
    pub async fn process_request<R: ProcessedRequest>(
        &self,
        task: &R,
        caller: impl Into<Arc<str>>,
    ) -> R::Answer {
        task.process(self, caller.into()).await
    }
}
