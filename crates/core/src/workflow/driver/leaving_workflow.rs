//! Draining: no new steps start, and the run stops in this process when nothing makes progress.
//! Running steps are dropped only at the deadline of the drain.

use super::WorkflowRun;
use crate::store::StoreError;
use crate::workflow::machine::Command;

impl WorkflowRun {
    /// Returns `true` if the run is draining and the command would start new work.
    pub(super) fn is_deferred_by_drain(&self, command: &Command) -> bool {
        self.segment.shared.is_draining()
            && matches!(command, Command::Start { .. } | Command::Ask(_) | Command::Open(_))
    }

    /// Returns `true` if the run is draining, all records are committed, and all running steps wait
    /// for the run to stop. The run is not polled after this, so an unfinished journal write would
    /// block all other writers.
    pub(super) fn is_quiet(&self) -> bool {
        let shared = &self.segment.shared;
        shared.is_draining()
            && self.commit.is_none()
            && !shared.log.has_uncommitted()
            && self
                .tasks
                .iter()
                .filter(|task| task.is_step())
                .all(|task| shared.is_quiet_below(&self.path(task.unit())))
    }

    /// Stops the run in this process. A nested workflow waits for its run to stop.
    pub(super) async fn leave(&mut self) -> Result<(), StoreError> {
        let shared = &self.segment.shared;
        if !self.segment.is_run() {
            shared.park(&self.segment.base).await;
        }
        self.commit = None;
        shared.log.commit().await?;
        shared.stop();
        std::future::pending().await
    }
}
