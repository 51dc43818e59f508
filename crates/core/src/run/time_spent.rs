//! How much of a time limit is used up, by a journal.
//!
//! It reads no clock; `deadline.rs` measures what passes now.

use std::time::Duration;

use super::waits::Waits;
use crate::event::EventKind;
use crate::path::StepPath;
use crate::time::Timestamp;

/// How long something has been executed, by what is recorded until now: the time in which no process executed the run, an
/// operator held it, or somebody was asked in it, is left out.
pub(crate) fn time_spent<'r>(
    records: impl Iterator<Item = (Timestamp, &'r StepPath, &'r EventKind)>,
    base: &StepPath,
    now: Timestamp,
) -> Duration {
    let (mut spent, mut waits) = (Duration::ZERO, Waits::default());
    // Since when it is executed; what was recorded last; whether it has begun, and the run has ended.
    let mut since: Option<Timestamp> = None;
    let (mut last, mut began, mut ended) = (None, false, false);
    for (time, path, kind) in records {
        if path.is_root() && matches!(kind, EventKind::RunResumed { recovered: true, .. }) {
            ended = false;
            if let (Some(since), Some(last)) = (since.take(), last) {
                spent += Timestamp::since(last, since);
            }
        }
        waits.apply(path, kind);
        match kind {
            // It was stopped: a further attempt at its step may let it continue.
            EventKind::AgentFailed { .. } if path == base => began = false,
            EventKind::RunAdvanced(advanced) if path == base => {
                (spent, since, began, ended) = (Duration::from_millis(advanced.spent_ms), None, true, false);
            }
            _ => began |= path == base,
        }
        ended |= kind.ends_run();
        let runs = began && !ended && !waits.is_held() && !waits.are_within(base);
        match since {
            Some(of) if !runs => {
                spent += time.since(of);
                since = None;
            }
            None if runs => since = Some(time),
            _ => {}
        }
        last = Some(time);
    }
    spent + since.map(|since| now.since(since)).unwrap_or_default()
}
