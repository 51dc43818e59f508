//! Reads runs from the store: handles, events, outputs, journals, state, artifacts and lists.

use super::Runtime;
use crate::artifact::{Artifact, ArtifactRef};
use crate::error::Result;
use crate::event::{Event, RunId, Spending};
use crate::model::Usage;
use crate::run::{
    Ended, Events, RunHandle, artifact_gone, artifacts_from_events, attach, read_events,
    spending_of_runs, state_of, usage_of_runs,
};
use crate::state::StateValues;
use crate::store::RunList;
use crate::store::{RunFilter, RunRecord, StoreError};
use crate::value::Encoded;

impl Runtime {
    /// Returns a handle to a run in the store. The run may be executed by this process, by another
    /// process, or by no process; in the last case the handle waits until a process has resumed it.
    /// Events of another process arrive within about 0.2 seconds. Dropping the handle does not
    /// affect the run. The output is JSON; [`RunHandle::typed`] decodes it.
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
    /// If the run does not exist or its journal cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn attach(&self, run: &RunId) -> Result<RunHandle<Encoded>> {
        Ok(RunHandle::from_task(attach(self.host(), run).await?, Ended::encoded))
    }

    /// Returns the events of a run after the first `after` ones, followed by new events as they
    /// happen. Pass 0 for all events. To continue an interrupted stream, pass the
    /// [`seq`](crate::event::Event::seq) of the last event that was received.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub async fn events(&self, run: &RunId, after: u64) -> Result<Events> {
        Ok(self.attach(run).await?.events_after(after))
    }

    /// Returns the events of a run that this process executes, including deltas.
    #[doc(hidden)]
    pub fn events_here(&self, run: &RunId) -> Option<Events> {
        let shared = self.host().live.as_ref()?.get(run)?;
        Some(Events::new(shared, 0))
    }

    /// Waits until a run has ended and returns its output: [`attach`](Self::attach), then
    /// [`result`](RunHandle::result). [`inspect`](Self::inspect) returns the status without
    /// waiting.
    ///
    /// # Errors
    /// As [`attach`](Self::attach), and the error with which the run failed.
    pub async fn output(&self, run: &RunId) -> Result<Encoded> {
        self.attach(run).await?.result().await
    }

    /// Returns the journal of a run from the store.
    ///
    /// # Errors
    /// If the run does not exist or its journal cannot be read.
    pub async fn journal(&self, run: &RunId) -> Result<Vec<Event>> {
        self.journal_after(run, 0).await
    }

    /// Returns the part of a run's journal after the event with this number.
    ///
    /// # Errors
    /// If the run does not exist or its journal cannot be read.
    pub async fn journal_after(&self, run: &RunId, seq: u64) -> Result<Vec<Event>> {
        Ok(read_events(&self.require_store()?, run, seq).await?)
    }

    /// Returns the current state of a run: the values that its completed steps have saved. The run
    /// may be unfinished. [`temp:`](crate::state::StateOwner::Temp) values are not stored in the
    /// journal and not included.
    ///
    /// # Errors
    /// If the run does not exist or its journal cannot be read.
    pub async fn run_state(&self, run: &RunId) -> Result<StateValues> {
        Ok(state_of(&self.journal(run).await?))
    }

    /// Returns the artifacts that the completed steps of a run have saved, in the order of the
    /// plan. For artifacts with the same name, the last one is the newest.
    ///
    /// [`RunHandle::artifacts`] and [`RunResult::artifacts`](crate::run::RunResult::artifacts) also
    /// work for runs without a store.
    ///
    /// # Errors
    /// If the runtime has no store, the run does not exist, or its journal cannot be read.
    pub async fn artifacts(&self, run: &RunId) -> Result<Vec<ArtifactRef>> {
        Ok(artifacts_from_events(&self.journal(run).await?))
    }

    /// Returns an artifact of a run with its bytes: the given version or the newest one. Returns
    /// `None` if the run has not saved it.
    ///
    /// # Errors
    /// As [`artifacts`](Self::artifacts), and if the bytes cannot be read.
    pub async fn artifact(
        &self,
        run: &RunId,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<Artifact>> {
        let is_it = |of: &ArtifactRef| {
            *of.name == *name && version.is_none_or(|version| of.version == version)
        };
        let Some(artifact) = self.artifacts(run).await?.into_iter().rfind(is_it) else {
            return Ok(None);
        };
        match self.require_store()?.require_artifacts()?.artifact(run, &artifact.sha256).await? {
            Some(bytes) => Ok(Some(Artifact::new(artifact, bytes))),
            None => Err(artifact_gone(&artifact)),
        }
    }

    /// Returns the runs in the store that match a filter, newest first.
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its runs.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>> {
        Ok(self.require_store()?.list(filter).await?)
    }

    /// Returns the runs that match a filter, and unreadable runs that may match it.
    #[doc(hidden)]
    pub async fn runs_with_unreadable(&self, filter: RunFilter) -> Result<RunList> {
        Ok(self.require_store()?.list_with_unreadable(filter).await?)
    }

    /// Returns the total token usage of all runs that match a filter, including unfinished runs:
    /// for example of a session, of a caller, or of a period. Reads the list of runs, and the
    /// journals of runs that an earlier release started.
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
    /// If the runtime has no store, or the store cannot list its runs.
    pub async fn usage(&self, filter: RunFilter) -> Result<Usage> {
        Ok(usage_of_runs(&self.require_store()?, filter, None).await?)
    }

    /// Returns the token usage by agent and model, with the number of calls.
    /// [`Prices::cost`](crate::middleware::Prices::cost) computes the cost. Reads the journal of
    /// each run.
    ///
    /// # Errors
    /// As [`usage`](Self::usage), and if a journal cannot be read.
    pub async fn spending(&self, filter: RunFilter) -> Result<Vec<Spending>> {
        Ok(spending_of_runs(&self.require_store()?, filter).await?)
    }

    /// Returns the entry of a run in the store's list.
    ///
    /// # Errors
    /// If the run does not exist.
    pub async fn run_record(&self, run: &RunId) -> Result<RunRecord> {
        Ok(self.require_store()?.record(run).await?.ok_or_else(|| StoreError::not_found(run))?)
    }
}
