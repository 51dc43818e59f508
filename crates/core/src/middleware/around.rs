//! Calls the hooks of a runtime's middleware around a run of an agent or a workflow.

use std::sync::Arc;

use super::{Middleware, RunInfo, of_host};
use crate::error::{Error, Result};
use crate::run::RunShared;

/// The middleware around a run, the outermost first.
pub(crate) struct AroundRun {
    info: RunInfo,
    hooks: Arc<[Arc<dyn Middleware>]>,
}

impl AroundRun {
    /// What is around a run of an agent or workflow of a name; `None` where the runtime has no middleware.
    pub(crate) fn of(name: &Arc<str>, shared: &Arc<RunShared>) -> Option<Self> {
        let hooks = of_host(&shared.host);
        let info = || RunInfo::new(Arc::clone(name), Arc::clone(shared));
        (!hooks.is_empty()).then(|| Self { info: info(), hooks })
    }

    /// The hooks before the run.
    ///
    /// # Errors
    /// That of a hook, which ends the run.
    pub(crate) async fn before(&self) -> Result<()> {
        for hook in self.hooks.iter() {
            hook.before_run(&self.info).await?;
        }
        Ok(())
    }

    /// The hooks after the run, whose end is recorded.
    pub(crate) async fn after(&self, ended: Result<(), &Error>) {
        for hook in self.hooks.iter().rev() {
            hook.after_run(&self.info, ended).await;
        }
    }
}
