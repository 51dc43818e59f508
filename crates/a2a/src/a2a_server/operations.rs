//! Executes the operations of the protocol, independent of the binding.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::asked_operation::{Asked, Configuration, ListParams, MOST_ID, PushMethod, SendParams};
use super::begun_task;
use super::fault::Fault;
use super::served_card::card;
use super::served_settings::Shared;
use super::shown_task::{CONTEXT_TAG, SERVER_TAG, build_task, record_of, state_of};
use super::task_history::{MOST_HISTORY_BYTES, load_history};
use super::task_updates::TaskUpdates;
use crate::a2a::{A2aAnswer, A2aErrorCode, A2aTask, A2aTaskState, A2aTasks};
use agentflow_core::Caller;
use agentflow_core::error::Error;
use agentflow_core::event::RunId;
use agentflow_core::store::{RunFilter, RunRecord, RunStatus};
use agentflow_core::time::Timestamp;

/// Default number of tasks per page.
const PAGE: u32 = 50;
/// Number of runs that a list reads from the store at a time, and maximum number of runs that it
/// examines.
const AT_ONCE: usize = 500;
const MOST_COUNTED: usize = 10_000;
/// Maximum time that a cancellation waits for the run's compensation before the client gets a
/// response.
const CANCEL_WAIT: Duration = Duration::from_secs(20);

/// Result of an operation.
pub(super) enum Done {
    Value(Value),
    Stream(Box<TaskUpdates>),
}

/// Executes an operation for a caller. `skill` restricts it to the tasks of one skill; `base` is
/// the URL of the server.
pub(super) async fn execute(
    shared: &Arc<Shared>,
    caller: &Caller,
    skill: Option<&str>,
    base: &str,
    asked: Asked,
) -> Result<Done, Fault> {
    match asked {
        Asked::Send { params, streams } => send(shared, caller, skill, &params, streams).await,
        Asked::Get(params) => {
            let record = record_of(shared, caller, skill, &params.id).await?;
            let mut task = build_task(shared, caller, &record, true).await?;
            let mut room = MOST_HISTORY_BYTES;
            task.history =
                load_history(shared, caller, &record, params.history_length, &mut room).await?;
            Ok(Done::Value(json!(task)))
        }
        Asked::List(params) => Ok(Done::Value(json!(list(shared, caller, skill, &params).await?))),
        Asked::Cancel(params) => {
            let record = record_of(shared, caller, skill, &params.id).await?;
            Ok(Done::Value(json!(cancel(shared, caller, record).await?)))
        }
        Asked::Subscribe(params) => {
            let record = record_of(shared, caller, skill, &params.id).await?;
            if record.status.has_ended() {
                let problem = "the task has ended, so nothing more happens to it; get it instead";
                return Err(Fault::new(A2aErrorCode::UnsupportedOperation, problem));
            }
            let updates = TaskUpdates::start(shared, caller, &record.run_id, false).await?;
            Ok(Done::Stream(Box::new(updates)))
        }
        Asked::Push(method, params) => {
            push(shared, caller, skill, method, params).await.map(Done::Value)
        }
        Asked::ExtendedCard if shared.settings.extended.is_empty() || caller.is_anonymous() => {
            Err(Fault::new(
                A2aErrorCode::ExtendedAgentCardNotConfigured,
                "this server has the same card for all callers, at `/.well-known/agent-card.json`",
            ))
        }
        Asked::ExtendedCard => {
            let only = skill.and_then(|skill| shared.offer(skill)).map(|offer| &**offer);
            Ok(Done::Value(json!(card(shared, base, only, true))))
        }
    }
}

#[cfg(feature = "push")]
async fn push(
    shared: &Arc<Shared>,
    caller: &Caller,
    skill: Option<&str>,
    method: PushMethod,
    params: Value,
) -> Result<Value, Fault> {
    let push = shared.push.as_ref().ok_or_else(no_push)?;
    super::push::execute(shared, push, caller, skill, (method, params)).await
}

#[cfg(not(feature = "push"))]
#[expect(clippy::unused_async, reason = "as with notifications")]
async fn push(
    _: &Arc<Shared>,
    _: &Caller,
    _: Option<&str>,
    _: PushMethod,
    _: Value,
) -> Result<Value, Fault> {
    Err(no_push())
}

fn no_push() -> Fault {
    Fault::new(
        A2aErrorCode::PushNotificationNotSupported,
        "this server sends no push notifications; subscribe to the task, or get it",
    )
}

#[cfg(feature = "push")]
/// Parses and checks the push configuration of a message, before the message has an effect.
fn config_with(
    shared: &Shared,
    settings: &Configuration,
) -> Result<Option<crate::a2a::A2aPushConfig>, Fault> {
    let Some(push) = &shared.push else { return without_config(settings).map(|()| None) };
    if settings.push_notification_config.is_some() {
        return Err(Fault::params(
            "configuration.pushNotificationConfig: it is `taskPushNotificationConfig`",
        ));
    }
    settings
        .task_push_notification_config
        .clone()
        .map(|config| super::push::checked_config(push, config))
        .transpose()
}

fn without_config(settings: &Configuration) -> Result<(), Fault> {
    match settings.task_push_notification_config.is_some()
        || settings.push_notification_config.is_some()
    {
        true => Err(no_push()),
        false => Ok(()),
    }
}

async fn send(
    shared: &Arc<Shared>,
    caller: &Caller,
    skill: Option<&str>,
    params: &SendParams,
    streams: bool,
) -> Result<Done, Fault> {
    let unsaid = Configuration::default();
    let settings = params.configuration.as_ref().unwrap_or(&unsaid);
    #[cfg(feature = "push")]
    let config = config_with(shared, settings)?;
    #[cfg(not(feature = "push"))]
    without_config(settings)?;
    let run = begun_task::receive(shared, caller, skill, &params.message).await?;
    #[cfg(feature = "push")]
    if let Some(config) = config {
        super::push::create(shared, caller, run.clone(), config).await?;
    }
    if streams {
        let updates = TaskUpdates::start(shared, caller, &run, true).await?;
        return Ok(Done::Stream(Box::new(updates)));
    }
    if !settings.return_immediately.unwrap_or_default() {
        let waited = async {
            let mut updates = TaskUpdates::start(shared, caller, &run, true).await?;
            while let Some(update) = updates.next().await {
                update?;
            }
            Ok::<_, Fault>(())
        };
        // If the task takes longer, the client receives it unfinished and polls it.
        if let Ok(waited) = tokio::time::timeout(shared.settings.max_wait, waited).await {
            waited?;
        }
    }
    let record = shared
        .runtime
        .for_caller(caller)
        .run(&run)
        .record()
        .await
        .map_err(|error| Fault::internal(&error))?;
    let mut task = build_task(shared, caller, &record, true).await?;
    let mut room = MOST_HISTORY_BYTES;
    task.history =
        load_history(shared, caller, &record, settings.history_length, &mut room).await?;
    Ok(Done::Value(json!(A2aAnswer::Task(Box::new(task)))))
}

async fn task_now(shared: &Shared, caller: &Caller, run: &RunId) -> Result<A2aTask, Fault> {
    let record = shared.record(caller, run).await?;
    build_task(shared, caller, &record, true).await
}

async fn cancel(shared: &Shared, caller: &Caller, record: RunRecord) -> Result<A2aTask, Fault> {
    let ended = || Fault::new(A2aErrorCode::TaskNotCancelable, "the task has ended");
    if record.status.has_ended() {
        return Err(ended());
    }
    let runtime = shared.runtime.for_caller(caller);
    let cancelled =
        runtime.run(&record.run_id).cancel("its client cancelled the task").by(caller.name());
    match tokio::time::timeout(CANCEL_WAIT, cancelled).await {
        // After the time limit, the compensation of the run continues and the client receives the
        // current state.
        Ok(Ok(())) | Err(_) => task_now(shared, caller, &record.run_id).await,
        Ok(Err(Error::Control(error))) => {
            let now = shared
                .runtime
                .for_caller(caller)
                .run(&record.run_id)
                .record()
                .await
                .map_err(|error| Fault::internal(&error))?;
            match now.status.has_ended() {
                true => Err(ended()),
                false => Err(Fault::new(
                    A2aErrorCode::TaskNotCancelable,
                    format!("it cannot be cancelled now: {error}"),
                )),
            }
        }
        Ok(Err(error @ Error::AccessDenied { .. })) => {
            Err(Fault::new(A2aErrorCode::TaskNotCancelable, error.to_string()))
        }
        Ok(Err(error)) => Err(Fault::internal(&error)),
    }
}

async fn list(
    shared: &Shared,
    caller: &Caller,
    skill: Option<&str>,
    params: &ListParams,
) -> Result<A2aTasks, Fault> {
    // At most as many lists wait as the caller may have concurrent requests.
    let _turn = shared.lists_of.take(caller.name(), usize::MAX).await;
    let mut filter = RunFilter::new().caller(caller.name()).tag(SERVER_TAG, &shared.settings.name);
    if let Some(context) = &params.context_id {
        filter = filter.tag(CONTEXT_TAG, context);
    }
    if let Some(skill) = skill {
        filter = filter.name(skill);
    }
    filter = statuses(params.status).iter().copied().fold(filter, RunFilter::status);
    let page = params.page_size.unwrap_or(PAGE) as usize;
    let behind = match params.page_token.as_deref().filter(|token| !token.is_empty()) {
        None => None,
        Some(token) => {
            let unknown =
                || Fault::params("pageToken: it is not one of this list; begin without one");
            Some(Place::from_token(token).ok_or_else(unknown)?)
        }
    };
    let after = params.status_timestamp_after.map(Timestamp::from);
    let (mut total, mut found, mut last) = (0, Vec::new(), None::<RunRecord>);
    let no_such_state = params.status.is_some_and(|state| statuses(Some(state)).is_empty());
    let mut looked_at = 0;
    // The store orders runs by their start, but a page is ordered by the last change. So all runs
    // are examined, and the page is selected afterwards.
    while !no_such_state && looked_at < MOST_COUNTED {
        let next =
            last.iter().fold(filter.clone().limit(AT_ONCE), |filter, last| filter.after(last));
        let runs = shared
            .runtime
            .for_caller(caller)
            .runs()
            .list(next)
            .await
            .map_err(|error| Fault::internal(&error))?;
        let Some(newest_last) = runs.last().cloned() else { break };
        looked_at += runs.len();
        for record in runs {
            if after.is_some_and(|after| record.updated <= after) {
                continue;
            }
            // The filter only selects run statuses. A paused run is `WORKING` or `INPUT_REQUIRED`,
            // depending on its questions.
            if let Some(state) = params.status
                && state_of(shared, caller, &record).await? != state
            {
                continue;
            }
            total += 1;
            if behind.as_ref().is_none_or(|behind| Place::of(&record) < *behind) {
                found.push(record);
            }
        }
        last = Some(newest_last);
    }
    found.sort_by_cached_key(|record| Reverse(Place::of(record)));
    let mut tasks = A2aTasks::default();
    if found.len() > page {
        found.truncate(page);
        tasks.next_page_token =
            found.last().map(|record| Place::of(record).token()).unwrap_or_default();
    }
    tasks.page_size = i32::try_from(page).unwrap_or(i32::MAX);
    tasks.total_size = total;
    let (mut room, mut left) = (MOST_HISTORY_BYTES, MOST_RESULT_BYTES);
    for record in &found {
        let mut task =
            build_task(shared, caller, record, params.include_artifacts.unwrap_or_default())
                .await?;
        task.history =
            load_history(shared, caller, record, params.history_length, &mut room).await?;
        left = left.saturating_sub(json!(task.artifacts).to_string().len());
        tasks.tasks.push(task);
        if left == 0 && tasks.tasks.len() < found.len() {
            // The page ends early, and the next page begins after this task.
            tasks.next_page_token = Place::of(record).token();
            break;
        }
    }
    Ok(tasks)
}

/// Approximate maximum number of bytes of the results on one page. The next page has the remaining
/// tasks.
const MOST_RESULT_BYTES: usize = 4 << 20;

/// Position of a task in a list, which is ordered by the time of the last change, newest first. A
/// page token is the position of the last task of a page. A task that changes meanwhile moves to
/// the beginning of the list.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place(Timestamp, RunId);

impl Place {
    fn of(record: &RunRecord) -> Self {
        Self(record.updated, record.run_id.clone())
    }

    fn token(&self) -> String {
        format!("{}-{}", self.0.as_millis(), self.1)
    }

    fn from_token(token: &str) -> Option<Self> {
        let (millis, run) = token.split_once('-')?;
        let is_run = (1..=MOST_ID).contains(&run.len());
        Some(Self(Timestamp::from_millis(millis.parse().ok()?), RunId::new(run))).filter(|_| is_run)
    }
}

/// Returns the run statuses that correspond to a task state. Returns none for a state that no run
/// has, and for `None`, which selects all states.
fn statuses(state: Option<A2aTaskState>) -> &'static [RunStatus] {
    match state {
        None => &[],
        Some(A2aTaskState::Submitted) => &[RunStatus::Queued],
        Some(A2aTaskState::Working) => {
            &[RunStatus::Running, RunStatus::Paused, RunStatus::Compensating]
        }
        Some(A2aTaskState::InputRequired) => &[RunStatus::Paused],
        Some(A2aTaskState::Completed) => &[RunStatus::Success],
        Some(A2aTaskState::Failed) => &[RunStatus::Failed],
        Some(A2aTaskState::Canceled) => &[RunStatus::Cancelled],
        Some(_) => &[],
    }
}
