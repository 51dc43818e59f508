//! The state that the tools of an agent see and save. The calls of one turn do not see what the others of the turn write; the
//! next turn, and whoever called the agent, sees all of it, in the order of the calls.
//!
//! It reads and writes no value.

use std::sync::Arc;

use super::driver::Run;
use crate::event::EventKind;
use crate::path::StepPath;
use crate::run::Segment;
use crate::state::SavedByStep;

impl Run {
    /// What the record of a call holds of what it saved. One that failed saved nothing.
    pub(super) fn saved_by_call(&self, call: &StepPath, is_success: bool) -> Option<Arc<SavedByStep>> {
        let mut states = self.segment.shared.states()?;
        if !is_success {
            states.discard(call);
            return None;
        }
        let turn = u64::from(call.turn().unwrap_or_default());
        let place = || turn << 32 | self.machine.calls_of_turn().position(|of| of == *call).unwrap_or_default() as u64;
        states.end(call, self.segment.is_run().then(place))
    }

    /// Takes in the record of a turn that is over, or of all those that a snapshot stands for.
    pub(super) fn hand_up_recorded(&self, path: &StepPath, kind: &EventKind) {
        let Segment { base, step, shared, .. } = &self.segment;
        match kind {
            EventKind::RunStep { .. } if path == base => self.hand_up_turn(),
            EventKind::RunAdvanced(_) if path == base => {
                if let Some(mut states) = shared.states() {
                    states.hand_up(base, step);
                }
            }
            _ => {}
        }
    }

    /// A turn is over: what its calls saved is seen from now on.
    pub(super) fn hand_up_turn(&self) {
        let Some(mut states) = self.segment.shared.states() else { return };
        for call in self.machine.calls_of_turn() {
            states.hand_up(&call, &self.segment.step);
        }
    }
}
