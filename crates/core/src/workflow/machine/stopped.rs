//! The texts that are recorded for a step that was stopped because of something else, as opposed to a step that fails
//! with the kind `cancelled` itself. The texts are stored, so they never change.

use crate::error::{Failure, FailureKind};

/// Why steps are stopped when a node fails.
pub(super) const STOPPED: &str = "another node failed";

/// Why steps are stopped when a node ends the workflow.
pub(super) const ENDED: &str = "the workflow has ended";

/// What is recorded of a step that was stopped; `begun_once`: in the middle of something that may not simply be done
/// again, which is then true of the step.
pub(crate) fn stopped(reason: &str, begun_once: bool) -> String {
    format!("{WAS_STOPPED}{reason}{}", if begun_once { BEGUN_ONCE } else { "" })
}

pub(super) const BEGUN_ONCE: &str = ", after something in this step began that may not simply be done again";

/// How the message of a step that was stopped begins: a step's own error may be of the class `cancelled`, too.
const WAS_STOPPED: &str = "cancelled: ";

/// Whether a step was stopped because of something else.
pub(crate) fn was_stopped(error: &Failure) -> bool {
    error.kind == FailureKind::Cancelled && error.message.starts_with(WAS_STOPPED)
}
