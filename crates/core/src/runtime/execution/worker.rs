//! [`Worker`]: a loop that executes the runs of a store which no process executes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use crate::error::{Error, Result};
use crate::event::RunId;
use crate::future::BoxFuture;
use crate::run::RunHandle;
use crate::runtime::Runtime;
use crate::runtime::execution::workflow_runs::recover_one;
use crate::store::{RunFilter, RunRecord, Store, StoreError, StoreErrorKind};
use crate::value::Encoded;

/// Default number of runs that a worker executes at the same time.
const CONCURRENCY: usize = 16;

/// Pause after the store could not be read. It doubles with each further failure, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A worker: executes runs of a store that no process executes, until the runtime is
/// [drained](Runtime::drain). [`Runtime::worker`] creates it.
///
/// A run is executed by a worker if it was [queued](crate::StartRun::queued), if the process that
/// executed it has ended, or if an operator answered, retried or unpaused it while no process
/// executed it. The oldest run is first. Each run is executed by one process at a time: the store
/// hands it to the worker that opens it first.
///
/// A worker leaves a run to other processes if its program lacks the workflow or agent, has another
/// definition of it, or lacks a resource. It logs this once and tries again after the run has
/// changed.
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
/// async fn greet(name: String) -> Result<String> {
///     let greeting = format!("Hello {name}.");
///     Ok(greeting)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// // Usually in another process, with the same store.
/// let worker = tokio::spawn(runtime.worker().concurrency(4).run());
///
/// let run = runtime.start(greet::workflow(), "Ada".to_owned()).queued().await?;
/// let output = runtime.run(&run).attach().await?.result().await?;
/// assert_eq!(output.decode::<String>().unwrap(), "Hello Ada.");
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
        let mut crew = Crew::default();
        let mut pause = FIRST_PAUSE;
        while self.runtime.host().running.check().is_ok() {
            // Created before the runs are read, so that no change in between is missed.
            let changed = store.runs_changed();
            let wait = match self.take_runs(&store, &mut crew).await {
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
            crew.wait(wait).await;
        }
        Ok(())
    }

    /// Takes runs until the limit is reached or no run is left.
    async fn take_runs(&self, store: &Arc<dyn Store>, crew: &mut Crew) -> Result<()> {
        let filters = match self.names.is_empty() {
            true => vec![RunFilter::unfinished()],
            false => self
                .names
                .iter()
                .map(|name| RunFilter::unfinished().name(Arc::clone(name)))
                .collect(),
        };
        for filter in filters {
            let free = self.concurrency.saturating_sub(crew.busy());
            if free == 0 {
                break;
            }
            // Refused runs may be the oldest ones, and must not hide the others.
            let filter = filter.limit(free + crew.refused.len());
            for record in store.claimable(filter).await? {
                if crew.busy() >= self.concurrency {
                    break;
                }
                if !crew.refuses(&record) {
                    self.take(&record, crew).await?;
                }
            }
        }
        Ok(())
    }

    /// Takes one run, unless another process is faster.
    async fn take(&self, record: &RunRecord, crew: &mut Crew) -> Result<()> {
        let run = &record.run_id;
        match recover_one(&self.runtime, record).await {
            Ok(Some(handle)) => {
                tracing::debug!(%run, name = %record.name, "a worker executes a run");
                crew.add(run, handle);
            }
            // Another task of this process executes it.
            Ok(None) => {}
            Err(Error::Draining) => return Err(Error::Draining),
            Err(Error::Store(error)) if is_lost(&error) => {}
            Err(error) => {
                let error = self.runtime.host().redacted(&error);
                tracing::warn!(%run, name = %record.name, error, "a worker leaves a run to other processes");
                crew.refused.insert(run.clone(), record.events);
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
struct Crew {
    runs: HashMap<RunId, RunHandle<Encoded>>,
    ends: FuturesUnordered<BoxFuture<'static, RunId>>,
    /// Runs that cannot be executed here, with their number of events when this was noticed.
    refused: HashMap<RunId, u64>,
}

impl Crew {
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

    /// Returns `true` if a run could not be executed here and has not changed since.
    fn refuses(&mut self, record: &RunRecord) -> bool {
        match self.refused.get(&record.run_id) {
            Some(events) if *events == record.events => true,
            Some(_) => {
                self.refused.remove(&record.run_id);
                false
            }
            None => false,
        }
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
