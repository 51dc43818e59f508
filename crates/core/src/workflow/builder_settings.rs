//! What is said of a workflow as a whole while it is built: its description, its limits, and what it does when a node fails. It
//! adds no node.

use std::sync::Arc;

use super::builder::Builder;
use super::policy::StopPolicy;
use super::run_limits::RunLimits;

impl Builder {
    /// Says what the workflow is for; shown in listings.
    pub fn describe(&mut self, description: impl Into<Arc<str>>) {
        self.description = description.into();
    }

    /// Bounds how many steps run at once. Default: 16.
    pub fn concurrency(&mut self, at_once: usize) {
        self.concurrency = at_once;
    }

    /// Sets what the other nodes do when one has failed for good.
    pub fn stop_policy(&mut self, stop: StopPolicy) {
        self.stop = stop;
    }

    /// Bounds each run of the workflow. Default: nothing but what a run is started with.
    pub fn limits(&mut self, limits: RunLimits) {
        self.limits = limits;
    }
}
