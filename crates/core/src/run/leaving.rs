//! How a run leaves its process before it has ended: nothing new begins in it, what is running may finish, and then it
//! stops at its journal, as if the process had ended. It decides no deadline.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::control_request::ControlRequest;
use super::shared::{RunShared, locked};
use crate::event::{Edge, Shape, Subject};
use crate::path::StepPath;
use crate::store::{StoreError, StoreErrorKind};

impl RunShared {
    /// Nothing new begins in the run from now on, and it stops when nothing is running any more. For one with a store.
    pub(crate) fn drain(&self) {
        if self.draining.swap(true, Ordering::SeqCst) {
            return;
        }
        if !self.held.swap(true, Ordering::SeqCst) {
            // Its time limit stands still meanwhile.
            locked(&self.operations().held_for).0 = Some(Instant::now());
        }
        self.listeners().notify(&ControlRequest::Drain, false);
        self.operations().released.notify_waiters();
    }

    /// Whether nothing new begins in the run here.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Waits until the run is drained.
    pub(crate) async fn until_drained(&self) {
        let operations = self.operations();
        loop {
            let changed = operations.released.notified();
            if self.is_draining() {
                return;
            }
            changed.await;
        }
    }

    /// Waits while an operator holds the run; until it is drained at most.
    pub(crate) async fn until_released(&self) {
        let operations = self.operations();
        loop {
            let changed = operations.released.notified();
            if !self.is_held() || self.is_draining() {
                return;
            }
            changed.await;
        }
    }

    /// Stops the run here: nothing more is kept, and whatever is running in it is dropped.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.log.close();
        self.cancellation.cancel();
        if let Some(operations) = self.operations.get() {
            operations.released.notify_waiters();
        }
    }

    /// Waits until it is stopped here.
    pub(crate) async fn until_stopped(&self) {
        let operations = self.operations();
        loop {
            let changed = operations.released.notified();
            if self.is_stopping() {
                return;
            }
            changed.await;
        }
    }

    /// Whether it was stopped, and not cancelled.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Gives up the right to write a run that was stopped; what its caller learns.
    pub(crate) async fn left(&self) -> StoreError {
        // A store that does not answer learns it when this process ends.
        if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(5), self.log.release()).await {
            tracing::warn!(run = %self.id, %error, "a run that was left could not be closed in its store");
        }
        let message =
            format!("the run `{}` has stopped here, since its runtime was drained; it can be resumed", self.id);
        StoreError::new(StoreErrorKind::Fenced, message)
    }

    /// An agent or a workflow in a step has nothing left that is running. It never continues here.
    pub(crate) async fn park(&self, base: &StepPath) {
        locked(&self.operations().parked).push(base.clone());
        if (self.log.is_agent() || self.is_undoing()) && self.is_quiet_below(&StepPath::root()) {
            // Its agent waits for the tools that wait for this, or the run for what undoes a call.
            if self.log.commit().await.is_ok() {
                self.stop();
            }
        }
        std::future::pending::<()>().await;
    }

    /// What is left of a step that was executed elsewhere waits for the run to stop. It never continues here.
    pub(crate) async fn park_left(&self, bases: Vec<StepPath>) -> Infallible {
        locked(&self.operations().parked).extend(bases);
        std::future::pending().await
    }

    /// The agents and workflows in steps that wait for the run to stop.
    pub(crate) fn parked(&self) -> Vec<StepPath> {
        locked(&self.operations().parked).clone()
    }

    /// Whether all that is running below a path waits for something in it that does not continue here: what is parked, or
    /// asks a person. What a step does beside its calls is not known.
    pub(crate) fn is_quiet_below(&self, path: &StepPath) -> bool {
        let Some(operations) = self.operations.get() else { return false };
        let mut parked: Vec<StepPath> =
            locked(&operations.parked).iter().filter(|base| base.is_within(path)).cloned().collect();
        parked.extend(self.log.waiting_below(path));
        if parked.is_empty() {
            return false;
        }
        let mut open = HashSet::new();
        for (_, path, kind) in self.log.records_below(path) {
            let Shape { subject, edge, .. } = kind.shape();
            match edge {
                _ if !matches!(subject, Subject::Model | Subject::Tool) => {}
                Edge::Opens => drop(open.insert(path)),
                Edge::Closes => drop(open.remove(&path)),
                _ => {}
            }
        }
        open.iter().all(|call| parked.iter().any(|base| base.is_within(call)))
    }
}
