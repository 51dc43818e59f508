//! Draining a run: no new work starts in it, running work may finish, and then the run stops at its
//! journal as if the process had ended. The caller of `drain` decides about the deadline.

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
    /// Starts to drain a run with a store: no new work starts, and the run stops when no work is
    /// running.
    pub(crate) fn drain(&self) {
        if self.draining.swap(true, Ordering::SeqCst) {
            return;
        }
        if !self.held.swap(true, Ordering::SeqCst) {
            // The time limit of the run is suspended while it is held.
            locked(&self.operations().held_for).0 = Some(Instant::now());
        }
        self.listeners().notify(&ControlRequest::Drain, false);
        self.operations().released.notify_waiters();
    }

    /// Returns `true` if the run is being drained in this process.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Waits until draining starts.
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

    /// Waits while an operator holds the run, or until draining starts.
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

    /// Stops the run in this process: closes the log, so no more records are stored, and drops the
    /// running work.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.log.close();
        self.cancellation.cancel();
        if let Some(operations) = self.operations.get() {
            operations.released.notify_waiters();
        }
    }

    /// Waits until the run is stopped in this process.
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

    /// Returns `true` if the run was stopped by draining, as opposed to cancelled.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Releases a stopped run in its store, and returns the error for its caller.
    pub(crate) async fn left(&self) -> StoreError {
        // A store that does not answer within five seconds frees the run when this process ends.
        if let Ok(Err(error)) =
            tokio::time::timeout(Duration::from_secs(5), self.log.release()).await
        {
            tracing::warn!(run = %self.id, %error, "a run that was left could not be closed in its store");
        }
        let message = format!(
            "the run `{}` has stopped here, since its runtime was drained; it can be resumed",
            self.id
        );
        StoreError::new(StoreErrorKind::Fenced, message)
    }

    /// Suspends an agent or workflow in a step that has no running work left while the run is being
    /// drained. The future never completes.
    pub(crate) async fn park(&self, base: &StepPath) {
        locked(&self.operations().parked).push(base.clone());
        if (self.log.is_agent() || self.is_undoing()) && self.is_quiet_below(&StepPath::root()) {
            // The agent waits for tools that wait for this step, or the run waits for a
            // compensation, so neither would stop the run.
            if self.log.commit().await.is_ok() {
                self.stop();
            }
        }
        std::future::pending::<()>().await;
    }

    /// Suspends a remote step that its worker left during a drain. `bases` are the agents and
    /// workflows in it that wait. The future never completes.
    pub(crate) async fn park_detached(&self, bases: Vec<StepPath>) -> Infallible {
        locked(&self.operations().parked).extend(bases);
        std::future::pending().await
    }

    /// Returns the agents and workflows in steps that wait for the run to stop.
    pub(crate) fn parked(&self) -> Vec<StepPath> {
        locked(&self.operations().parked).clone()
    }

    /// Returns `true` if all running work below a path waits for a suspended agent or workflow, or
    /// for a person. Does not detect other work of a step, such as a background task.
    pub(crate) fn is_quiet_below(&self, path: &StepPath) -> bool {
        let Some(operations) = self.operations.get() else { return false };
        let mut parked: Vec<StepPath> = locked(&operations.parked)
            .iter()
            .filter(|base| base.is_within(path))
            .cloned()
            .collect();
        parked.extend(self.log.waiting_below(path));
        // Work that waits for no suspended part is still running.
        if parked.is_empty() {
            return false;
        }
        let mut open = HashSet::new();
        for (_, path, kind) in self.log.records_below(path) {
            let Shape { subject, edge, .. } = kind.shape();
            match edge {
                // Agents, workflows and nodes only wait for the calls in them.
                _ if !matches!(subject, Subject::Model | Subject::Tool) => {}
                Edge::Opens => drop(open.insert(path)),
                Edge::Closes => drop(open.remove(&path)),
                _ => {}
            }
        }
        open.iter().all(|call| parked.iter().any(|base| base.is_within(call)))
    }
}
