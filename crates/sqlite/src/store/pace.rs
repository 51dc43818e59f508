//! Decides which thread executes a write: the caller's thread or the store's writer thread. If one
//! run writes alone and the disk is fast, switching to the writer thread and back is most of the
//! cost.
//!
//! This module writes nothing. Runs that write at the same time use the writer thread, where they
//! share one sync.

use std::time::Duration;

use agentflow_core::event::RunId;

/// Longest average write on the caller's thread. A slower disk would block a thread that may have
/// other work.
const QUICK: Duration = Duration::from_micros(250);

/// Number of consecutive writes after which a run counts as the only writer.
const ALONE: u32 = 3;

/// Maximum number of consecutive writes outside the writer thread. The next write goes to the
/// writer thread, which also copies the write-ahead log into the file.
const IN_A_ROW: u32 = 256;

/// Statistics of the recent writes.
#[derive(Default)]
pub(super) struct Pace {
    last: Option<RunId>,
    /// Number of consecutive writes of the run `last`.
    of_last: u32,
    /// Number of writes on callers' threads since the last write on the writer thread.
    at_once: u32,
    /// Moving average of the duration of a write.
    takes: Duration,
}

impl Pace {
    /// Returns true if a write of this run should be executed on the caller's thread.
    pub(super) fn allows(&self, run: &RunId) -> bool {
        self.of_last >= ALONE
            && self.at_once < IN_A_ROW
            && self.takes <= QUICK
            && self.last.as_ref().is_some_and(|last| last == run)
    }

    /// Records a write that the last run executed on the caller's thread.
    pub(super) fn wrote_at_once(&mut self, took: Duration) {
        self.at_once += 1;
        self.took(took);
    }

    /// Records one transaction of the writer thread, with the runs that it served.
    pub(super) fn wrote<'r>(
        &mut self,
        runs: impl Iterator<Item = Option<&'r RunId>>,
        took: Duration,
    ) {
        self.at_once = 0;
        for run in runs.flatten() {
            match self.last.as_ref().is_some_and(|last| last == run) {
                true => self.of_last = self.of_last.saturating_add(1),
                false => (self.last, self.of_last) = (Some(run.clone()), 1),
            }
        }
        self.took(took);
    }

    fn took(&mut self, took: Duration) {
        // The average limits the effect of one slow write, such as a write that copies the log. A
        // disk that stays slow raises the average quickly.
        self.takes = (self.takes * 7 + took) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(60);

    fn wrote(pace: &mut Pace, runs: &[&RunId], took: Duration) {
        pace.wrote(runs.iter().map(|run| Some(*run)), took);
    }

    #[test]
    fn a_run_that_writes_alone_on_a_quick_disk_writes_by_itself() {
        let (one, other) = (RunId::new("one"), RunId::new("other"));
        let mut pace = Pace::default();
        for _ in 0..ALONE {
            assert!(!pace.allows(&one));
            wrote(&mut pace, &[&one], FAST);
        }
        assert!(pace.allows(&one) && !pace.allows(&other));
        wrote(&mut pace, &[&one, &other], FAST);
        assert!(!pace.allows(&one) && !pace.allows(&other), "they write at the same time");
    }

    #[test]
    fn now_and_then_the_thread_writes() {
        let one = RunId::new("one");
        let mut pace = Pace::default();
        (0..ALONE).for_each(|_| wrote(&mut pace, &[&one], FAST));
        for _ in 0..IN_A_ROW {
            assert!(pace.allows(&one));
            pace.wrote_at_once(FAST);
        }
        assert!(!pace.allows(&one));
        wrote(&mut pace, &[&one], FAST);
        assert!(pace.allows(&one));
    }

    #[test]
    fn a_slow_disk_is_left_to_the_thread() {
        let one = RunId::new("one");
        let mut pace = Pace::default();
        (0..100).for_each(|_| wrote(&mut pace, &[&one], QUICK * 2));
        assert!(!pace.allows(&one));
        (0..100).for_each(|_| wrote(&mut pace, &[&one], FAST));
        assert!(pace.allows(&one));
        pace.wrote_at_once(QUICK * 100);
        assert!(!pace.allows(&one), "it hangs");
    }
}
