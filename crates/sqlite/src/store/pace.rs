//! Judges whether a run that asks for a write should be written where it asks, and not by the store's thread: when it
//! writes alone and the disk is quick, the way to that thread and back is most of what a write costs.
//!
//! It writes nothing. Runs that write at the same time go to the thread, where they share one sync.

use std::time::Duration;

use agentflow_core::event::RunId;

/// A disk that takes longer is waited for by the thread: whoever asks may have more to do than this run.
const QUICK: Duration = Duration::from_micros(250);

/// A run that has made so many writes in a row writes alone.
const ALONE: u32 = 3;

/// After so many writes outside of the thread one goes there, which also copies the write-ahead log into the file.
const IN_A_ROW: u32 = 256;

/// How the store has been written lately.
#[derive(Default)]
pub(super) struct Pace {
    last: Option<RunId>,
    /// How many writes in a row were of that run.
    of_last: u32,
    /// How many of them were made outside of the thread since one was made there.
    at_once: u32,
    /// How long a write takes, mostly.
    takes: Duration,
}

impl Pace {
    /// Whether a write of a run is made where it is asked for.
    pub(super) fn allows(&self, run: &RunId) -> bool {
        self.of_last >= ALONE
            && self.at_once < IN_A_ROW
            && self.takes <= QUICK
            && self.last.as_ref().is_some_and(|last| last == run)
    }

    /// The run that wrote last has written where it asked.
    pub(super) fn wrote_at_once(&mut self, took: Duration) {
        self.at_once += 1;
        self.took(took);
    }

    /// The thread has written in one transaction what was asked about these runs.
    pub(super) fn wrote<'r>(&mut self, runs: impl Iterator<Item = Option<&'r RunId>>, took: Duration) {
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
        // One slow write among many quick ones, such as that which copies the log, changes little. A disk that hangs does.
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
