//! Processes a task: starts the run on behalf of a caller, waits for it, and returns a
//! `TaskResult`.

use std::sync::Arc;

use agentflow_core::__private::ProcessedRequest;
use agentflow_core::error::{Error, Result};
use agentflow_core::event::{Event, RunId};
use agentflow_core::run::RunHandle;
use agentflow_core::runtime::Runtime;
use agentflow_core::store::{StoreError, StoreErrorKind};
use agentflow_core::value::Encoded;

use super::task_request::TaskRequest;
use super::task_result::TaskResult;
use super::task_start::{TaskAgent, TaskStart};

impl ProcessedRequest for TaskRequest {
    type Answer = TaskResult;

    async fn process(&self, runtime: &Runtime, caller: Arc<str>) -> TaskResult {
        let start = match self.start() {
            Ok(start) => start,
            Err(error) => return TaskResult::refused(self, error.to_string()),
        };
        let id = RunId::new(&*self.task_id);
        match run_task(runtime, start, &id, &caller).await {
            Ok(result) => result,
            Err(error) => TaskResult::refused(self, error.to_string()),
        }
    }
}

async fn run_task(
    runtime: &Runtime,
    start: TaskStart,
    id: &RunId,
    caller: &Arc<str>,
) -> Result<TaskResult> {
    if let Some(session) = &start.session {
        let owner = runtime.sessions().get(session).await?.caller;
        if owner.as_ref() != Some(caller) {
            // The same error as for a session that does not exist, so that a caller cannot probe
            // for ids.
            return Err(StoreError::no_session(session).into());
        }
    }
    let request = start.request.caller(Arc::clone(caller));
    let started = match start.agent {
        TaskAgent::Known(name) => runtime.start_agent(&name, request).await,
        TaskAgent::New(agent) => agent.runtime(runtime).start(request).map(|run| run.untyped()),
    };
    let run = match started {
        // The client sent the task again. If the same caller owns the run, wait for it.
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => {
            existing_run(runtime, id, caller).await?.ok_or(Error::Store(error))?
        }
        started => started?,
    };
    let ended = run.result().await;
    let events: Vec<Event> = run.recorded();
    match (TaskResult::of(&events), ended) {
        (Some(result), _) => Ok(result),
        // The run failed before it recorded an event.
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Err(Error::Lost { reason: "the run has no events".to_owned() }),
    }
}

/// Returns the run of a task that the same caller sent before.
async fn existing_run(
    runtime: &Runtime,
    id: &RunId,
    caller: &Arc<str>,
) -> Result<Option<RunHandle<Encoded>>> {
    match runtime.run(id).record().await?.caller {
        Some(owner) if owner == *caller => runtime.run(id).attach().await.map(Some),
        _ => Ok(None),
    }
}
