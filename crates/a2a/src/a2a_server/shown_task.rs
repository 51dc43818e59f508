//! Presents a run as a task: its state, the questions that its caller may answer, and its results.
//! All data is read from the store.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::served_settings::Shared;
use crate::a2a::{
    A2aArtifact, A2aContent, A2aMessage, A2aPart, A2aRole, A2aTask, A2aTaskState, A2aTaskStatus,
};
use agentflow_core::__private::extension::asks_approval;
use agentflow_core::Caller;
use agentflow_core::artifact::ArtifactRef;
use agentflow_core::error::Error;
use agentflow_core::event::{PauseReason, RunId};
use agentflow_core::runtime::OpenQuestion;
use agentflow_core::store::{RunRecord, RunStatus, StoreErrorKind};
use agentflow_core::time::Timestamp;

/// Run tag with the name of the server whose client started the run.
pub(super) const SERVER_TAG: &str = "a2a.server";
/// Run tag with the context id of the task.
pub(super) const CONTEXT_TAG: &str = "a2a.context";
/// Run tag with the id of the message that started the task.
pub(super) const MESSAGE_TAG: &str = "a2a.message";
/// Artifact id of the run's output.
const OUTPUT: &str = "output";
/// Metadata key with the names of the files that are too large to return.
const OMITTED: &str = "omittedFiles";

/// Returns the record of a task that belongs to the caller and, if given, to the skill.
///
/// # Errors
/// `TaskNotFound`, also if the task belongs to another caller, skill or server.
pub(super) async fn record_of(
    shared: &Shared,
    caller: &Caller,
    skill: Option<&str>,
    id: &str,
) -> Result<RunRecord, Fault> {
    let record = match shared.runtime.for_caller(caller).run(&RunId::new(id)).record().await {
        Ok(record) => record,
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => {
            return Err(Fault::no_task());
        }
        Err(error) => return Err(Fault::internal(&error)),
    };
    // A task of another caller gives the same error as a missing task, so ids cannot be probed.
    let is_its = record.caller.as_deref() == Some(caller.name())
        && record.tags.get(SERVER_TAG) == Some(&shared.settings.name)
        && skill.is_none_or(|skill| *record.name == *skill);
    if is_its { Ok(record) } else { Err(Fault::no_task()) }
}

/// Returns the open questions of a run that its caller may answer, oldest first.
pub(super) async fn questions_for(
    shared: &Shared,
    caller: &Caller,
    record: &RunRecord,
) -> Result<Vec<OpenQuestion>, Fault> {
    let mut questions = shared
        .runtime
        .for_caller(caller)
        .run(&record.run_id)
        .questions()
        .await
        .map_err(|error| Fault::internal(&error))?;
    questions.retain(|question| caller.may_approve() || !asks_approval(&question.answer));
    Ok(questions)
}

/// Returns `true` if the run waits for an answer, from the caller or from the host.
fn asks(record: &RunRecord) -> bool {
    record.status == RunStatus::Paused && record.pause_reason == Some(PauseReason::Approval)
}

/// Returns the state of a task, as its caller sees it.
pub(super) async fn state_of(
    shared: &Shared,
    caller: &Caller,
    record: &RunRecord,
) -> Result<A2aTaskState, Fault> {
    let is_asked = asks(record) && !questions_for(shared, caller, record).await?.is_empty();
    Ok(state(record, is_asked))
}

fn state(record: &RunRecord, is_asked: bool) -> A2aTaskState {
    match record.status {
        RunStatus::Queued => A2aTaskState::Submitted,
        RunStatus::Paused if is_asked => A2aTaskState::InputRequired,
        RunStatus::Success => A2aTaskState::Completed,
        RunStatus::Failed => A2aTaskState::Failed,
        RunStatus::Cancelled => A2aTaskState::Canceled,
        // Running, paused or compensating.
        _ => A2aTaskState::Working,
    }
}

/// Returns `true` if a waiting client gets its response: the task has ended, or waits for this
/// client. A task that waits for the host counts as working.
pub(super) fn is_settled(state: A2aTaskState) -> bool {
    state.is_interrupted() || state.is_terminal()
}

pub(super) fn context_of(record: &RunRecord) -> String {
    record.tags.get(CONTEXT_TAG).cloned().unwrap_or_else(|| record.run_id.to_string())
}

/// Builds the task for a run in its current state.
pub(super) async fn build_task(
    shared: &Shared,
    caller: &Caller,
    record: &RunRecord,
    with_results: bool,
) -> Result<A2aTask, Fault> {
    let status = status_of(shared, caller, record).await?;
    let mut task = A2aTask::new(record.run_id.as_str(), context_of(record), status.state);
    task.status = status;
    task.metadata = Some(Map::from_iter([("skill".to_owned(), Value::from(&*record.name))]));
    if with_results {
        let results = results_of(shared, record).await?;
        task.artifacts = results.artifacts;
        if let Some(metadata) = task.metadata.as_mut().filter(|_| !results.omitted.is_empty()) {
            metadata.insert(OMITTED.to_owned(), results.omitted.into());
        }
    }
    Ok(task)
}

/// Builds the status with its message.
pub(super) async fn status_of(
    shared: &Shared,
    caller: &Caller,
    record: &RunRecord,
) -> Result<A2aTaskStatus, Fault> {
    let questions =
        if asks(record) { questions_for(shared, caller, record).await? } else { Vec::new() };
    let mut status = A2aTaskStatus::new(state(record, !questions.is_empty()));
    status.timestamp = Some(written(record.updated));
    let parts = match record.status {
        RunStatus::Paused if !questions.is_empty() => questions.iter().flat_map(question).collect(),
        RunStatus::Paused if asks(record) => {
            vec![A2aPart::text("it waits for an approval, which its host gives")]
        }
        RunStatus::Paused => vec![A2aPart::text("it waits for its operator")],
        RunStatus::Failed | RunStatus::Cancelled => {
            record.error.iter().map(A2aPart::text).collect()
        }
        _ => Vec::new(),
    };
    if !parts.is_empty() {
        // The id is derived from the journal position, so it is the same for each read of this
        // state.
        let mut message = A2aMessage::new(A2aRole::Agent, parts)
            .id(format!("{}-{}", record.run_id, record.events))
            .task(record.run_id.as_str());
        message.context_id = Some(context_of(record));
        status.message = Some(message);
    }
    Ok(status)
}

/// Formats a question as a text part and a data part.
fn question(question: &OpenQuestion) -> [A2aPart; 2] {
    let value = |of: &agentflow_core::value::Encoded| of.decode::<Value>().unwrap_or_default();
    let data = json!({
        "question": question.id, "about": value(&question.about), "answer": value(&question.answer),
    });
    [A2aPart::text(&question.message), A2aPart::data(data)]
}

/// The results of a task.
#[derive(Default)]
pub(super) struct TaskResults {
    pub(super) artifacts: Vec<A2aArtifact>,
    /// Names of the files that are too large.
    omitted: Vec<String>,
}

/// Returns the results of a successful run: its output, and the files that clients may have.
pub(super) async fn results_of(shared: &Shared, record: &RunRecord) -> Result<TaskResults, Fault> {
    if record.status != RunStatus::Success {
        return Ok(TaskResults::default());
    }
    let output = shared
        .runtime
        .run(&record.run_id)
        .output()
        .await
        .map_err(|error| Fault::internal(&error))?;
    let part = match output.decode::<Value>().unwrap_or_default() {
        Value::String(text) => A2aPart::text(text),
        value => A2aPart::data(value).media_type(super::skill_offer::JSON),
    };
    let mut results =
        TaskResults { artifacts: vec![A2aArtifact::new(OUTPUT, [part])], omitted: Vec::new() };
    if !shared.settings.output_files.is_empty() {
        add_files(shared, record, &mut results).await?;
    }
    Ok(results)
}

/// Adds the newest version of each file that clients may have.
async fn add_files(
    shared: &Shared,
    record: &RunRecord,
    results: &mut TaskResults,
) -> Result<(), Fault> {
    let Shared { runtime, settings, .. } = shared;
    let saved =
        runtime.run(&record.run_id).artifacts().await.map_err(|error| Fault::internal(&error))?;
    // The last listed artifact of a name is the newest, and it wins in the map.
    let newest: BTreeMap<&str, &ArtifactRef> =
        saved.iter().map(|file| (&*file.name, file)).collect();
    let mut room = settings.max_file.saturating_mul(4);
    for (name, file) in newest
        .into_iter()
        .filter(|(name, _)| settings.output_files.iter().any(|of| is_named(name, of)))
    {
        let size = usize::try_from(file.size).unwrap_or(usize::MAX);
        if size > settings.max_file || size > room {
            results.omitted.push(name.to_owned());
            continue;
        }
        let Some(artifacts) = runtime.store().and_then(|store| store.artifacts()) else { break };
        let bytes = artifacts.artifact(&record.run_id, &file.sha256).await;
        let Some(bytes) = bytes.map_err(|error| Fault::internal(&error.into()))? else {
            results.omitted.push(name.to_owned());
            continue;
        };
        room -= size;
        let text =
            std::str::from_utf8(&bytes).ok().filter(|_| file.media_type.starts_with("text/"));
        let content = text.map_or_else(
            || A2aContent::Raw(bytes.to_vec()),
            |text| A2aContent::Text(text.to_owned()),
        );
        let part = A2aPart::new(content).media_type(&*file.media_type).filename(name);
        let mut artifact = A2aArtifact::new(format!("file/{name}"), [part]);
        artifact.name = Some(name.to_owned());
        results.artifacts.push(artifact);
    }
    Ok(())
}

/// Returns `true` if a name matches a pattern: a name, or `*` with an optional suffix.
fn is_named(name: &str, given: &str) -> bool {
    given.strip_prefix('*').map_or(name == given, |end| name.ends_with(end))
}

/// Formats a time in ISO 8601, UTC, with milliseconds, as the protocol requires.
fn written(time: Timestamp) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(time.as_millis()))
        .to_string()
}
