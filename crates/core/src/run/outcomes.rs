//! Which outcome of a call in a step counts when the step has another attempt: what a journal says of that.
//!
//! It reads records and decides nothing; who calls decides.

use std::collections::BTreeSet;

use crate::event::EventKind;
use crate::failure::was_stopped;
use crate::path::StepPath;
use crate::time::Timestamp;
use crate::tool_definition::Effects;

/// An event with its time and its path.
type Recorded = (Timestamp, StepPath, EventKind);

/// Whether what begins with an event may change something outside of the run.
pub(crate) fn writes(kind: &EventKind) -> bool {
    kind.begins_once() || matches!(kind, EventKind::ToolStarted { effects: Effects::Write, .. })
}

/// The paths that are not below another one of them: the call of a tool in a step that writes says the same as the step.
pub(crate) fn outermost(paths: &BTreeSet<StepPath>) -> Vec<String> {
    let is_below = |path: &&StepPath| path.parents().any(|above| paths.contains(&above));
    paths.iter().filter(|path| !is_below(path)).map(ToString::to_string).collect()
}

/// Whether a tool that writes has begun at a path or below it.
pub(crate) fn has_written(recorded: &[Recorded], base: &StepPath) -> bool {
    recorded.iter().any(|(_, path, kind)| {
        matches!(kind, EventKind::ToolStarted { effects: Effects::Write, .. }) && path.is_within(base)
    })
}

/// Whether this is the failure of an attempt that was not stopped, so that another attempt may end otherwise.
pub(crate) fn is_own_failure(kind: &EventKind) -> bool {
    match kind {
        EventKind::NodeRetrying { error, .. } | EventKind::NodeFailed { error, .. } => !was_stopped(&error.kind),
        _ => false,
    }
}
