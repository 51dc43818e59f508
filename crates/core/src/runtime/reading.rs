//! Runs of the store: a handle of one by its id, its events, its output, its journal, and lists. It starts and resumes
//! nothing.

use super::Runtime;
use crate::artifact::{Artifact, ArtifactRef};
use crate::error::Result;
use crate::event::{Event, RunId, Spending};
use crate::model::Usage;
use crate::run::{
    Ended, Events, RunHandle, artifact_gone, artifacts_of, attach, read_events, spending_of_runs, state_of,
    usage_of_runs,
};
use crate::state::StateValues;
#[cfg(feature = "cli")]
use crate::store::RunList;
use crate::store::{RunFilter, RunRecord, StoreError};
use crate::value::Encoded;

impl Runtime {
    /// The handle of a run that is in the store, wherever it is executed: by this process, by another one, or by none, in
    /// which case its end is waited for until a process has resumed it. Events of another process arrive within about
    /// 0.2 seconds. Dropping the handle does not touch the run. The output is JSON; [`RunHandle::typed`] makes it a
    /// value.
    ///
    /// ```
    /// # use agentflow::prelude::*;
    /// # use agentflow::store::MemoryStore;
    /// # #[workflow]
    /// # async fn double(n: i64) -> Result<i64> { let twice = n * 2; Ok(twice) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let id = runtime.start(double::workflow(), 4).await?.run_id().clone();
    /// // Anywhere else, with the id alone.
    /// let run = runtime.attach(&id).await?;
    /// assert_eq!(run.typed::<i64>().result().await?, 8);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When there is no such run, or its journal cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn attach(&self, run: &RunId) -> Result<RunHandle<Encoded>> {
        Ok(RunHandle::of(attach(self.host(), run).await?, Ended::encoded))
    }

    /// The events of a run after the first `after` ones, and from then on as they happen: 0 for all. A reader that comes
    /// back gives the [`seq`](crate::event::Event::seq) of the last one that it has seen.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub async fn events(&self, run: &RunId, after: u64) -> Result<Events> {
        Ok(self.attach(run).await?.events_after(after))
    }

    /// The events of a run that this process executes, deltas included.
    #[cfg(feature = "mcp-server")]
    pub(crate) fn events_here(&self, run: &RunId) -> Option<Events> {
        let shared = self.host().live.as_ref()?.get(run)?;
        Some(Events::new(shared, 0))
    }

    /// The output of a run by its id, as soon as it has ended: [`attach`](Self::attach), then
    /// [`result`](RunHandle::result). [`inspect`](Self::inspect) says whether it has.
    ///
    /// # Errors
    /// As [`attach`](Self::attach); also the error with which the run failed.
    pub async fn output(&self, run: &RunId) -> Result<Encoded> {
        self.attach(run).await?.result().await
    }

    /// The journal of a run, from the store.
    ///
    /// # Errors
    /// When there is no such run, or its journal cannot be read.
    pub async fn journal(&self, run: &RunId) -> Result<Vec<Event>> {
        self.journal_after(run, 0).await
    }

    /// The part of a run's journal after an event of a number: what has happened since it was looked at last.
    ///
    /// # Errors
    /// When there is no such run, or its journal cannot be read.
    pub async fn journal_after(&self, run: &RunId, seq: u64) -> Result<Vec<Event>> {
        Ok(read_events(&self.require_store()?, run, seq).await?)
    }

    /// The state of a run as it is now: what its steps have saved that completed, whether or not the run has ended. What is
    /// [`temp:`](crate::state::StateOwner::Temp) is not in the journal and so not here.
    ///
    /// # Errors
    /// When there is no such run, or its journal cannot be read.
    pub async fn run_state(&self, run: &RunId) -> Result<StateValues> {
        Ok(state_of(&self.journal(run).await?))
    }

    /// The artifacts of a run: those of its steps that completed, in the order of the plan. Of one name the last one is the
    /// newest.
    ///
    /// [`RunHandle::artifacts`] and [`RunResult::artifacts`](crate::run::RunResult::artifacts) also read artifacts of
    /// runs without a store.
    ///
    /// # Errors
    /// When the runtime has no store, there is no such run, or its journal cannot be read.
    pub async fn artifacts(&self, run: &RunId) -> Result<Vec<ArtifactRef>> {
        Ok(artifacts_of(&self.journal(run).await?))
    }

    /// An artifact of a run by its name, with its bytes: of a version, or the newest one; `None` when the run has not saved it.
    ///
    /// # Errors
    /// As [`artifacts`](Self::artifacts), and when the bytes cannot be read.
    pub async fn artifact(&self, run: &RunId, name: &str, version: Option<u32>) -> Result<Option<Artifact>> {
        let is_it = |of: &ArtifactRef| *of.name == *name && version.is_none_or(|version| of.version == version);
        let Some(artifact) = self.artifacts(run).await?.into_iter().rfind(is_it) else { return Ok(None) };
        match self.require_store()?.artifact(run, &artifact.sha256).await? {
            Some(bytes) => Ok(Some(Artifact::new(artifact, bytes))),
            None => Err(artifact_gone(&artifact)),
        }
    }

    /// The runs of the store, the newest first.
    ///
    /// # Errors
    /// When the runtime has no store, or it cannot list its runs.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>> {
        Ok(self.require_store()?.list(filter).await?)
    }

    /// The same, with the runs that cannot be read and may belong to it.
    #[cfg(feature = "cli")]
    pub(crate) async fn runs_with_unreadable(&self, filter: RunFilter) -> Result<RunList> {
        Ok(self.require_store()?.list_with_unreadable(filter).await?)
    }

    /// Returns the tokens that all runs of a filter have spent so far, unfinished ones included: of a session, of a caller, of
    /// runs that began in a time. It reads the list of runs, and the journals of those that an earlier release began.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use agentflow::store::{MemoryStore, RunFilter};
    /// use agentflow::{Result, Runtime};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let yesterday = SystemTime::now() - Duration::from_secs(24 * 3600);
    /// let usage = runtime.usage(RunFilter::new().caller("ada").since(yesterday.into())).await?;
    /// assert_eq!(usage.total_tokens(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the runtime has no store, or it cannot list its runs.
    pub async fn usage(&self, filter: RunFilter) -> Result<Usage> {
        Ok(usage_of_runs(&self.require_store()?, filter, None).await?)
    }

    /// Returns the same by agent and model, with the number of calls. [`Prices::cost`](crate::middleware::Prices::cost) makes
    /// an amount of it. It reads the journal of each run.
    ///
    /// # Errors
    /// As [`usage`](Self::usage), and when a journal cannot be read.
    pub async fn spending(&self, filter: RunFilter) -> Result<Vec<Spending>> {
        Ok(spending_of_runs(&self.require_store()?, filter).await?)
    }

    /// What the store's list says of a run.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn run_record(&self, run: &RunId) -> Result<RunRecord> {
        Ok(self.require_store()?.record(run).await?.ok_or_else(|| StoreError::not_found(run))?)
    }
}
