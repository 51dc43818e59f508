//! Settings of a whole workflow: description, limits and stop policy.

use std::sync::Arc;

use super::builder::Builder;
use super::policy::StopPolicy;
use super::run_limits::RunLimits;

impl Builder {
    /// Sets the description of the workflow, which listings show.
    pub fn describe(&mut self, description: impl Into<Arc<str>>) {
        self.description = description.into();
    }

    /// Limits the number of concurrent steps. Default: 16.
    pub fn concurrency(&mut self, at_once: usize) {
        self.concurrency = at_once;
    }

    /// Sets the effect of a failed node on the other nodes.
    pub fn stop_policy(&mut self, stop: StopPolicy) {
        self.stop = stop;
    }

    /// Limits each run of the workflow. By default, only the limits in the options of the run
    /// apply.
    pub fn limits(&mut self, limits: RunLimits) {
        self.limits = limits;
    }
}
