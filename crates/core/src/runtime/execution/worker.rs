//! [`Worker`]: a loop that executes the runs of a store which no process executes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::event::RunId;
use crate::future::BoxFuture;
use crate::run::RunHandle;
use crate::runtime::Runtime;
use crate::runtime::catalogue::registered_items::refresh_items;
use crate::runtime::execution::workflow_runs::recover_one;
use crate::store::{RunFilter, RunRecord, Store, StoreError, StoreErrorKind};
use crate::value::Encoded;

/// Pause after which a run that could not be executed is tried again. It doubles with each further
/// failure, up to [`LONGEST_REFUSAL`].
const FIRST_REFUSAL: Duration = Duration::from_secs(5);
const LONGEST_REFUSAL: Duration = Duration::from_secs(300);

/// Default number of runs that a worker executes at the same time.
const CONCURRENCY: usize = 16;

/// Pause after the store could not be read. It doubles with each further failure, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A worker: executes runs of a store that no process executes, until the runtime is
/// [drained](Runtime::drain). [`Runtime::worker`] creates it.
///
/// A run is executed by a worker if it was [queued](crate::runtime::StartRun::queued), if the process that
/// executed it has ended, or if an operator answered, retried or unpaused it while no process
/// executed it. The oldest run is first. Each run is executed by one process at a time: the store
/// hands it to the worker that opens it first.
///
/// A worker leaves a run to other processes if it cannot resume the run, for example because its
/// program lacks the workflow, has another definition of it, or cannot reach one of its toolsets.
/// It logs the reason and tries again after 5 seconds, later after up to 5 minutes.
///
/// Runs that wait for a person do not count towards [`concurrency`](Self::concurrency). When they
/// continue, the worker can execute more runs than that for a while.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
///
/// #[workflow]
/// async fn welcome(name: String) -> Result<String> {
///     let greeting = format!("Welcome, {name}.");
///     Ok(greeting)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// // Usually in another process, with the same store.
/// let worker = tokio::spawn(runtime.worker().concurrency(4).run());
///
/// let run = runtime.start(welcome::workflow(), "Ada".to_owned()).queued().await?;
/// let output = runtime.run(&run).attach().await?.result().await?;
/// assert_eq!(output.decode::<String>().unwrap(), "Welcome, Ada.");
///
/// runtime.drain(Duration::from_secs(20)).await;
/// worker.await.unwrap()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a worker executes runs when `run` is awaited"]
pub struct Worker {
    runtime: Runtime,
    concurrency: usize,
    names: BTreeSet<Arc<str>>,
}

impl Worker {
    pub(super) fn new(runtime: &Runtime) -> Self {
        Self { runtime: runtime.clone(), concurrency: CONCURRENCY, names: BTreeSet::new() }
    }

    /// Sets the number of runs that are executed at the same time. 0 counts as 1. Default: 16.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.concurrency = runs.max(1);
        self
    }

    /// Executes only runs of the workflows and agents with these names. Further calls add names.
    /// Default: runs of all names.
    pub fn names<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names.extend(names.into_iter().map(Into::into));
        self
    }

    /// Executes runs until the runtime is [drained](Runtime::drain). If the store cannot be read,
    /// logs the error and tries again after half a second, later after up to 30 seconds.
    ///
    /// # Errors
    /// If the runtime has no store, or its store has no [leases](crate::store::LeaseStore): workers
    /// would take each other's runs.
    ///
    /// # Cancel safety
    /// If the future is dropped, no further run is taken. Runs that were taken continue in this
    /// process.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn run(self) -> Result<()> {
        let store = self.runtime.require_store()?;
        store.require_leases()?;
        let mut claimed = ClaimedRuns::default();
        let mut pause = FIRST_PAUSE;
        while self.runtime.host().running.check().is_ok() {
            // Created before the runs are read, so that no change in between is missed.
            let changed = store.runs_changed();
            let wait = match self.take_runs(&store, &mut claimed).await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    changed
                }
                Err(Error::Draining) => break,
                Err(error) => {
                    let error = self.runtime.host().redacted(&error);
                    tracing::warn!(error, "a worker cannot read its store and tries again");
                    let wait = Box::pin(tokio::time::sleep(pause));
                    pause = LONGEST_PAUSE.min(pause * 2);
                    wait
                }
            };
            claimed.wait(wait).await;
        }
        Ok(())
    }

    /// Takes runs until the limit is reached or no run is left.
    async fn take_runs(&self, store: &Arc<dyn Store>, claimed: &mut ClaimedRuns) -> Result<()> {
        // A workflow of this program may call documents that other processes have saved.
        refresh_items(&self.runtime).await?;
        let mut listed = HashSet::new();
        for filter in self.filters() {
            let free = self.concurrency.saturating_sub(claimed.busy());
            if free == 0 {
                return Ok(());
            }
            // Refused runs may be the oldest ones, and must not hide the others.
            let limit = free + claimed.refused.len();
            let records = store.claimable(filter.limit(limit)).await?;
            let is_whole = records.len() < limit;
            for record in records {
                listed.insert(record.run_id.clone());
                if claimed.busy() < self.concurrency && !claimed.refuses(&record.run_id) {
                    self.take(&record, claimed).await?;
                }
            }
            if !is_whole {
                return Ok(());
            }
        }
        // Refused runs that are no longer listed have ended, or another process executes them.
        claimed.refused.retain(|run, _| listed.contains(run));
        Ok(())
    }

    /// Returns a filter for each name, so that the runs of one name do not hide those of another.
    fn filters(&self) -> Vec<RunFilter> {
        match self.names.is_empty() {
            true => vec![RunFilter::unfinished()],
            false => self
                .names
                .iter()
                .map(|name| RunFilter::unfinished().name(Arc::clone(name)))
                .collect(),
        }
    }

    /// Takes one run, unless another process is faster.
    async fn take(&self, record: &RunRecord, claimed: &mut ClaimedRuns) -> Result<()> {
        let run = &record.run_id;
        match recover_one(&self.runtime, record).await {
            Ok(Some(handle)) => {
                tracing::debug!(%run, name = %record.name, "a worker executes a run");
                claimed.add(run, handle);
            }
            // Another task of this process executes it.
            Ok(None) => {}
            Err(Error::Draining) => return Err(Error::Draining),
            Err(Error::Store(error)) if is_lost(&error) => {}
            Err(error) => {
                let error = self.runtime.host().redacted(&error);
                tracing::warn!(%run, name = %record.name, error, "a worker leaves a run to other processes");
                claimed.refuse(run);
            }
        }
        Ok(())
    }
}

/// Returns `true` if another process took the run first, or the run has ended or was removed since
/// it was listed.
fn is_lost(error: &StoreError) -> bool {
    matches!(
        error.kind(),
        StoreErrorKind::Busy
            | StoreErrorKind::Fenced
            | StoreErrorKind::Ended
            | StoreErrorKind::NotFound
    )
}

/// The runs that a worker executes and those that it cannot execute.
#[derive(Default)]
struct ClaimedRuns {
    runs: HashMap<RunId, RunHandle<Encoded>>,
    ends: FuturesUnordered<BoxFuture<'static, RunId>>,
    /// Runs that could not be executed here.
    refused: HashMap<RunId, FailedAttempt>,
}

/// A failed attempt to execute a run.
struct FailedAttempt {
    /// Time of the next attempt.
    again: Instant,
    /// Pause between the last attempt and the next.
    pause: Duration,
}

impl ClaimedRuns {
    fn add(&mut self, run: &RunId, handle: RunHandle<Encoded>) {
        let (id, followed) = (run.clone(), handle.clone());
        self.ends.push(Box::pin(async move {
            // The outcome is in the store. An error is logged by the run itself.
            let _ = followed.result().await;
            id
        }));
        self.runs.insert(run.clone(), handle);
        self.refused.remove(run);
    }

    /// Returns the number of runs that do not wait for a person or an operator.
    fn busy(&self) -> usize {
        self.runs.values().filter(|run| !run.is_waiting()).count()
    }

    /// Notes that a run could not be executed here.
    fn refuse(&mut self, run: &RunId) {
        let pause = match self.refused.get(run) {
            Some(before) => LONGEST_REFUSAL.min(before.pause * 2),
            None => FIRST_REFUSAL,
        };
        self.refused.insert(run.clone(), FailedAttempt { again: Instant::now() + pause, pause });
    }

    /// Returns `true` if a run could not be executed here and is not to be tried again yet.
    fn refuses(&self, run: &RunId) -> bool {
        self.refused.get(run).is_some_and(|refusal| Instant::now() < refusal.again)
    }

    /// Waits until a run ends or `changed` completes, and forgets all runs that have ended.
    async fn wait(&mut self, changed: BoxFuture<'static, ()>) {
        tokio::select! {
            Some(ended) = self.ends.next(), if !self.ends.is_empty() => {
                self.runs.remove(&ended);
                while let Some(Some(ended)) = self.ends.next().now_or_never() {
                    self.runs.remove(&ended);
                }
            }
            () = changed => {}
        }
    }
}
