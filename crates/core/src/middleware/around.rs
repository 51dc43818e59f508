//! Calls the run hooks of a runtime's middleware before and after a run of an agent or a workflow.

use std::sync::Arc;

use super::{Middleware, RunInfo, of_host};
use crate::error::{Error, Result};
use crate::run::RunShared;

/// The middleware of a run, outermost first.
pub(crate) struct RunHooks {
    info: RunInfo,
    hooks: Arc<[Arc<dyn Middleware>]>,
}

impl RunHooks {
    /// Returns the middleware of a run with this agent or workflow name. Returns `None` if the
    /// runtime has no middleware.
    pub(crate) fn for_run(name: &Arc<str>, shared: &Arc<RunShared>) -> Option<Self> {
        let hooks = of_host(&shared.host);
        let info = || RunInfo::new(Arc::clone(name), Arc::clone(shared));
        (!hooks.is_empty()).then(|| Self { info: info(), hooks })
    }

    /// Calls the hooks before the run.
    ///
    /// # Errors
    /// The error of a hook, which ends the run.
    pub(crate) async fn before(&self) -> Result<()> {
        for hook in self.hooks.iter() {
            hook.before_run(&self.info).await?;
        }
        Ok(())
    }

    /// Calls the hooks after the end of the run was recorded, innermost first.
    pub(crate) async fn after(&self, ended: Result<(), &Error>) {
        for hook in self.hooks.iter().rev() {
            hook.after_run(&self.info, ended).await;
        }
    }
}
