//! Queued runs: a run that is stored by the process that starts it, and executed by a
//! [`Worker`](super::Worker) or another process that resumes it.

use std::sync::Arc;

use super::Runtime;
use super::start_run::Described;
use crate::error::{Error, Result};
use crate::event::RunId;
use crate::run::{Found, RunOptions};
use crate::store::{StoreError, StoreErrorKind};
use crate::value::Encoded;
use crate::workflow::begun;
use crate::workflow::driver::WorkflowRun;
use crate::workflow::spec::Spec;

impl Runtime {
    /// Stores a workflow run for another process. See
    /// [`StartRun::queued`](super::StartRun::queued).
    pub(super) async fn queue(&self, mut options: RunOptions, described: Described) -> Result<RunId> {
        let (spec, inputs) = match described {
            Described::Workflow(workflow) => workflow?,
            Described::Named(name, input) => self.named(&name, &input?).await?,
        };
        options.queued = true;
        self.check_queued(&options, &spec)?;
        let run = options.run_id.get_or_insert_with(|| self.host().new_run_id()).clone();
        let queued = self.clone().store_queued(options, run, spec, inputs);
        // On a separate task: if the caller is dropped while the store creates the run, the run
        // must still be released, or this process would hold it without executing it.
        tokio::spawn(queued).await.unwrap_or_else(|_| {
            let message = "the run could not be queued, since the program is ending";
            Err(StoreError::new(StoreErrorKind::Io, message).into())
        })
    }

    /// Checks that a run can leave this process.
    fn check_queued(&self, options: &RunOptions, spec: &Spec) -> Result<()> {
        self.host().running.check()?;
        self.require_store()?;
        if options.resources.is_empty() {
            return Ok(());
        }
        let given: Vec<String> =
            options.resources.names().iter().map(|name| format!("`{name}`")).collect();
        Err(Error::RunResource {
            name: Arc::clone(&spec.name),
            problem: format!(
                "a queued run is executed by another process, where the value of {} cannot go; \
                 give the runtime of that process a factory with `run_resource`",
                given.join(", ")
            ),
        })
    }

    async fn store_queued(
        self,
        options: RunOptions,
        run: RunId,
        spec: Arc<Spec>,
        inputs: Vec<Encoded>,
    ) -> Result<RunId> {
        let store = self.require_store()?;
        // Held until the run is released, so that no task of this process resumes it earlier.
        let _reservation = match self.find(&run).await {
            Some(Found::Free(reservation)) => reservation,
            Some(Found::Live(_)) => return Err(StoreError::exists(&run).into()),
            None => return Err(StoreError::no_store().into()),
        };
        let (shared, terms) =
            begun(self.host(), &spec, options, &self.host().scopes, self.host().new_journal())?;
        self.put_definition(&store, &spec).await?;
        let shared = Arc::new(shared);
        let started = WorkflowRun::new(&spec, inputs, Arc::clone(&shared), terms);
        let stored = shared.log.commit().await;
        let released = match &stored {
            Ok(()) => shared.log.release().await,
            Err(_) => Ok(()),
        };
        // Closed before it is dropped, so that dropping it records nothing.
        shared.close();
        drop(started);
        stored?;
        released?;
        Ok(run)
    }
}
