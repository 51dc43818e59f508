//! What an operator can do to a run by its id, wherever it is: in this process, in another, or in none.

use std::sync::Arc;

use super::Runtime;
use super::journal::read_events;
use super::state::RunState;
use crate::context::RunShared;
use crate::control::{ControlError, ControlErrorKind, Signal};
use crate::error::{Error, Result};
use crate::event::{Event, EventKind, PauseReason, RunId};
use crate::path::StepPath;
use crate::store::{RunStatus, Store, StoreError, StoreErrorKind};
use crate::value::{Encoded, NodeValue};
use crate::workflow::{Approval, check_answer};

impl Runtime {
    /// Pauses a run: nothing new is started, steps that are going on run to their end.
    ///
    /// Of a run that another process executes, this leaves the wish for that process and returns; so do all of these.
    ///
    /// # Errors
    /// [`Error::Control`] when the run is not running; [`Error::Store`] when there is no such run.
    pub async fn pause(&self, run: &RunId) -> Result<()> {
        self.control(run, Signal::Pause).await
    }

    /// Lets a run go on that an operator paused. One that no process executes goes on when it is
    /// [resumed](Self::resume).
    ///
    /// # Errors
    /// [`Error::Control`] when the run is not paused by an operator.
    pub async fn unpause(&self, run: &RunId) -> Result<()> {
        self.control(run, Signal::Resume).await
    }

    /// Cancels a run, also one that no process executes.
    ///
    /// # Errors
    /// [`Error::Control`] when the run has ended.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<()> {
        self.control(run, Signal::Cancel { reason: reason.to_owned() }).await
    }

    /// Lets a failed or interrupted node run again, with what depends on it. A run that failed because of it is open
    /// again; when no process executes it, it goes on when it is [resumed](Self::resume).
    ///
    /// # Errors
    /// [`Error::Control`] when there is no such node, or it has not failed.
    pub async fn retry(&self, run: &RunId, node: &str, by: &str) -> Result<()> {
        self.control(run, Signal::Retry { node: node.to_owned(), by: by.to_owned() }).await
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
        self.control(run, Signal::Answer { node: node.to_owned(), answer, by: by.to_owned() }).await
    }

    async fn control(&self, run: &RunId, signal: Signal) -> Result<()> {
        if let Some(live) = self.live(run) {
            if let Signal::Cancel { reason } = &signal {
                live.cancel(reason.as_str());
                return Ok(());
            }
            if let Some(outcome) = live.ask(signal.clone()).await {
                return Ok(outcome?);
            }
        }
        let store = self.require_store()?;
        let epoch = match store.open(run).await {
            Ok(epoch) => epoch,
            Err(error) if error.kind() == StoreErrorKind::Busy => {
                // The store hands it to the process that executes the run, which says in the journal what came of it.
                self.check_elsewhere(&store, run, &signal).await?;
                let message =
                    serde_json::to_string(&signal).map_err(|error| Error::value(&Arc::from("signal"), &error))?;
                return Ok(store.send(run, message).await?);
            }
            Err(error) => return Err(error.into()),
        };
        let outcome = self.control_at_rest(&store, run, epoch, &signal).await;
        store.close(run, epoch).await?;
        outcome
    }

    /// What can be said at once about a wish for a run of another process.
    async fn check_elsewhere(&self, store: &Arc<dyn Store>, run: &RunId, signal: &Signal) -> Result<()> {
        let state = RunState::of(&read_events(store, run, 0).await?);
        self.events_for(&state, signal).map(drop)
    }

    /// Does it to a run that no process executes: what follows is written into its journal.
    async fn control_at_rest(
        &self,
        store: &Arc<dyn Store>,
        run: &RunId,
        epoch: crate::store::Epoch,
        signal: &Signal,
    ) -> Result<()> {
        let events = read_events(store, run, 0).await?;
        let state = RunState::of(&events);
        let after = events.len() as u64;
        let time = self.clock().now();
        let new = (after + 1..).zip(self.events_for(&state, signal)?).map(|(seq, (path, kind))| Event {
            run_id: run.clone(),
            seq,
            part: 0,
            time,
            path,
            kind,
        });
        Ok(store.append(run, epoch, after, new.collect()).await?)
    }

    /// The events that do what was asked, or why it cannot be done.
    fn events_for(&self, state: &RunState, signal: &Signal) -> Result<Vec<(StepPath, EventKind)>> {
        let root = StepPath::root;
        let resumed = || (root(), EventKind::RunResumed { recovered: false, redefined: None });
        let paused_for = state.paused;
        Ok(match signal {
            Signal::Pause => match state.status {
                RunStatus::Running | RunStatus::Paused if paused_for != Some(PauseReason::Operator) => {
                    vec![(root(), EventKind::RunPaused { reason: PauseReason::Operator })]
                }
                RunStatus::Paused => return Err(ControlError::state("paused", "paused already").into()),
                status => return Err(over("paused", status)),
            },
            Signal::Resume => match paused_for {
                Some(PauseReason::Operator) => vec![resumed()],
                _ if state.status.has_ended() => return Err(over("resumed", state.status)),
                reason => return Err(ControlError::not_resumable(reason).into()),
            },
            Signal::Cancel { reason } => match state.status.has_ended() {
                true => return Err(over("cancelled", state.status)),
                false => {
                    let mut events = state.closings(reason);
                    events.push((root(), EventKind::RunCancelled { reason: reason.as_str().into() }));
                    events
                }
            },
            Signal::Retry { node, by } => {
                if matches!(state.status, RunStatus::Success | RunStatus::Cancelled) {
                    return Err(over("retried", state.status));
                }
                let path = state.failed_node(node)?;
                let mut events = Vec::new();
                if state.status == RunStatus::Failed || paused_for.is_some_and(|reason| reason != PauseReason::Operator)
                {
                    events.push(resumed());
                }
                events.push((path, EventKind::NodeReset { by: by.as_str().into() }));
                events
            }
            Signal::Answer { node, answer, by } => {
                if state.status.has_ended() {
                    return Err(over("answered", state.status));
                }
                let (path, request) = state.asking_node(node)?;
                self.check_answer(state, node, &request.answer, answer)?;
                let mut events =
                    vec![(path, EventKind::ApprovalResolved { answer: answer.clone(), by: by.as_str().into() })];
                if paused_for.is_some_and(|reason| reason != PauseReason::Operator) {
                    events.push(resumed());
                }
                events
            }
        })
    }

    /// By the workflow itself where the program has it; else the usual answer is known, and any other is taken.
    fn check_answer(&self, state: &RunState, node: &str, schema: &Encoded, answer: &Encoded) -> Result<()> {
        let spec = state.workflow.as_ref().and_then(|name| self.workflow_spec(name).ok());
        if let Some(definition) = spec.as_ref().and_then(|spec| spec.nodes.iter().find(|of| of.path.names() == node)) {
            return Ok(check_answer(definition, answer)?);
        }
        let usual = Approval::schema().to_string();
        if usual == schema.as_str()
            && let Err(error) = answer.decode::<Approval>()
        {
            let message = format!("the answer does not fit what `{node}` asks for: {error}; `{answer}` was given");
            return Err(ControlError::new(ControlErrorKind::WrongAnswer, message).into());
        }
        Ok(())
    }

    /// Takes in what other processes have left for a run that is executed here, until it ends.
    pub(super) fn watch_messages(&self, shared: &Arc<RunShared>) {
        /// How often a store that other processes may use is asked.
        const EVERY: std::time::Duration = std::time::Duration::from_millis(200);
        let Some((store, Some(epoch))) = shared.log.store().map(|(store, epoch)| (Arc::clone(store), epoch)) else {
            return;
        };
        if !store.is_shared() {
            return;
        }
        let (run, shared) = (shared.id.clone(), Arc::downgrade(shared));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let Some(live) = shared.upgrade().filter(|live| !live.log.is_closed()) else { return };
                let Ok(messages) = store.receive(&run, epoch).await else { return };
                for message in messages {
                    match serde_json::from_str::<Signal>(&message) {
                        Ok(Signal::Cancel { reason }) => live.cancel(reason),
                        Ok(signal) => {
                            if let Some(Err(error)) = live.ask(signal).await {
                                tracing::warn!(%run, %error, "a wish from another process could not be granted");
                            }
                        }
                        Err(error) => tracing::warn!(%run, %error, "a message from another process is not understood"),
                    }
                }
            }
        });
    }
}

fn over(what: &str, status: RunStatus) -> Error {
    ControlError::state(what, format!("over ({status})")).into()
}

/// A store with nobody behind it cannot be found by an id.
pub(super) fn no_store() -> StoreError {
    StoreError::new(
        StoreErrorKind::NotFound,
        "this runtime has no store, so runs cannot be found by their id; give it one with `Runtime::builder().store(..)`",
    )
}
