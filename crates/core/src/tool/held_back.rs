//! Calls that lost a `select!` or exceeded a time limit in a step, so that the step dropped them.
//!
//! When the step runs again after it was stopped, such a call waits until the step drops it again.
//! No work starts in it that had not started before.

use std::sync::Arc;
use std::time::Duration;

use super::step_place::CurrentStep;
use crate::failure::{Failure, FailureKind};
use crate::path::StepPath;

/// Additional time for the step to drop the call again, after twice its earlier execution time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A call that its step had dropped, and that the step made again after it was stopped.
pub(crate) struct HeldBack {
    /// The step that made the call. `None` for a tool that an agent calls.
    place: Option<Arc<CurrentStep>>,
    question: Failure,
    patience: Duration,
}

impl HeldBack {
    /// Creates the call. `lived` is the execution time of `what` before it was dropped.
    pub(crate) fn at(
        place: Option<Arc<CurrentStep>>,
        path: &StepPath,
        what: impl std::fmt::Display,
        lived: Duration,
    ) -> Self {
        let message = format!(
            "this step had dropped {what} at `{path}` before it was stopped, and, run again, waits for it instead; retry the \
             node to let that continue, or cancel the run"
        );
        let patience = lived.saturating_mul(2).saturating_add(PATIENCE);
        Self { place, question: Failure::new(FailureKind::Interrupted, message), patience }
    }

    /// Waits to be dropped. If the step now waits for the call instead, ends the step with a
    /// question to an operator.
    pub(crate) async fn until_dropped(self) -> Failure {
        tokio::time::sleep(self.patience).await;
        if let Some(place) = &self.place {
            place.end_step(self.question.clone());
        }
        self.question
    }
}
