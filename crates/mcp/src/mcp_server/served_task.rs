//! Runs of agents and workflows as tasks, for clients with the extension
//! `io.modelcontextprotocol/tasks`. A call starts the task; separate requests read, answer and
//! cancel it. The only state is the run in the store, and the requests do not wait for the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use agentflow_schema::text::head;
use rmcp::model::{
    CallToolResult, CancelTaskParams, CreateTaskResult, DetailedTask, GetTaskParams, GetTaskResult,
    ProtocolVersion, Task, TaskPayload, TaskStatus, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;

use super::offered::Offer;
use super::served_question::{Said, is_approval};
use super::served_run::{SOMEBODY, may_approve, unreadable};
use super::server_settings::Shared;
use super::{served_answer, served_call, served_question, served_run};
use agentflow_core::Caller;
use agentflow_core::error::{ControlErrorKind, Error};
use agentflow_core::event::PauseReason;
use agentflow_core::run::ControlCall;
use agentflow_core::runtime::{EntryKind, OpenQuestion};
use agentflow_core::store::{RunRecord, RunStatus};
use agentflow_core::time::Timestamp;

/// Interval in milliseconds at which the client should read a task.
const POLL: u64 = 1000;
/// Maximum time to wait for a cancellation. It continues afterwards.
const CANCELLING: Duration = Duration::from_secs(5);
/// Maximum number of bytes of a task's status message.
const MOST_SAID: usize = 4096;
/// Recorded reason of a cancelled run.
const CANCELLED: &str = "the client cancelled the task";

/// Returns `true` if the call to an agent or a workflow should become a task: the client supports
/// the extension, and the runtime has a store in which later requests find the run.
pub(super) fn is_wanted(shared: &Shared, context: &RequestContext<RoleServer>) -> bool {
    let is_spoken = context.client_capabilities().is_some_and(|client| client.supports_tasks());
    let without_handshake =
        context.protocol_version().is_some_and(|of| of >= ProtocolVersion::V_2026_07_28);
    is_spoken && without_handshake && shared.runtime.store().is_some()
}

/// Returns the task of the run that a call has started. Returns `None` if later requests could not
/// refer to it.
pub(super) fn begun(record: &RunRecord) -> Option<CreateTaskResult> {
    let task = task(served_run::state_of(record)?, record);
    Some(CreateTaskResult::new(task).with_meta(served_answer::run_meta(&record.run_id)))
}

/// Returns the current state of a task.
///
/// # Errors
/// Fails if the caller has no such task, or the store cannot be read.
pub(super) async fn get(
    shared: &Shared,
    params: GetTaskParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetTaskResult, ErrorData> {
    let (offer, record) = found(shared, &params.task_id, context).await?;
    let (payload, said) = payload(shared, &offer, &record, context).await?;
    let task = task(params.task_id, &record);
    let task = said.iter().fold(task, |task, said| task.with_status_message(head(said, MOST_SAID)));
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Answers the questions of a task. Answers to questions that are not open are ignored. If the
/// person declined, the question stays open.
///
/// # Errors
/// Fails if the caller has no such task, or an answer is invalid. Valid answers are still given.
pub(super) async fn update(
    shared: &Shared,
    mut params: UpdateTaskParams,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let (_, record) = found(shared, &params.task_id, context).await?;
    let runtime = served_call::runtime(shared, context);
    let by = served_call::caller(context).map_or(SOMEBODY, Caller::name);
    let mut problems = Vec::new();
    for question in questions(shared, &record, context).await? {
        let key = question.key();
        let Some(response) = params.input_responses.remove(key) else { continue };
        let answer = match served_question::said(&question, response) {
            Ok(answer) => answer,
            Err(problem) => {
                problems.push(format!("`{key}`: {problem}"));
                continue;
            }
        };
        let Said::Answer(answer) = answer else { continue };
        match runtime.run(&record.run_id).answer_here(&question.id, answer, by).await.map(drop) {
            Ok(()) => {}
            Err(Error::Control(error)) if error.kind() == ControlErrorKind::WrongAnswer => {
                problems.push(format!("`{key}` does not fit: {error}"));
            }
            Err(error @ Error::AccessDenied { .. }) => problems.push(format!("`{key}`: {error}")),
            // The question was already answered elsewhere.
            Err(Error::Control(error)) if error.kind() != ControlErrorKind::NoResponse => {}
            Err(error) => return Err(unreadable(shared, &error)),
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(ErrorData::invalid_params(
            format!("`inputResponses`: {}", problems.join("; ")),
            None,
        )),
    }
}

/// Cancels a task. A task that has ended or is being compensated is not changed.
///
/// # Errors
/// Fails if the caller has no such task, or the store cannot be read.
pub(super) async fn cancel(
    shared: &Shared,
    params: CancelTaskParams,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let (_, record) = found(shared, &params.task_id, context).await?;
    // A second cancellation would abort the compensation.
    if record.status.has_ended() || record.status == RunStatus::Compensating {
        return Ok(());
    }
    let runtime = served_call::runtime(shared, context);
    let cancelling = runtime.run(&record.run_id).cancel(CANCELLED);
    let cancelling =
        served_call::caller_name(context).into_iter().fold(cancelling, ControlCall::by);
    match tokio::time::timeout(CANCELLING, cancelling).await {
        // The run has ended in the meantime, or the cancellation takes longer than this request
        // waits.
        Ok(Ok(()) | Err(Error::Control(_))) | Err(_) => Ok(()),
        Ok(Err(error)) => Err(unreadable(shared, &error)),
    }
}

/// Returns the run of a task, and the offered tool that it is a call of.
async fn found(
    shared: &Shared,
    task: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(Arc<Offer>, RunRecord), ErrorData> {
    let unknown = || {
        ErrorData::invalid_params(
            "there is no task with this `taskId`; it is as the call gave it",
            None,
        )
    };
    let record = served_run::own(shared, task, context).await?.ok_or_else(unknown)?;
    // Only workflows have a recorded definition.
    let kind = if record.definition.is_some() { EntryKind::Workflow } else { EntryKind::Agent };
    let offered = shared.offered().await;
    let offer = offered
        .iter()
        .find(|offer| offer.kind == kind && offer.name == record.name)
        .ok_or_else(unknown)?;
    Ok((Arc::clone(offer), record))
}

/// Returns the status of a task with its data, and a status message.
async fn payload(
    shared: &Shared,
    offer: &Offer,
    record: &RunRecord,
    context: &RequestContext<RoleServer>,
) -> Result<(TaskPayload, Option<String>), ErrorData> {
    let working = |said: &str| Ok((TaskPayload::Working, Some(said.to_owned())));
    match (record.status, record.pause_reason) {
        (RunStatus::Success, _) => {
            let output = shared
                .runtime
                .run(&record.run_id)
                .output()
                .await
                .map_err(|error| unreadable(shared, &error))?;
            Ok((completed(&served_answer::of_run(offer, &record.run_id, &output))?, None))
        }
        (RunStatus::Failed, _) => {
            let error = served_answer::error(
                record.error.clone().unwrap_or_else(|| "the run failed".to_owned()),
            );
            Ok((completed(&served_answer::of(&record.run_id, error))?, None))
        }
        (RunStatus::Cancelled, _) => Ok((TaskPayload::Cancelled, record.error.clone())),
        (RunStatus::Compensating, _) => working("it undoes what it had done"),
        (RunStatus::Paused, Some(PauseReason::Approval)) => {
            let asked = questions(shared, record, context).await?;
            // Questions that the client does not support are answered on the host.
            let askable =
                asked.iter().filter(|question| served_question::is_askable(question, context));
            let requests = served_question::requests(askable, &BTreeMap::new());
            match requests.is_empty() {
                true => working("it waits for a person, who answers where this server runs"),
                false => Ok((TaskPayload::InputRequired { input_requests: requests }, None)),
            }
        }
        (RunStatus::Paused, Some(PauseReason::Interrupted)) => working(
            "it was interrupted in a step that may have had its effect; it continues when that step is retried where \
             this server runs",
        ),
        (RunStatus::Paused, _) => working("it waits for its operator"),
        // Queued or running.
        _ => Ok((TaskPayload::Working, None)),
    }
}

fn completed(result: &CallToolResult) -> Result<TaskPayload, ErrorData> {
    match serde_json::to_value(result) {
        Ok(Value::Object(result)) => Ok(TaskPayload::Completed { result }),
        _ => Err(ErrorData::internal_error("the result of the task cannot be written", None)),
    }
}

/// Returns the open questions of a run that this caller may answer.
async fn questions(
    shared: &Shared,
    record: &RunRecord,
    context: &RequestContext<RoleServer>,
) -> Result<Vec<OpenQuestion>, ErrorData> {
    let mut questions = shared
        .runtime
        .run(&record.run_id)
        .questions()
        .await
        .map_err(|error| unreadable(shared, &error))?;
    questions.retain(|question| !is_approval(question) || may_approve(shared, context));
    Ok(questions)
}

fn task(id: String, record: &RunRecord) -> Task {
    let (created, updated) = (written(record.created), written(record.updated));
    Task::new(id, TaskStatus::Working, created, updated).with_poll_interval_ms(POLL)
}

/// Formats a time as the protocol requires: ISO 8601 in UTC, with milliseconds.
fn written(time: Timestamp) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(time.as_millis()))
        .to_string()
}
