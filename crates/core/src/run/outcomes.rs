//! Queries on records that decide about another attempt at a step: effects of earlier attempts and
//! their outcomes.

use std::collections::BTreeSet;

use crate::event::EventKind;
use crate::failure::was_stopped;
use crate::path::StepPath;
use crate::time::Timestamp;
use crate::tool_definition::Effects;

/// A record: time, path and event.
type Recorded = (Timestamp, StepPath, EventKind);

/// Returns `true` if the work that starts with this event may have side effects outside the run.
pub(crate) fn writes(kind: &EventKind) -> bool {
    kind.is_unrepeatable_start()
        || matches!(kind, EventKind::ToolStarted { effects: Effects::Write, .. })
}

/// Returns the paths that are not below another path of the set. A step and the tool call in it are
/// reported once.
pub(crate) fn outermost(paths: &BTreeSet<StepPath>) -> Vec<String> {
    let is_below = |path: &&StepPath| path.parents().any(|above| paths.contains(&above));
    paths.iter().filter(|path| !is_below(path)).map(ToString::to_string).collect()
}

/// Returns `true` if a tool with side effects was started at the path or below it.
pub(crate) fn has_written(recorded: &[Recorded], base: &StepPath) -> bool {
    recorded.iter().any(|(_, path, kind)| {
        matches!(kind, EventKind::ToolStarted { effects: Effects::Write, .. })
            && path.is_within(base)
    })
}

/// Returns `true` if an attempt failed on its own and was not interrupted, so that another attempt
/// may end differently.
pub(crate) fn is_own_failure(kind: &EventKind) -> bool {
    match kind {
        EventKind::NodeRetrying { error, .. } | EventKind::NodeFailed { error, .. } => {
            !was_stopped(&error.kind)
        }
        _ => false,
    }
}
