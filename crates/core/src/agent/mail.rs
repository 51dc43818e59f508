//! Messages that are sent to a run of an agent, handled in the run's own task. A run takes new
//! messages between commands; a live run waits for the next message after an answer.
//! `run/messages.rs` decides which messages are accepted; the machine decides their position in the
//! conversation.

use super::driver::Run;
use crate::error::Result;
use crate::path::StepPath;
use crate::run::RunEnd;

impl Run {
    /// Takes messages that arrived since the last call. Cheap if no message arrived.
    pub(super) fn take_mail(&mut self) {
        if self.segment.is_run() && self.segment.shared.log.has_mail() {
            let root = StepPath::root();
            self.segment.shared.take_mail().iter().for_each(|kind| self.machine.apply(&root, kind));
        }
    }

    /// Waits until a live run receives a message or is closed. Returns the end of the run if it is
    /// drained.
    pub(super) async fn await_mail(&mut self) -> Option<Result<RunEnd>> {
        if self.segment.shared.is_draining() {
            return Some(match self.commit().await {
                Ok(()) => self.leave().await,
                Err(error) => Err(error),
            });
        }
        self.segment.shared.until_messaged().await.err().map(Err)
    }

    /// `true` if the run ends with its current answer. A top-level run then accepts no more
    /// messages.
    pub(super) fn ends_with_answer(&self) -> bool {
        !self.segment.is_run() || self.segment.shared.log.ends_with_answer()
    }
}
