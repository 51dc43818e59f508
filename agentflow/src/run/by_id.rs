//! Control requests to a run by its id: pause, unpause, cancel, retry and answer one that this process, another process
//! or none executes. It decides nothing: the run's process or `control_events` does.
//!
//! A granted request is stored first; the caller gets the outcome when its effect is in the store.

use std::sync::Arc;
use std::time::Duration;

use super::control_events::Recorder;
use super::control_request::ControlRequest;
use super::host::Host;
use super::live::Found;
use super::read::read_events;
use super::replies::read_outcome;
use super::state::RunState;
use crate::error::{ControlError, ControlErrorKind, Error, Result};
use crate::event::{Event, EventKind, PauseReason, RunId};
use crate::store::{MessageId, Store, StoreError, StoreErrorKind};

/// How long the process that executes a run is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often another process is looked at through the store: at first, and at most.
pub(super) const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

/// Does what is asked of a run, wherever it is executed, and returns when that is kept.
pub(crate) async fn control(host: &Arc<Host>, run: &RunId, request: ControlRequest) -> Result<()> {
    let store = host.require_store()?;
    let Some(here) = host.live.as_ref() else { return Err(StoreError::no_store().into()) };
    // How many events the run had when it was asked while it was executed here.
    let mut asked_after = None;
    loop {
        let reservation = match here.find(run).await {
            Found::Live(live) => {
                let events = live.log.visible();
                match live.ask(request.clone()).await {
                    Some(outcome) => return Ok(outcome?),
                    // It stopped before the outcome was told: what it is now is looked at anew.
                    None => {
                        asked_after.get_or_insert(events);
                        continue;
                    }
                }
            }
            Found::Free(reservation) => reservation,
        };
        match control_at_rest(host, &store, run, &request, asked_after).await {
            // Its journal grew meanwhile.
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Fenced => continue,
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Busy => {}
            Ok(true) => {
                drop(reservation);
                continue_here(host, run).await;
                return Ok(());
            }
            Ok(false) => return Ok(()),
            Err(error) => return Err(error),
        }
        drop(reservation);
        if let Some(outcome) = control_elsewhere(&store, run, &request).await? {
            return Ok(outcome?);
        }
    }
}

/// Resumes a run that was retried, or that undoes what it had done, where the program knows what it runs. Elsewhere it waits for a process that does.
async fn continue_here(host: &Arc<Host>, run: &RunId) {
    if let Err(error) = (host.resume)(host, run).await {
        tracing::warn!(%run, %error, "a run is to continue and waits: it could not be resumed here");
    }
}

/// Does it to a run that no process executes: what follows is written into its journal, in one commit. Whether the run
/// then continues.
async fn control_at_rest(
    host: &Arc<Host>,
    store: &Arc<dyn Store>,
    run: &RunId,
    request: &ControlRequest,
    asked_after: Option<u64>,
) -> Result<bool> {
    let events = read_events(store, run, 0).await?;
    if asked_after.is_some_and(|after| events.iter().any(|event| event.seq > after && is_done(request, event))) {
        // It was done, and the run stopped before that was told.
        return Ok(matches!(request, ControlRequest::Retry { .. }));
    }
    let state = RunState::of(&events);
    let after = events.len() as u64;
    let time = host.clock.now();
    let new = match host.events_for(&state, request, Recorder::AtRest) {
        Ok(new) => new,
        // Of a run that is executed elsewhere, that process knows better.
        Err(error) => {
            return match store.holder(run).await? {
                Some(process) => Err(StoreError::busy(run, &process).into()),
                None => Err(error.into()),
            };
        }
    };
    let new =
        (after + 1..).zip(new).map(|(seq, (path, kind))| Event { run_id: run.clone(), seq, part: 0, time, path, kind });
    store.amend(run, after, new.collect()).await?;
    let compensates = matches!(request, ControlRequest::Cancel { .. }) && state.compensates;
    Ok(compensates || matches!(request, ControlRequest::Retry { .. }))
}

/// Leaves the request for the process that executes the run and waits for its outcome; `None` when that process no
/// longer does.
async fn control_elsewhere(
    store: &Arc<dyn Store>,
    run: &RunId,
    request: &ControlRequest,
) -> Result<Option<Result<(), ControlError>>> {
    let body = serde_json::to_string(request).map_err(|error| Error::value(&Arc::from("a control request"), &error))?;
    let message = match store.send(run, body).await {
        Ok(message) => message,
        Err(error) if error.kind() == StoreErrorKind::Ended => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let waited = tokio::time::timeout(PATIENCE, wait_for(store, run, message)).await;
    // Taken back: an outcome that came meanwhile counts, and without one nothing was done and nothing will be.
    if let Some(outcome) = store.withdraw(message).await?.as_deref().and_then(read_outcome) {
        return Ok(Some(outcome));
    }
    match waited {
        Ok(left) => left.map(|()| None).map_err(Error::from),
        Err(_) => {
            let problem = format!(
                "the process that executes the run `{run}` did not respond within {PATIENCE:?}; the request is withdrawn, \
                 unless that process has just read it: look at the run before you ask again"
            );
            Ok(Some(Err(ControlError::new(ControlErrorKind::NoResponse, problem))))
        }
    }
}

/// Whether an event is what a request asked for.
fn is_done(request: &ControlRequest, event: &Event) -> bool {
    let is_of = |node: &str| event.path.to_string() == *node;
    match (request, &event.kind) {
        (ControlRequest::Pause, EventKind::RunPaused { reason }) => *reason == PauseReason::Operator,
        (ControlRequest::Unpause, EventKind::RunResumed { recovered: false, .. }) => event.path.is_root(),
        (
            ControlRequest::Cancel { reason },
            EventKind::RunCancelled { reason: of } | EventKind::RunCompensating { cancelled: Some(of), .. },
        ) => **of == **reason,
        (ControlRequest::Retry { node, by }, EventKind::NodeReset { by: of }) => is_of(node) && **of == **by,
        (ControlRequest::Answer { node, answer, by }, EventKind::ApprovalResolved { answer: given, by: of }) => {
            is_of(node) && **of == **by && given == answer
        }
        _ => false,
    }
}

/// Waits until a message has an outcome, or nobody is left to give it one.
async fn wait_for(store: &Arc<dyn Store>, run: &RunId, message: MessageId) -> Result<(), StoreError> {
    let (mut pause, longest) = LOOK;
    loop {
        tokio::time::sleep(pause).await;
        if store.outcome(message).await?.is_some() {
            return Ok(());
        }
        // At the longest distance, since this asks more of the store.
        if pause == longest
            && (store.record(run).await?.is_none_or(|run| run.status.has_ended()) || store.holder(run).await?.is_none())
        {
            return Ok(());
        }
        pause = longest.min(pause * 2);
    }
}
