//! A workflow whose run is drained: nothing new begins, and when nothing is running any more the run stops. It drops no
//! step; the deadline of whoever drains does.

use super::WorkflowRun;
use crate::store::StoreError;
use crate::workflow::machine::Command;

impl WorkflowRun {
    /// Whether a command begins something that another process is to begin.
    pub(super) fn stays_unbegun(&self, command: &Command) -> bool {
        self.segment.shared.is_draining()
            && matches!(command, Command::Start { .. } | Command::Ask(_) | Command::Open(_))
    }

    /// Whether the run is drained, all that is recorded is kept, and nothing is running here but what waits for the run to
    /// stop. Nobody polls it after that: a write to the journal that it had begun would hold up everybody's.
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

    /// Stops the run here, when this is the run; a workflow in a step waits for that.
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
