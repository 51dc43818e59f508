//! Control requests to a run by its id: pause, unpause, cancel, retry, answer, message, close. The
//! run may be executed by this process, by another process, or by no process. The process of the
//! run or `control_events` decides about the request.
//!
//! A granted request is stored before it takes effect, and the caller receives the outcome when the
//! effect is in the store.

use std::sync::Arc;
use std::time::Duration;

use super::attach::attach;
use super::control_events::Recorder;
use super::control_request::{ControlRequest, GrantingEvents, StoredRequest};
use super::done_calls::{CompensationPlan, NewerEvent, Undo};
use super::host::Host;
use super::live::Found;
use super::read::read_events;
use super::replies::read_outcome;
use super::state::RunState;
use crate::error::{ControlError, ControlErrorKind, Error, Result};
use crate::event::{Event, EventKind, NotUndone, PauseReason, RunId};
use crate::path::StepPath;
use crate::store::{MessageId, RunStatus, Store, StoreError, StoreErrorKind};

/// Maximum time to wait for the process that executes a run.
const PATIENCE: Duration = Duration::from_secs(30);
/// Initial and maximum interval for polling another process through the store.
pub(super) const LOOK: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(200));

/// Carries out a request on a run, wherever the run is executed. Returns when the effect is stored.
/// `by` is the operator, unless the request contains one.
pub(crate) async fn control(
    host: &Arc<Host>,
    run: &RunId,
    request: ControlRequest,
    by: Option<Arc<str>>,
) -> Result<()> {
    control_again(host, run, (request, by), EarlierRequest::default()).await
}

/// Carries out a request that may have been sent to a process before.
pub(super) async fn control_again(
    host: &Arc<Host>,
    run: &RunId,
    (request, by): (ControlRequest, Option<Arc<str>>),
    mut earlier: EarlierRequest,
) -> Result<()> {
    let store = host.require_store()?;
    let Some(here) = host.live.as_ref() else { return Err(StoreError::no_store().into()) };
    let mut events_read = 0;
    loop {
        // Holding a reservation prevents other tasks of this process from opening the run.
        let reservation = match here.find(run).await {
            Found::Live(live) => {
                if earlier.may_be_recorded(&request) {
                    let events = read_events(&store, run, 0).await?;
                    if let Some(then) = done_before(host, &events, &request, by.as_ref(), &earlier)
                    {
                        return follow_up(host, &store, run, then).await;
                    }
                }
                let events = live.log.visible();
                match live.ask(request.clone(), by.clone()).await {
                    Ok(outcome) => return Ok(outcome?),
                    // The run stopped before the outcome was known. Looks up the run again.
                    Err(granting) => {
                        earlier.after.get_or_insert(events);
                        earlier.granting = granting;
                        continue;
                    }
                }
            }
            Found::Free(reservation) => reservation,
        };
        match control_at_rest(
            host,
            &store,
            run,
            (&request, by.as_ref()),
            &earlier,
            &mut events_read,
        )
        .await
        {
            // The journal grew meanwhile.
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Fenced => continue,
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Busy => {
                earlier.after.get_or_insert(events_read);
            }
            Ok(then) => {
                // Released first, because a resume reserves the run itself.
                drop(reservation);
                return follow_up(host, &store, run, then).await;
            }
            Err(error) => return Err(error),
        }
        drop(reservation);
        if let Some(outcome) = control_elsewhere(&store, run, &request, by.as_deref()).await? {
            return Ok(outcome?);
        }
    }
}

/// An earlier attempt to send a request, to a process that executed the run and stopped before it
/// reported the outcome. That process may have recorded the request. The record then counts, even
/// if another process continues the run.
///
/// A request that was sent through the store needs no such check: its outcome is stored with its
/// record, so a missing outcome means that it was not recorded.
#[derive(Default)]
pub(super) struct EarlierRequest {
    /// Number of events in the journal when the first process was asked.
    pub(super) after: Option<u64>,
    /// The events by which the last process granted the request, if it was this process.
    pub(super) granting: Option<GrantingEvents>,
}

impl EarlierRequest {
    fn may_be_recorded(&self, request: &ControlRequest) -> bool {
        match request.is_known_by_number() {
            true => self.granting.is_some(),
            false => self.after.is_some(),
        }
    }

    /// Returns `true` if an event that grants such a request may be the record of this request.
    fn may_include(&self, request: &ControlRequest, event: &Event) -> bool {
        match request {
            // A message is identified by its id.
            ControlRequest::Message { .. } => true,
            _ if request.is_known_by_number() => {
                self.granting.is_some_and(|granting| granting.may_include(event))
            }
            _ => self.after.is_some_and(|after| event.seq > after),
        }
    }
}

/// The action that follows a request to a run that no process executes.
enum Then {
    /// No action: the run waits for a process that resumes it, or has ended.
    Rests,
    /// The run continues in this process, if possible.
    Continues,
    /// The run compensates and ends.
    Undoes,
}

async fn follow_up(
    host: &Arc<Host>,
    store: &Arc<dyn Store>,
    run: &RunId,
    then: Then,
) -> Result<()> {
    match then {
        Then::Rests => Ok(()),
        Then::Continues => {
            continue_here(host, run).await;
            Ok(())
        }
        Then::Undoes => compensate_here(host, store, run).await,
    }
}

/// Finds the record of a request that was sent before, and returns the next action; `None` if the
/// request is not recorded.
fn done_before(
    host: &Host,
    events: &[Event],
    request: &ControlRequest,
    by: Option<&Arc<str>>,
    earlier: &EarlierRequest,
) -> Option<Then> {
    let recorded = host.redactor.as_ref().map(|redactor| request.recorded_by(redactor));
    let recorded = recorded.as_ref().unwrap_or(request);
    let is_by_operator = |event: &Event| match &event.kind {
        EventKind::RunPaused { by: of, .. } | EventKind::RunResumed { by: of, .. }
            if host.redactor.is_none() =>
        {
            of.as_ref() == by
        }
        _ => true,
    };
    if !was_done(recorded, events, |event| {
        earlier.may_include(request, event) && is_by_operator(event)
    }) {
        return None;
    }
    let state = RunState::from_events(events);
    Some(match request {
        ControlRequest::Retry { .. } => Then::Continues,
        ControlRequest::Cancel { .. } if is_undone(&state) => Then::Undoes,
        _ => Then::Rests,
    })
}

/// Returns `true` while the run must compensate calls.
fn is_undone(state: &RunState) -> bool {
    state.compensating && !state.status.has_ended()
}

/// Resumes a retried run, if the program has its definition. Otherwise the run waits for a process
/// that does.
async fn continue_here(host: &Arc<Host>, run: &RunId) {
    if let Err(error) = (host.resume)(host, run).await {
        tracing::warn!(%run, error = host.redacted(error), "a run is to continue and waits: it could not be resumed here");
    }
}

/// Executes the compensation of a cancelled run and waits for its end, also if another process
/// executes it.
///
/// # Errors
/// [`Error::CompensationOwed`] if this process cannot compensate. The run stays unchanged, and
/// another process can continue it.
async fn compensate_here(host: &Arc<Host>, store: &Arc<dyn Store>, run: &RunId) -> Result<()> {
    let problem = match (host.resume)(host, run).await {
        Ok(()) => None,
        Err(owed @ Error::CompensationOwed { .. }) => return Err(owed),
        Err(Error::Store(error))
            if matches!(error.kind(), StoreErrorKind::Busy | StoreErrorKind::Ended) =>
        {
            None
        }
        Err(error) => Some(error.to_string()),
    };
    let problem = match problem {
        Some(problem) => problem,
        // The outcome is ignored, because the record of the run below contains it.
        None => match attach(host, run).await?.end().await {
            Err(Error::Store(error)) => error.to_string(),
            _ => String::new(),
        },
    };
    match store.record(run).await? {
        Some(record) if record.status == RunStatus::Cancelled => Ok(()),
        Some(record) if record.status.has_ended() => {
            let problem = format!(
                "the run cannot be cancelled: it was over ({}) but for undoing what it had done, and that has ended now",
                record.status
            );
            Err(ControlError::new(ControlErrorKind::WrongState, problem).into())
        }
        Some(_) => {
            let undos = CompensationPlan::from_events(&read_events(store, run, 0).await?).undos();
            let open = undos.into_iter().filter(|undo| undo.state.is_open());
            Err(Error::CompensationOwed {
                run: run.clone(),
                calls: open.map(|undo| undo.call.path).collect(),
                problem,
            })
        }
        None => Err(StoreError::not_found(run).into()),
    }
}

/// Carries out a request on a run that no process executes: writes the resulting events into its
/// journal, in one commit. Sets `events_read` to the number of events in the journal.
async fn control_at_rest(
    host: &Arc<Host>,
    store: &Arc<dyn Store>,
    run: &RunId,
    (request, by): (&ControlRequest, Option<&Arc<str>>),
    earlier: &EarlierRequest,
    events_read: &mut u64,
) -> Result<Then> {
    let events = read_events(store, run, 0).await?;
    let after = events.len() as u64;
    if let Some(then) = done_before(host, &events, request, by, earlier) {
        return Ok(then);
    }
    *events_read = after;
    let state = RunState::from_events(&events);
    let cancels = matches!(request, ControlRequest::Cancel { .. });
    if cancels && is_undone(&state) {
        // The run was cancelled or failed before, and its compensation is not finished.
        return match store.known_holder(run).await? {
            Some(process) => Err(StoreError::busy(run, &process).into()),
            None => Ok(Then::Undoes),
        };
    }
    let time = host.clock.now();
    let new = match host.events_for(&state, request, Recorder::AtRest) {
        Ok(new) => new,
        // The process that executes the run has newer data.
        Err(error) => {
            return match store.known_holder(run).await? {
                Some(process) => Err(StoreError::busy(run, &process).into()),
                None => Err(error.into()),
            };
        }
    };
    let events_of = |new: Vec<(StepPath, EventKind)>, after: u64| -> Vec<Event> {
        let event = |(seq, (path, kind))| {
            let kind = EventKind::with_operator(kind, by);
            let kind =
                if let Some(redactor) = &host.redactor { redactor.event(kind) } else { kind };
            Event { run_id: run.clone(), seq, part: 0, time, path, kind }
        };
        (after + 1..).zip(new).map(event).collect()
    };
    if new.is_empty() {
        return Ok(Then::Rests);
    }
    let mut new = events_of(new, after);
    let mut undoes = cancels && state.compensates;
    if undoes && let Some(end) = end_without_undoing(&events, &new) {
        undoes = false;
        let seq = after + new.len() as u64;
        new.extend(events_of(end, seq));
    }
    // Fails with `Fenced` if the journal has grown since it was read.
    store.amend(run, after, new).await?;
    Ok(match request {
        _ if undoes => Then::Undoes,
        ControlRequest::Retry { .. } => Then::Continues,
        _ => Then::Rests,
    })
}

/// Returns the end of a cancelled run that has no call to compensate; `None` if there is one. `new`
/// are the events that cancel the run.
fn end_without_undoing(events: &[Event], new: &[Event]) -> Option<Vec<(StepPath, EventKind)>> {
    let reason = new.iter().find_map(|event| match &event.kind {
        EventKind::RunCompensating { cancelled: Some(reason), .. } => Some(Arc::clone(reason)),
        _ => None,
    })?;
    let mut done = CompensationPlan::from_events(events);
    new.iter().for_each(|event| done.apply(&event.path, &event.kind));
    let newer = done.take_newer();
    let undos = done.undos();
    if undos.iter().any(|undo| undo.state.is_open()) {
        return None;
    }
    let mut left: Vec<NotUndone> = undos.into_iter().filter_map(Undo::not_undone).collect();
    left.extend(newer.map(NewerEvent::not_undone));
    let root = StepPath::root;
    Some(vec![
        (root(), EventKind::RunCompensated { undone: 0, left }),
        (root(), EventKind::RunCancelled { reason, by: None }),
    ])
}

/// Sends the request to the process that executes the run and waits for its outcome. Returns `None`
/// if that process no longer executes the run.
async fn control_elsewhere(
    store: &Arc<dyn Store>,
    run: &RunId,
    request: &ControlRequest,
    by: Option<&str>,
) -> Result<Option<Result<(), ControlError>>> {
    let body = StoredRequest::new(request, by);
    let body = serde_json::to_string(&body)
        .map_err(|error| Error::value(&Arc::from("a control request"), &error))?;
    let messages = store.require_messages()?;
    let message = match messages.send(run, body).await {
        Ok(message) => message,
        // The run has ended meanwhile. The caller looks it up again.
        Err(error) if error.kind() == StoreErrorKind::Ended => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let waited = tokio::time::timeout(PATIENCE, wait_for(store, run, message)).await;
    // The message is withdrawn. An outcome that was stored meanwhile counts; without one, the
    // request has had no effect and will have none.
    if let Some(outcome) = messages.withdraw(message).await?.as_deref().and_then(read_outcome) {
        return Ok(Some(outcome));
    }
    match waited {
        Ok(left) => left.map(|()| None).map_err(Error::from),
        // The request was accepted, and its outcome is the end of the run.
        Err(_)
            if matches!(request, ControlRequest::Cancel { .. })
                && is_compensating(store, run).await? =>
        {
            let problem = format!(
                "the process that executes the run `{run}` undoes what the run had done, and has not ended that within \
                 {PATIENCE:?}; the run ends after that: look at it again, or cancel it again to give up the compensation \
                 that it waits for"
            );
            Ok(Some(Err(ControlError::new(ControlErrorKind::NoResponse, problem))))
        }
        Err(_) => {
            let problem = format!(
                "the process that executes the run `{run}` did not respond within {PATIENCE:?}; the request is withdrawn, \
                 unless that process has just read it: look at the run before you ask again"
            );
            Ok(Some(Err(ControlError::new(ControlErrorKind::NoResponse, problem))))
        }
    }
}

async fn is_compensating(store: &Arc<dyn Store>, run: &RunId) -> Result<bool, StoreError> {
    Ok(store.record(run).await?.is_some_and(|record| record.status == RunStatus::Compensating))
}

/// Returns `true` if one of the possible events grants the request. Both are in their recorded,
/// redacted form.
fn was_done(
    request: &ControlRequest,
    events: &[Event],
    is_possible: impl Fn(&Event) -> bool,
) -> bool {
    let mut all = events.iter().enumerate();
    all.any(|(at, event)| {
        is_possible(event) && is_done(request, event) && answers(request, event, &events[..at])
    })
}

/// Returns `true` if an answer refers to the question that the request names: the last question at
/// the path before the answer.
fn answers(request: &ControlRequest, answer: &Event, before: &[Event]) -> bool {
    let ControlRequest::Answer { question: Some(named), .. } = request else { return true };
    let asked =
        before.iter().rev().filter(|event| event.path == answer.path).find_map(
            |event| match &event.kind {
                EventKind::ApprovalRequested(question) => Some(&question.id),
                _ => None,
            },
        );
    asked == Some(named)
}

/// Returns `true` if an event grants the request. Ignores the id of an answered question.
fn is_done(request: &ControlRequest, event: &Event) -> bool {
    let is_of = |node: &str| event.path.to_string() == *node;
    match (request, &event.kind) {
        (ControlRequest::Pause, EventKind::RunPaused { reason, .. }) => {
            *reason == PauseReason::Operator
        }
        (ControlRequest::Unpause, EventKind::RunResumed { recovered: false, .. }) => {
            event.path.is_root()
        }
        (
            ControlRequest::Cancel { reason },
            EventKind::RunCancelled { reason: of, .. }
            | EventKind::RunCompensating { cancelled: Some(of), .. },
        ) => **of == **reason,
        (ControlRequest::Retry { node, by }, EventKind::NodeReset { by: of }) => {
            is_of(node) && **of == **by
        }
        (
            ControlRequest::Answer { node, answer, by, .. },
            EventKind::ApprovalResolved { answer: given, by: of },
        ) => is_of(node) && **of == **by && given == answer,
        (ControlRequest::Message { id, .. }, EventKind::MessageReceived { id: of, .. }) => {
            **of == **id
        }
        (ControlRequest::Close, EventKind::RunClosed { .. }) => true,
        _ => false,
    }
}

/// Waits for the outcome of a message. Also returns when no process is left to handle it.
async fn wait_for(
    store: &Arc<dyn Store>,
    run: &RunId,
    message: MessageId,
) -> Result<(), StoreError> {
    let messages = store.require_messages()?;
    let (mut pause, longest) = LOOK;
    loop {
        tokio::time::sleep(pause).await;
        if messages.outcome(message).await?.is_some() {
            return Ok(());
        }
        // Only at the maximum interval, since these queries are more expensive.
        if pause == longest
            && (store.record(run).await?.is_none_or(|run| run.status.has_ended())
                || store.known_holder(run).await?.is_none())
        {
            return Ok(());
        }
        pause = longest.min(pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ApprovalRequest;
    use crate::middleware::{Middleware, redact};
    use crate::value::Encoded;

    #[test]
    fn a_request_is_known_by_its_record_whatever_is_taken_out_of_it() {
        let redactor = redact().secret("swordfish").redactor().unwrap();
        let (node, by) = ("gate".to_owned(), "bob of swordfish".to_owned());
        let answer = Encoded::from_json("{\"comment\":\"swordfish, please\"}".to_owned()).unwrap();
        let reason = "no swordfish".to_owned();
        let kinds = [
            EventKind::RunCancelled { reason: reason.as_str().into(), by: None },
            EventKind::NodeReset { by: by.as_str().into() },
            EventKind::ApprovalResolved { answer: answer.clone(), by: by.as_str().into() },
        ];
        let requests = [
            ControlRequest::Cancel { reason },
            ControlRequest::Retry { node: node.clone(), by: by.clone() },
            ControlRequest::answer(&node, answer, &by),
        ];
        for (kind, request) in kinds.into_iter().zip(requests) {
            let (run_id, path) = (RunId::new("r"), "gate".parse().unwrap());
            let time = crate::time::Timestamp::from_millis(0);
            let event = Event { run_id, seq: 1, part: 0, time, path, kind: redactor.event(kind) };
            assert!(!is_done(&request, &event));
            assert!(is_done(&request.recorded_by(&redactor), &event), "{request:?}");
        }
    }

    #[test]
    fn an_answer_counts_for_the_question_that_it_answered() {
        let (yes, ask) = (Encoded::from_json("true".to_owned()).unwrap(), |id: &str| {
            let mut asked =
                ApprovalRequest::new("sure?".to_owned(), Encoded::null(), Encoded::null());
            asked.id = id.into();
            EventKind::ApprovalRequested(Arc::new(asked))
        });
        let answered = || EventKind::ApprovalResolved { answer: yes.clone(), by: "ada".into() };
        let kinds = [ask("00000001"), answered(), ask("00000002"), answered(), ask("00000003")];
        let time = crate::time::Timestamp::from_millis(0);
        let event = |(seq, kind)| Event {
            run_id: RunId::new("r"),
            seq,
            part: 0,
            time,
            path: "gate".parse().unwrap(),
            kind,
        };
        let events: Vec<Event> = (1..).zip(kinds).map(event).collect();
        let done = |named: &str, after| {
            was_done(&ControlRequest::answer(named, yes.clone(), "ada"), &events, |event| {
                event.seq > after
            })
        };
        assert!(done("gate@00000001", 0) && done("gate@00000002", 2) && done("gate", 2));
        assert!(!done("gate@00000001", 2) && !done("gate@00000003", 0) && !done("gate", 4));
    }
}
