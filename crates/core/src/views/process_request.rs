//! A task from its request to its result: the run is started on behalf of a caller, awaited, and told in a task's words.

use std::sync::Arc;

use super::task_request::{TaskAgent, TaskRequest, TaskStart};
use super::task_result::TaskResult;
use crate::error::{Error, Result};
use crate::event::{Event, RunId};
use crate::run::RunHandle;
use crate::runtime::Runtime;
use crate::store::StoreErrorKind;

impl Runtime {
    /// Runs a task to its end on behalf of a caller, and returns its result. A task that cannot start, or whose session
    /// belongs to another caller, has a result with the status `error` and the reason. A task that the same caller sends
    /// again has the result of the first one, which is awaited if it has not ended; that needs a store.
    ///
    /// The caller is the one that the program has authenticated; a task does not name it. The run has the grants of the
    /// runtime and of the agent.
    ///
    /// Dropping the future cancels a run without a store; a run with a store continues.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::store::MemoryStore;
    /// use agentflow::views::{TaskRequest, TaskStatus};
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let desk = Agent::new(ScriptedModel::new([Turn::text("Hello.")])).name("desk");
    /// let runtime = Runtime::builder().store(MemoryStore::new()).agent(&desk).build();
    /// let task = r#"{"task_id": "t1", "task_type": "chat", "description": "Hi.", "agent_id": "desk"}"#;
    /// let result = runtime.process_request(&TaskRequest::from_json(task)?, "ada").await;
    /// assert_eq!(result.status, TaskStatus::Success);
    /// assert_eq!(result.messages.last().unwrap().content, "Hello.");
    ///
    /// let unknown = r#"{"task_id": "t2", "task_type": "chat", "description": "Hi.", "agent_id": "disk"}"#;
    /// let result = runtime.process_request(&TaskRequest::from_json(unknown)?, "ada").await;
    /// assert_eq!(result.status, TaskStatus::Error);
    /// assert!(result.error_message.unwrap().contains("did you mean `desk`?"));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "AIAssistant")]
    pub async fn process_request(&self, task: &TaskRequest, caller: impl Into<Arc<str>>) -> TaskResult {
        let caller: Arc<str> = caller.into();
        let start = match task.start() {
            Ok(start) => start,
            Err(error) => return TaskResult::refused(task, error.to_string()),
        };
        match self.processed(start, &caller).await {
            Ok(result) => result,
            Err(error) => TaskResult::refused(task, error.to_string()),
        }
    }

    async fn processed(&self, start: TaskStart, caller: &Arc<str>) -> Result<TaskResult> {
        if let Some(session) = &start.session {
            let owner = self.session(session).await?.caller;
            if owner.as_ref() != Some(caller) {
                // The answer for a session that does not exist: an id does not reveal a session.
                return Err(crate::store::StoreError::no_session(session).into());
            }
        }
        let id = start.request.options.run_id.clone();
        let request = start.request.caller(Arc::clone(caller));
        let started = match start.agent {
            TaskAgent::Known(name) => self.start_agent(&name, request).await,
            TaskAgent::New(agent) => agent.runtime(self).start(request).map(|run| run.untyped()),
        };
        let run = match (started, id) {
            (Err(Error::Store(error)), Some(id)) if error.kind() == StoreErrorKind::Exists => {
                self.sent_before(&id, caller).await?.ok_or(Error::Store(error))?
            }
            (started, _) => started?,
        };
        let ended = run.result().await;
        let events: Vec<Event> = run.recorded();
        match (TaskResult::of(&events), ended) {
            (Some(result), _) => Ok(result),
            // It could not begin, and recorded no event.
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Err(Error::Lost { reason: "the run has no events".to_owned() }),
        }
    }

    /// The run of a task that the same caller has sent before.
    async fn sent_before(&self, id: &RunId, caller: &Arc<str>) -> Result<Option<RunHandle<crate::value::Encoded>>> {
        match self.run_record(id).await?.caller {
            Some(owner) if owner == *caller => self.attach(id).await.map(Some),
            _ => Ok(None),
        }
    }
}
