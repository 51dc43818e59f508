//! `CrashReport`: how many crashes a test made, and for each step how often it began and why it began again.

use std::collections::BTreeMap;
use std::fmt;

use super::verify::{Again, Verdict};

/// What a [`CrashTest`](crate::CrashTest) saw. With `{}` it is a table to read.
#[derive(Clone, Debug)]
pub struct CrashReport {
    pub(super) subject: String,
    pub(super) writes: usize,
    pub(super) runs: usize,
    pub(super) crashes: usize,
    pub(super) anew: usize,
    pub(super) cancelled: usize,
    pub(super) differing: usize,
    pub(super) steps: BTreeMap<String, StepReport>,
}

/// What a [`CrashTest`](crate::CrashTest) saw of one step, over all runs.
#[derive(Clone, Debug, Default)]
pub struct StepReport {
    most: usize,
    again: BTreeMap<Again, usize>,
    interrupted: usize,
}

impl CrashReport {
    /// How many writes the run makes when nothing stops it.
    pub fn writes(&self) -> usize {
        self.writes
    }

    /// How many runs were made: the undisturbed one, and one for each place to crash at.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// How many crashes there were.
    pub fn crashes(&self) -> usize {
        self.crashes
    }

    /// How many of them left nothing behind, so that the run was started anew.
    pub fn started_anew(&self) -> usize {
        self.anew
    }

    /// How many runs ended as cancelled because the operator said so.
    pub fn cancelled(&self) -> usize {
        self.cancelled
    }

    /// How many runs ended otherwise after an interruption, where the test allows that.
    pub fn ended_otherwise(&self) -> usize {
        self.differing
    }

    /// What is known of a step, by its path.
    pub fn step(&self, path: &str) -> Option<&StepReport> {
        self.steps.get(path)
    }

    /// All steps, by their paths.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &StepReport)> {
        self.steps.iter().map(|(path, step)| (path.as_str(), step))
    }

    /// How many times steps were interrupted: began, may not be repeated, and have no outcome on record.
    pub fn interrupted(&self) -> usize {
        self.steps.values().map(|step| step.interrupted).sum()
    }

    pub(super) fn take_in(&mut self, verdict: &Verdict) {
        for (path, began) in &verdict.steps {
            let step = self.steps.entry(path.clone()).or_default();
            step.most = step.most.max(began.times);
            step.interrupted += began.interrupted;
            began.again.iter().for_each(|again| *step.again.entry(*again).or_default() += 1);
        }
    }
}

impl StepReport {
    /// The most times that the step began in one run, its crashes included.
    pub fn began(&self) -> usize {
        self.most
    }

    /// How many times, over all runs, the step began again for a reason.
    pub fn again(&self, why: Again) -> usize {
        self.again.get(&why).copied().unwrap_or(0)
    }

    /// How many times, over all runs, it was interrupted.
    pub fn interrupted(&self) -> usize {
        self.interrupted
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} writes, {} runs, {} crashes", self.subject, self.writes, self.runs, self.crashes)?;
        let others = [
            (self.anew, "left nothing behind"),
            (self.cancelled, "runs were cancelled by the operator"),
            (self.differing, "runs ended otherwise after an interruption"),
        ];
        for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {count} {what}")?;
        }
        for (path, step) in &self.steps {
            if step.again.is_empty() && step.interrupted == 0 {
                continue;
            }
            write!(f, "\n  {path} began at most {} times in a run", step.most)?;
            for (why, count) in &step.again {
                write!(f, "; {count} times again: {why}")?;
            }
            if step.interrupted > 0 {
                write!(f, "; interrupted {} times", step.interrupted)?;
            }
        }
        Ok(())
    }
}
