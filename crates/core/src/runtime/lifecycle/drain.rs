//! `Runtime::drain`: ends a program without losing work in progress.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::event::{EventKind, EventSink, RunId};
use crate::run::RunShared;
use crate::runtime::Runtime;
use crate::runtime::catalogue::lookup::given;

/// Cancel reason of a run without a store when its runtime is drained.
const REASON: &str =
    "its runtime was drained, and it has no store from which another process could resume it";

/// Time to wait after the deadline for stopped runs, since code that does not await cannot be
/// stopped, and for sinks, which receive the last events only then.
const GRACE: Duration = Duration::from_secs(2);

/// Result of [`Runtime::drain`]: the runs that were being executed when it was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Runs that ended on their own meanwhile, successfully or not.
    pub ended: Vec<RunId>,
    /// Runs with a store that were stopped and remain unfinished in the store. Another process, or
    /// this program after a restart, resumes them.
    pub left: Vec<RunId>,
    /// Runs without a store that were cancelled at the deadline.
    pub cancelled: Vec<RunId>,
    /// [Names](crate::event::EventSink::name) of the runtime's sinks that had not processed all
    /// events by the deadline.
    pub unflushed: Vec<String>,
}

impl Runtime {
    /// Ends the work of this runtime before the program exits, for example on SIGTERM.
    ///
    /// From now on no run can be started or resumed here: the attempt fails with
    /// [`Error::Draining`](crate::Error::Draining). Runs with a store do not start new steps.
    /// Running model calls, tool calls and steps may finish until the deadline, and their results
    /// are recorded. A run without running steps stops at once, as if the process had ended, and
    /// another process can resume it. At the deadline all other runs with a store are stopped, and
    /// their running steps are interrupted. Runs without a store continue until the deadline and
    /// are then cancelled.
    ///
    /// The function returns as soon as no run is executed here and all sinks have
    /// [flushed](crate::event::EventSink::flush), or a few seconds after the deadline. A
    /// compensation counts as a tool call. A run with a store that is being compensated is stopped
    /// and continues elsewhere. In a run without a store, a compensation that has not ended by then
    /// is abandoned, and its call is reported as not undone. A run waits for a sink with a full
    /// queue only until the deadline ([`WhenFull::Wait`](crate::event::WhenFull::Wait)). Handles of
    /// a stopped run receive an error of the kind `fenced`; the status of the run in the store does
    /// not change. The function may be called again, also concurrently; the earliest deadline
    /// counts.
    ///
    /// # Cancel safety
    /// Dropping the future does not reopen the runtime: no run can be started, and running steps
    /// may finish without a deadline.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use agentflow::prelude::*;
    /// use agentflow::store::MemoryStore;
    ///
    /// #[workflow]
    /// async fn publish_text(text: String) -> Result<String> {
    ///     let approval = gate!("publish?", text).await?;
    ///     Ok(format!("{approval:?}"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let run = runtime.start(publish_text::workflow(), "Hello.".to_owned()).await?;
    /// let drained = runtime.drain(Duration::from_secs(20)).await;
    /// assert_eq!(drained.left, [run.run_id().clone()]);
    /// assert!(runtime.start(publish_text::workflow(), "Hello.".to_owned()).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drain(&self, deadline: Duration) -> Drained {
        let running = &self.host().running;
        // From now on no run can start.
        running.close();
        let until = Instant::now().checked_add(deadline);
        let runs: BTreeMap<RunId, Arc<RunShared>> =
            running.all().into_iter().map(|shared| (shared.id.clone(), shared)).collect();
        // Runs must not wait for a full sink beyond the deadline, or they could not stop in time.
        let _waits = SinkWaitLimit::at(&self.host().sinks, deadline);
        // Runs with a store stop between two steps. The others cannot continue in another process,
        // so they get all the time there is.
        runs.values().filter(|shared| shared.log.is_durable()).for_each(|shared| shared.drain());
        let in_time = async {
            match until {
                Some(until) => tokio::time::timeout_at(until, running.until_idle()).await.is_ok(),
                None => {
                    running.until_idle().await;
                    true
                }
            }
        };
        if !in_time.await {
            // The deadline has passed: interrupt all runs that are still being executed.
            for shared in runs.values().filter(|shared| !shared.log.is_closed()) {
                match shared.log.is_durable() {
                    true => shared.stop(),
                    false => {
                        shared.cancel(REASON);
                        // A compensation is not stopped by cancelling the run.
                        if shared.is_undoing() {
                            shared.give_up(None);
                        }
                    }
                }
            }
            let mut idle = tokio::time::timeout(GRACE, running.until_idle()).await.is_ok();
            let hangs = |shared: &&Arc<RunShared>| shared.is_undoing() && !shared.log.is_durable();
            // Abandoning a compensation starts the next one, so abandon all that are left.
            if !idle && runs.values().any(|shared| hangs(&shared)) {
                runs.values().filter(hangs).for_each(|shared| shared.give_up_all());
                idle = tokio::time::timeout(GRACE, running.until_idle()).await.is_ok();
            }
            if !idle {
                tracing::warn!(
                    "runs that were stopped are still running: their code does not await"
                );
            }
        }
        let factories = &self.host().factories;
        // Resources of idle sessions would otherwise stay open until their time-out.
        factories.sessions.close_idle(None);
        if tokio::time::timeout(GRACE, factories.closings.until_closed()).await.is_err() {
            tracing::warn!("resources of runs or sessions are still being closed");
        }
        let toolsets = given(self.host(), |given| &given.toolsets);
        let released = join_all(toolsets.iter().map(|(toolset, _)| toolset.cleanup()));
        if tokio::time::timeout(GRACE, released).await.is_err() {
            tracing::warn!("toolsets are still being released");
        }
        let mut drained = Drained::default();
        for (run, shared) in runs {
            // A run that was cancelled by its caller has ended; only this drain's own reason counts
            // as cancelled.
            let into = match shared.log.end() {
                Some(EventKind::RunCancelled { reason, .. }) if *reason == *REASON => {
                    &mut drained.cancelled
                }
                Some(_) => &mut drained.ended,
                None if shared.log.is_durable() => &mut drained.left,
                None => &mut drained.cancelled,
            };
            into.push(run);
        }
        drained.unflushed =
            flush_sinks(self, until.and_then(|until| until.checked_add(GRACE))).await;
        tracing::info!(
            ended = drained.ended.len(),
            left = drained.left.len(),
            cancelled = drained.cancelled.len(),
            unflushed = ?drained.unflushed,
            "the runtime was drained"
        );
        drained
    }
}

/// Flushes all sinks. Returns the names of the sinks that were not finished at the deadline.
async fn flush_sinks(runtime: &Runtime, until: Option<Instant>) -> Vec<String> {
    let flushes = runtime.host().sinks.iter().map(|sink| async move {
        // A sink that panicked has nothing more to flush.
        let flushed = AssertUnwindSafe(sink.flush()).catch_unwind();
        let flushed = match until {
            Some(until) => tokio::time::timeout_at(until, flushed).await.is_ok(),
            None => flushed.await.is_ok(),
        };
        (!flushed).then(|| sink.name().to_owned())
    });
    join_all(flushes).await.into_iter().flatten().collect()
}

/// Limits the waits for full sinks to the deadline until it is dropped.
struct SinkWaitLimit<'s>(&'s [Arc<dyn EventSink>]);

impl<'s> SinkWaitLimit<'s> {
    fn at(sinks: &'s [Arc<dyn EventSink>], deadline: Duration) -> Self {
        // Uses the system clock instead of tokio's clock, since a thread waits for the sink, not a
        // task.
        if let Some(end) = std::time::Instant::now().checked_add(deadline) {
            sinks.iter().for_each(|sink| sink.wait_until(Some(end)));
        }
        Self(sinks)
    }
}

impl Drop for SinkWaitLimit<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|sink| sink.wait_until(None));
    }
}
