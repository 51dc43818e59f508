//! The state that an agent's tools read and save. The calls of a turn do not see each other's
//! writes. The next turn and the caller of the agent see all of them, applied in the order of the
//! calls.

use std::sync::Arc;

use super::driver::Run;
use crate::event::EventKind;
use crate::message::{ToolResult, ToolStatus};
use crate::model::ModelResponse;
use crate::path::StepPath;
use crate::run::Segment;
use crate::state::{EXIT, MOST_SAVED, SavedByStep, too_much_saved};

impl Run {
    /// Returns the saved state for the record of a call. A failed call saves nothing.
    pub(super) fn saved_by_call(
        &self,
        call: &StepPath,
        is_success: bool,
    ) -> Option<Arc<SavedByStep>> {
        let mut states = self.segment.shared.states()?;
        if !is_success {
            states.discard(call);
            return None;
        }
        // A top-level run has no enclosing loop that `EXIT` could end.
        if self.segment.is_run() {
            states.forget(call, EXIT);
        }
        // The position orders writes by turn, then by the index of the call, independent of the
        // order in which calls end.
        let turn = u64::from(call.turn().unwrap_or_default());
        let place = || {
            turn << 32
                | self.machine.calls_of_turn().position(|of| of == *call).unwrap_or_default() as u64
        };
        states.end(call, self.segment.is_run().then(place))
    }

    /// Returns the result of a call, or an error result for the model if the call saved more state
    /// than a record may contain.
    pub(super) fn check_saved_size(
        &self,
        call: &StepPath,
        result: Arc<ToolResult>,
    ) -> Arc<ToolResult> {
        let size = self.segment.shared.states().map_or(0, |states| states.size(call));
        match size > MOST_SAVED && result.status.is_success() {
            true => Arc::new(ToolResult {
                status: ToolStatus::OutputTooLarge,
                output: too_much_saved(size),
                content: None,
                ..ToolResult::clone(&result)
            }),
            false => result,
        }
    }

    /// Saves the state that is part of a model's answer. The tools of the turn see it.
    pub(super) fn save_with_model(&self, model: &StepPath, response: &mut ModelResponse) {
        let Some(saved) = response.saved.take() else { return };
        // The position is after all calls of the previous turn and before the calls of this turn.
        let place =
            self.segment.is_run().then(|| (u64::from(self.machine.turn()) << 32).saturating_sub(1));
        let saved = Arc::new(Arc::unwrap_or_clone(saved).at(place));
        response.saved = saved.recorded();
        self.segment.shared.states_or_new().end_with(model, saved);
        self.publish_model_state(model);
    }

    fn publish_model_state(&self, model: &StepPath) {
        let Segment { base, step, shared, .. } = &self.segment;
        let place = shared.log.place_of(|path| path == base);
        shared.states_or_new().merge_into_parent(model, step, place);
    }

    /// Applies the recorded state of a completed turn, or of all turns that a snapshot replaces.
    pub(super) fn replay_saved_state(&self, path: &StepPath, kind: &EventKind) {
        let Segment { base, step, shared, .. } = &self.segment;
        let place = || shared.log.place_of(|path| path == base);
        match kind {
            EventKind::RunStep { .. } if path == base => self.publish_turn_state(),
            EventKind::ModelCompleted(response)
                if response.saved.is_some() && path.is_step_of(base) =>
            {
                self.publish_model_state(path);
            }
            EventKind::RunAdvanced(_) if path == base => {
                if let Some(mut states) = shared.states() {
                    states.merge_into_parent(base, step, place());
                }
            }
            _ => {}
        }
    }

    /// Makes the state that the calls of a completed turn saved visible to the next turn.
    pub(super) fn publish_turn_state(&self) {
        let Segment { base, step, shared, .. } = &self.segment;
        let Some(mut states) = shared.states() else { return };
        let calls = self
            .machine
            .calls_of_turn()
            .filter(|call| states.saved_by(call).is_some())
            .collect::<Vec<StepPath>>();
        if calls.is_empty() {
            return;
        }
        // For the enclosing step, all turns of an agent are one call, so they share its position.
        let place = shared.log.place_of(|path| path == base);
        calls.iter().for_each(|call| states.merge_into_parent(call, step, place));
    }
}
