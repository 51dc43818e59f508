//! Control requests by run id: pause, unpause, cancel, retry and answer a run that this process, another process or
//! none executes.
//!
//! A granted request is stored first; the caller gets the outcome when its effect is in the store.

use std::sync::Arc;
use std::time::Duration;

use super::Runtime;
use crate::error::{ControlError, ControlErrorKind, Error, Result};
use crate::event::{Event, EventKind, PauseReason, RunId};
use crate::run::{Approval, ControlRequest, Found, Recorder, RunState, read_events, read_outcome};
use crate::store::{MessageId, Store, StoreError, StoreErrorKind};
use crate::value::{Encoded, NodeValue};

/// How long the process that executes a run is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the outcome of a message is looked for: at first, and at most.
const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

impl Runtime {
    /// Pauses a run: nothing new is started, running steps continue to their end. Agents in it make no further
    /// model or tool call meanwhile, and their time limits stand still.
    ///
    /// It returns when that is kept in the store; so do all of these. Of a run that another process executes, the
    /// request is left in the store for that process, which is waited for up to 30 seconds; when it does not respond,
    /// the request is withdrawn. Dropping the future leaves open whether the request has its effect.
    ///
    /// # Errors
    /// [`Error::Control`] when the run is not running, is one of an agent, or the process that executes it does not
    /// respond (`no_response`: the request is withdrawn, and has an effect only if that
    /// process had read it and was held up); [`Error::Store`] when there is no such run.
    pub async fn pause(&self, run: &RunId) -> Result<()> {
        self.control(run, ControlRequest::Pause).await
    }

    /// Lets a run continue that an operator paused. One that no process executes is `queued` then and continues when it
    /// is [resumed](Self::resume).
    ///
    /// # Errors
    /// [`Error::Control`] when the run is not paused by an operator.
    pub async fn unpause(&self, run: &RunId) -> Result<()> {
        self.control(run, ControlRequest::Unpause).await
    }

    /// Cancels a run, also one that no process executes, and waits until its end is kept.
    ///
    /// # Errors
    /// [`Error::Control`] when the run has ended, also when it ended by itself meanwhile.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<()> {
        self.control(run, ControlRequest::Cancel { reason: reason.to_owned() }).await
    }

    /// Lets a failed or interrupted node run again, with what depends on it. A run that failed because of it is open
    /// again: `queued` when no process executes it, until it is [resumed](Self::resume).
    ///
    /// # Errors
    /// [`Error::Control`] when there is no such node, or it has not failed.
    pub async fn retry(&self, run: &RunId, node: &str, by: &str) -> Result<()> {
        self.control(run, ControlRequest::Retry { node: node.to_owned(), by: by.to_owned() }).await
    }

    /// Answers the usual question of a gate, or of a node that needs approval.
    ///
    /// # Errors
    /// [`Error::Control`] when the node does not ask, or asks for another type.
    pub async fn approve(&self, run: &RunId, node: &str, approval: Approval, by: &str) -> Result<()> {
        self.answer(run, node, &approval, by).await
    }

    /// Answers the question of a gate with a value of the type that it asks for.
    ///
    /// # Errors
    /// [`Error::Control`] when the node does not ask, or asks for another type.
    pub async fn answer<A: NodeValue + Sync>(&self, run: &RunId, node: &str, answer: &A, by: &str) -> Result<()> {
        let answer = answer.encode().map_err(|error| Error::value(&Arc::from(node), &error))?;
        self.answer_encoded(run, node, answer, by).await
    }

    /// Answers the question of a gate with a value that is encoded already.
    ///
    /// # Errors
    /// [`Error::Control`] when the node does not ask, or asks for another type.
    pub async fn answer_encoded(&self, run: &RunId, node: &str, answer: Encoded, by: &str) -> Result<()> {
        self.control(run, ControlRequest::Answer { node: node.to_owned(), answer, by: by.to_owned() }).await
    }

    async fn control(&self, run: &RunId, request: ControlRequest) -> Result<()> {
        let store = self.require_store()?;
        let Some(here) = self.host().live.as_ref() else { return Err(no_store().into()) };
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
            match self.control_at_rest(&store, run, &request, asked_after).await {
                // Its journal grew meanwhile.
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Fenced => continue,
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Busy => {}
                outcome => return outcome,
            }
            drop(reservation);
            if let Some(outcome) = self.control_elsewhere(&store, run, &request).await? {
                return Ok(outcome?);
            }
        }
    }

    /// Does it to a run that no process executes: what follows is written into its journal, in one commit.
    async fn control_at_rest(
        &self,
        store: &Arc<dyn Store>,
        run: &RunId,
        request: &ControlRequest,
        asked_after: Option<u64>,
    ) -> Result<()> {
        let events = read_events(store, run, 0).await?;
        if asked_after.is_some_and(|after| events.iter().any(|event| event.seq > after && is_done(request, event))) {
            // It was done, and the run stopped before that was told.
            return Ok(());
        }
        let state = RunState::of(&events);
        let after = events.len() as u64;
        let time = self.host().clock.now();
        let new = match self.host().events_for(&state, request, Recorder::AtRest) {
            Ok(new) => new,
            // Of a run that is executed elsewhere, that process knows better.
            Err(error) => {
                return match store.holder(run).await? {
                    Some(process) => Err(StoreError::busy(run, &process).into()),
                    None => Err(error.into()),
                };
            }
        };
        let new = (after + 1..).zip(new).map(|(seq, (path, kind))| Event {
            run_id: run.clone(),
            seq,
            part: 0,
            time,
            path,
            kind,
        });
        Ok(store.amend(run, after, new.collect()).await?)
    }

    /// Leaves the request for the process that executes the run and waits for its outcome; `None` when that process no
    /// longer does.
    async fn control_elsewhere(
        &self,
        store: &Arc<dyn Store>,
        run: &RunId,
        request: &ControlRequest,
    ) -> Result<Option<Result<(), ControlError>>> {
        let body =
            serde_json::to_string(request).map_err(|error| Error::value(&Arc::from("a control request"), &error))?;
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
}

/// Whether an event is what a request asked for.
fn is_done(request: &ControlRequest, event: &Event) -> bool {
    let is_of = |node: &str| event.path.to_string() == *node;
    match (request, &event.kind) {
        (ControlRequest::Pause, EventKind::RunPaused { reason }) => *reason == PauseReason::Operator,
        (ControlRequest::Unpause, EventKind::RunResumed { recovered: false, .. }) => event.path.is_root(),
        (ControlRequest::Cancel { reason }, EventKind::RunCancelled { reason: of }) => **of == **reason,
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

/// A store with nobody behind it cannot be found by an id.
pub(super) fn no_store() -> StoreError {
    StoreError::new(
        StoreErrorKind::NotFound,
        "this runtime has no store, so runs cannot be found by their id; give it one with `Runtime::builder().store(..)`",
    )
}
