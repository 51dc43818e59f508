//! Removing runs that have ended: one by its id, or all that are older than a while. It cancels none.

use std::time::Duration;

use super::Runtime;
use crate::error::{Error, Result};
use crate::event::RunId;
use crate::store::{RunFilter, RunRecord, RunStatus, StoreErrorKind};

/// How many runs are listed at once.
const PAGE: usize = 500;

/// Which of the runs that have ended are removed: those that nothing was recorded of for a while.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::runtime::Purge;
///
/// let purge = Purge::older_than(Duration::from_secs(30 * 24 * 3600)).name("nightly");
/// # let _ = purge;
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is removed before `Runtime::purge` has it"]
pub struct Purge {
    age: Duration,
    filter: RunFilter,
}

impl Purge {
    /// All runs that ended longer ago than this.
    pub fn older_than(age: Duration) -> Self {
        let ended = [RunStatus::Success, RunStatus::Failed, RunStatus::Cancelled];
        Self { age, filter: ended.into_iter().fold(RunFilter::new(), RunFilter::status) }
    }

    /// Only runs of the agent or workflow of this name.
    pub fn name(mut self, name: impl Into<std::sync::Arc<str>>) -> Self {
        self.filter = self.filter.name(name);
        self
    }
}

impl Runtime {
    /// Removes a run that has ended from the store, with its journal. Dropping the future leaves open whether it is
    /// removed.
    ///
    /// # Errors
    /// When the runtime has no store, there is no such run, it has not ended, or the store removes nothing.
    pub async fn delete(&self, run: &RunId) -> Result<()> {
        Ok(self.require_store()?.delete(run).await?)
    }

    /// The runs that [`purge`](Self::purge) would remove, the newest first.
    ///
    /// # Errors
    /// When the runtime has no store, or it cannot list its runs.
    pub async fn purgeable(&self, purge: &Purge) -> Result<Vec<RunRecord>> {
        let store = self.require_store()?;
        let now = self.host().clock.now();
        let (mut old, mut filter) = (Vec::new(), purge.filter.clone().limit(PAGE));
        loop {
            let page = store.list(filter.clone()).await?;
            if let Some(last) = page.last() {
                filter = filter.after(last);
            }
            let ends = page.len() < PAGE;
            old.extend(page.into_iter().filter(|run| now.since(run.updated) > purge.age));
            if ends {
                return Ok(old);
            }
        }
    }

    /// Removes runs that ended a while ago, one after another, and gives those that it removed. One that is retried
    /// meanwhile stays. Dropping the future stops between two runs.
    ///
    /// # Errors
    /// As [`purgeable`](Self::purgeable) and [`delete`](Self::delete); what was removed before stays removed.
    pub async fn purge(&self, purge: &Purge) -> Result<Vec<RunRecord>> {
        let mut removed = Vec::new();
        for run in self.purgeable(purge).await? {
            match self.delete(&run.run_id).await {
                Ok(()) => removed.push(run),
                // It continues, or somebody else has removed it.
                Err(Error::Store(error))
                    if matches!(
                        error.kind(),
                        StoreErrorKind::Unfinished | StoreErrorKind::Busy | StoreErrorKind::NotFound
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }
}
