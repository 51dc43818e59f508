//! Messages to the run of an agent, on the run's own task: it takes in what was sent, waits when it is a live run that has
//! answered, and takes no more when it ends. Which messages are taken is `run/messages.rs`; where they stand in the
//! conversation the machine decides.

use super::driver::Run;
use crate::error::Result;
use crate::path::StepPath;
use crate::run::RunEnd;

impl Run {
    /// Takes in what was sent since it looked last; nearly always one look.
    pub(super) fn take_mail(&mut self) {
        if self.segment.is_run() && self.segment.shared.log.has_mail() {
            let root = StepPath::root();
            self.segment.shared.take_mail().iter().for_each(|kind| self.machine.apply(&root, kind));
        }
    }

    /// Waits for the next message of a live run, or its close; gives its end here when it is drained.
    pub(super) async fn await_mail(&mut self) -> Option<Result<RunEnd>> {
        if self.segment.shared.is_draining() {
            return Some(match self.commit().await {
                Ok(()) => self.leave().await,
                Err(error) => Err(error),
            });
        }
        self.segment.shared.until_messaged().await.err().map(Err)
    }

    /// Whether it ends with the answer that it has: one of its own takes no messages from then on.
    pub(super) fn ends_with_answer(&self) -> bool {
        !self.segment.is_run() || self.segment.shared.log.ends_with_answer()
    }
}
