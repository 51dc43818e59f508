//! Resumes a workflow run that still has to be compensated. It executes no part of the workflow, so
//! it needs only the compensating tools and their resources.

use std::sync::Arc;

use super::Runtime;
use crate::error::Result;
use crate::event::{EventKind, RunId};
use crate::path::StepPath;
use crate::run::{Journal, RunData, RunJournal, RunShared, deliver};
use crate::store::{Epoch, Store};
use crate::tool::{StartedCompensation, can_compensate};
use crate::workflow::driver::CompensatingRun;

impl Runtime {
    /// Prepares the run, with its journal loaded, and returns the remaining compensation.
    ///
    /// # Errors
    /// [`Error::CompensationOwed`](crate::Error::CompensationOwed) if this program cannot
    /// compensate the run. Nothing is recorded in this case.
    pub(super) async fn prepare_compensation(
        &self,
        run: &RunId,
        read: RunJournal,
        begun: StartedCompensation,
        (store, epoch): (&Arc<dyn Store>, Epoch),
    ) -> Result<(Arc<RunShared>, CompensatingRun)> {
        let started = read.beginning(run)?.clone();
        let own = RunData::resumed(&self.host().factories, run, &started)?;
        let journal = Journal::new(Arc::clone(store), Some(epoch));
        let shared = Arc::new(
            RunShared::new(run.clone(), self.host(), Some(journal)).with_own(Some(own), None),
        );
        can_compensate(self.host(), run, &started.name().into(), Some(&shared.resources())).await?;
        let RunJournal { offset, events, kept } = read;
        shared.restore(offset, kept, events);
        shared.record(StepPath::root(), EventKind::recovered(None));
        shared.log.commit().await?;
        let messages = store.waiting_messages(run, epoch).await?;
        self.host().running.begin(&shared)?;
        let undoing = CompensatingRun::new(&started, begun, Arc::clone(&shared));
        messages.into_iter().for_each(|message| deliver(&shared, message));
        Ok((shared, undoing))
    }
}
