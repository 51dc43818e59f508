//! What loses a `select!` or a time limit in a step: a call of a tool, an agent or a workflow that the step dropped. When
//! the step runs again because it was stopped, such a call waits for the step to drop it again, so that nothing in it is
//! begun that had not begun before.
//!
//! It begins nothing and records nothing.

use std::sync::Arc;
use std::time::Duration;

use super::step_place::StepPlace;
use crate::failure::{Failure, FailureKind};
use crate::path::StepPath;

/// How much longer than the two times that the call was executed for the step has to drop it again.
const PATIENCE: Duration = Duration::from_secs(60);

/// A call that its step had dropped, and has made again since it was stopped.
pub(crate) struct HeldBack {
    /// The step that made it; none of a tool that an agent calls.
    place: Option<Arc<StepPlace>>,
    question: Failure,
    patience: Duration,
}

impl HeldBack {
    /// `what` was dropped when it was executed for so long.
    pub(crate) fn at(
        place: Option<Arc<StepPlace>>,
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

    /// Waits to be dropped. When the step goes another way than before and waits for this instead, an operator is asked:
    /// the step ends with that question.
    pub(crate) async fn until_dropped(self) -> Failure {
        tokio::time::sleep(self.patience).await;
        if let Some(place) = &self.place {
            place.end_step(self.question.clone());
        }
        self.question
    }
}
