//! Whether a call that may not be repeated may have been stopped below a step: only then does the step read the journal
//! before it begins again.
//!
//! It decides nothing: what is asked of an operator is said in `tool/undecided.rs`.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::shared::RunShared;
use crate::event::EventKind;
use crate::path::StepPath;

impl RunShared {
    /// A call of a tool that may not be repeated begins.
    pub(crate) fn note_write(&self) {
        self.wrote.store(true, Ordering::Relaxed);
    }

    /// Whether there may be such a call below a step that was stopped: one of an earlier life of the run, or any of this
    /// one.
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
            EventKind::ToolStarted { .. } | EventKind::ToolContinued { .. } if kind.begins_once() => {
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
