//! `ErasedAgent`: an agent of any output type, as a runtime knows it by its name. It describes and runs nothing.

use std::fmt;
use std::sync::Arc;

use super::Agent;
use crate::error::Result;
use crate::run::{Host, RunHandle, RunShared};
use crate::value::Encoded;

/// An agent whose output is JSON.
#[derive(Clone)]
pub struct ErasedAgent(Arc<dyn Erased>);

trait Erased: Send + Sync {
    fn name(&self) -> &Arc<str>;
    fn check_run(&self, host: &Arc<Host>, shared: &RunShared) -> Result<()>;
    fn continued(&self, host: &Arc<Host>, shared: Arc<RunShared>) -> Result<RunHandle<Encoded>>;
}

impl<O: 'static> Erased for Agent<O> {
    fn name(&self) -> &Arc<str> {
        &self.description.name
    }

    fn check_run(&self, host: &Arc<Host>, shared: &RunShared) -> Result<()> {
        self.clone().host(host).check_run(shared)
    }

    fn continued(&self, host: &Arc<Host>, shared: Arc<RunShared>) -> Result<RunHandle<Encoded>> {
        Ok(self.clone().host(host).continued(shared)?.untyped())
    }
}

impl ErasedAgent {
    pub(crate) fn new<O: 'static>(agent: Agent<O>) -> Self {
        Self(Arc::new(agent))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.0.name()
    }

    /// Checks that a run which is about to be resumed has what its tools take.
    pub(crate) fn check_run(&self, host: &Arc<Host>, shared: &RunShared) -> Result<()> {
        self.0.check_run(host, shared)
    }

    /// Continues a run whose journal is in the log.
    pub(crate) fn continued(&self, host: &Arc<Host>, shared: Arc<RunShared>) -> Result<RunHandle<Encoded>> {
        self.0.continued(host, shared)
    }
}

impl fmt::Debug for ErasedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ErasedAgent").field(self.name()).finish()
    }
}
