//! Messages that are recorded for a step that was stopped from outside, as opposed to a step that
//! itself fails with the kind `cancelled`. The messages are stored in journals, so they never
//! change.

use crate::error::{Failure, FailureKind};

/// Reason for stopping steps when another node fails.
pub(super) const STOPPED: &str = "another node failed";

/// Reason for stopping steps when a node ends the workflow early.
pub(super) const ENDED: &str = "the workflow has ended";

/// Builds the message for a stopped step. `begun_once` marks that a call in the step had started
/// that must not be repeated without a decision.
pub(crate) fn stopped(reason: &str, begun_once: bool) -> String {
    format!("{WAS_STOPPED}{reason}{}", if begun_once { BEGUN_ONCE } else { "" })
}

pub(super) const BEGUN_ONCE: &str =
    ", after something in this step began that may not simply be done again";

/// Prefix that distinguishes a stopped step from a step that returned an error of the kind
/// `cancelled`.
const WAS_STOPPED: &str = "cancelled: ";

/// Returns `true` if the step was stopped from outside.
pub(crate) fn was_stopped(error: &Failure) -> bool {
    error.kind == FailureKind::Cancelled && error.message.starts_with(WAS_STOPPED)
}
