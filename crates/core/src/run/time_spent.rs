//! Computes from a journal how much of a time limit is used. `deadline.rs` measures the time that
//! passes now.

use std::time::Duration;

use super::waits::Waits;
use crate::event::EventKind;
use crate::path::StepPath;
use crate::time::Timestamp;

/// Returns the execution time of the agent or workflow at `base` up to `now`. Excludes the times in
/// which no process executed the run, an operator held it, or it waited for a person.
pub(crate) fn time_spent<'r>(
    records: impl Iterator<Item = (Timestamp, &'r StepPath, &'r EventKind)>,
    base: &StepPath,
    now: Timestamp,
) -> Duration {
    let (mut spent, mut waits) = (Duration::ZERO, Waits::default());
    // Start of the current period of execution; time of the last record; `true` after the start of
    // `base` and after the end of the run.
    let mut since: Option<Timestamp> = None;
    let (mut last, mut began, mut ended) = (None, false, false);
    for (time, path, kind) in records {
        if path.is_root() && matches!(kind, EventKind::RunResumed { recovered: true, .. }) {
            ended = false;
            // The previous process executed the run at least until its last record.
            if let (Some(since), Some(last)) = (since.take(), last) {
                spent += Timestamp::since(last, since);
            }
        }
        waits.apply(path, kind);
        match kind {
            // The agent was interrupted. Another attempt at its step may continue it.
            EventKind::AgentFailed { .. } if path == base => began = false,
            EventKind::RunAdvanced(advanced) if path == base => {
                (spent, since, began, ended) =
                    (Duration::from_millis(advanced.spent_ms), None, true, false);
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
