//! Determines whether a tool call that must not be repeated may have been interrupted below a step.
//! Only then does the step read the journal before it runs again.
//!
//! `tool/undecided.rs` decides about such calls.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::shared::RunShared;
use crate::event::EventKind;
use crate::path::StepPath;

impl RunShared {
    /// Notes that a tool call that must not be repeated starts.
    pub(crate) fn note_write(&self) {
        self.wrote.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if such a call may have been interrupted below the step. After the first such
    /// call of this process, the answer is `true` for all steps; otherwise it considers the calls
    /// recorded before the run was resumed.
    pub(crate) fn may_have_stopped(&self, step: &StepPath) -> bool {
        if self.wrote.load(Ordering::Relaxed) {
            return true;
        }
        let calls = self.operations().stopped_calls.get_or_init(|| self.stopped_calls());
        calls.iter().any(|call| call.belongs_to(step))
    }

    fn stopped_calls(&self) -> Vec<StepPath> {
        let mut stopped: HashSet<StepPath> = HashSet::new();
        self.log.visit(|path, kind| match kind {
            EventKind::ToolStarted { .. } | EventKind::ToolContinued { .. }
                if kind.is_unrepeatable_start() =>
            {
                stopped.insert(path.clone());
            }
            EventKind::ToolWaiting(_) | EventKind::ToolCompleted { .. } => {
                stopped.remove(path);
            }
            EventKind::ToolFailed { result, .. } if result.status.is_outcome() => {
                stopped.remove(path);
            }
            _ => {}
        });
        stopped.into_iter().collect()
    }
}
