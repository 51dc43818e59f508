//! Defines `CrashReport`: the number of crashes, and for each step how often it started and why it
//! started again.

use std::collections::BTreeMap;
use std::fmt;

use super::verify::{Again, Verdict};

/// The results of a [`CrashTest`](crate::CrashTest). `{}` prints a readable table.
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

/// The results of a [`CrashTest`](crate::CrashTest) for one step, over all runs.
#[derive(Clone, Debug, Default)]
pub struct StepReport {
    most: usize,
    again: BTreeMap<Again, usize>,
    interrupted: usize,
}

impl CrashReport {
    /// Returns the number of writes of a run without crashes.
    pub fn writes(&self) -> usize {
        self.writes
    }

    /// Returns the number of runs: one without a crash, and one for each position (or pair of
    /// positions) of a crash.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the number of crashes.
    pub fn crashes(&self) -> usize {
        self.crashes
    }

    /// Returns the number of crashes after which the store was empty, so that the run was started
    /// again.
    pub fn started_anew(&self) -> usize {
        self.anew
    }

    /// Returns the number of runs that were cancelled by the operator's decision.
    pub fn cancelled(&self) -> usize {
        self.cancelled
    }

    /// Returns the number of runs that ended differently after an interruption, if the test allows
    /// this.
    pub fn ended_otherwise(&self) -> usize {
        self.differing
    }

    /// Returns the results for a step, by its path.
    pub fn step(&self, path: &str) -> Option<&StepReport> {
        self.steps.get(path)
    }

    /// Returns the results for all steps, by path.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &StepReport)> {
        self.steps.iter().map(|(path, step)| (path.as_str(), step))
    }

    /// Returns the number of interruptions: a step started, must not be repeated, and had no
    /// recorded outcome.
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
    /// Returns the maximum number of starts of the step in one run, including all its crashes.
    pub fn began(&self) -> usize {
        self.most
    }

    /// Returns how often, over all runs, the step started again for this reason.
    pub fn again(&self, why: Again) -> usize {
        self.again.get(&why).copied().unwrap_or(0)
    }

    /// Returns how often, over all runs, the step was interrupted.
    pub fn interrupted(&self) -> usize {
        self.interrupted
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} writes, {} runs, {} crashes",
            self.subject, self.writes, self.runs, self.crashes
        )?;
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
