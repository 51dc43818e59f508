//! `Runtime::drain`: how a program ends without interrupting what it is doing. It starts and resumes nothing.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::Runtime;
use super::catalogue::given;
use crate::event::{EventKind, EventSink, RunId};
use crate::run::RunShared;

/// Why a run without a store ends when its runtime is drained.
const REASON: &str = "its runtime was drained, and it has no store from which another process could resume it";

/// How long, after the deadline, a run that was stopped is waited for, since code that does not await cannot be stopped;
/// and a sink, which learns only now how the last runs ended.
const GRACE: Duration = Duration::from_secs(2);

/// What became of the runs that were executed when [`Runtime::drain`] was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// The runs that ended by themselves meanwhile, well or not.
    pub ended: Vec<RunId>,
    /// The runs with a store that were stopped at their journal: another process resumes them, or this program when it
    /// is started again.
    pub left: Vec<RunId>,
    /// The runs without a store that were cancelled at the deadline.
    pub cancelled: Vec<RunId>,
    /// The runtime's sinks that had not taken all events by the deadline, by their
    /// [names](crate::event::EventSink::name).
    pub unflushed: Vec<String>,
}

impl Runtime {
    /// Ends the work of this runtime, for a program that is about to end: on SIGTERM, say.
    ///
    /// From now on no run begins or is resumed here: that is [`Error::Draining`](crate::Error::Draining). Runs with a
    /// store begin nothing new; what is running in them, such as a model call, a tool call or a step, may finish until
    /// the deadline and is kept. A run in which nothing is running any more stops at its journal at once, as if the
    /// process had ended, and is free for another process; at the deadline all others do, and what was running in them is
    /// interrupted. Runs without a store continue until the deadline and are then cancelled.
    ///
    /// It returns as soon as no run is executed here and all sinks have [flushed](crate::event::EventSink::flush), or some
    /// seconds after the deadline. What undoes a failed or cancelled run counts as a tool call: a run with a store is left in
    /// the middle of it and continues elsewhere; of one without, a compensation that has not ended by then is given up, and
    /// its call named as not undone. A run waits for a sink with a full queue until the deadline and no longer
    /// ([`WhenFull::Wait`](crate::event::WhenFull::Wait)). A run that was left ends for whoever waits for it here with an
    /// error of the kind `fenced`; its status in the store stays what it was. Calling it again, also at the same time, is
    /// allowed; the earliest deadline counts.
    ///
    /// Dropping the future does not take it back: nothing begins here any more, and what is running may finish without a
    /// deadline.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use agentflow::prelude::*;
    /// use agentflow::store::MemoryStore;
    ///
    /// #[workflow]
    /// async fn publish(text: String) -> Result<String> {
    ///     let approval = gate!("publish?", text).await?;
    ///     Ok(format!("{approval:?}"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let run = runtime.start(publish::workflow(), "Hello.".to_owned()).await?;
    /// let drained = runtime.drain(Duration::from_secs(20)).await;
    /// assert_eq!(drained.left, [run.run_id().clone()]);
    /// assert!(runtime.start(publish::workflow(), "Hello.".to_owned()).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drain(&self, deadline: Duration) -> Drained {
        let running = &self.host().running;
        running.close();
        let until = Instant::now().checked_add(deadline);
        let runs: BTreeMap<RunId, Arc<RunShared>> =
            running.all().into_iter().map(|shared| (shared.id.clone(), shared)).collect();
        let _waits = WaitsEnd::at(&self.host().sinks, deadline);
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
            for shared in runs.values().filter(|shared| !shared.log.is_closed()) {
                match shared.log.is_durable() {
                    true => shared.stop(),
                    false => {
                        shared.cancel(REASON);
                        if shared.is_undoing() {
                            shared.give_up(None);
                        }
                    }
                }
            }
            let mut idle = tokio::time::timeout(GRACE, running.until_idle()).await.is_ok();
            let hangs = |shared: &&Arc<RunShared>| shared.is_undoing() && !shared.log.is_durable();
            if !idle && runs.values().any(|shared| hangs(&shared)) {
                runs.values().filter(hangs).for_each(|shared| shared.give_up_all());
                idle = tokio::time::timeout(GRACE, running.until_idle()).await.is_ok();
            }
            if !idle {
                tracing::warn!("runs that were stopped are still running: their code does not await");
            }
        }
        let factories = &self.host().factories;
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
            let into = match shared.log.end() {
                Some(EventKind::RunCancelled { reason, .. }) if *reason == *REASON => &mut drained.cancelled,
                Some(_) => &mut drained.ended,
                None if shared.log.is_durable() => &mut drained.left,
                None => &mut drained.cancelled,
            };
            into.push(run);
        }
        drained.unflushed = self.flush_sinks(until.and_then(|until| until.checked_add(GRACE))).await;
        tracing::info!(
            ended = drained.ended.len(),
            left = drained.left.len(),
            cancelled = drained.cancelled.len(),
            unflushed = ?drained.unflushed,
            "the runtime was drained"
        );
        drained
    }

    /// Lets all sinks hand on what they have put off; those that were not done by then.
    async fn flush_sinks(&self, until: Option<Instant>) -> Vec<String> {
        let flushes = self.host().sinks.iter().map(|sink| async move {
            // One that panics has nothing more to hand on.
            let flushed = AssertUnwindSafe(sink.flush()).catch_unwind();
            let flushed = match until {
                Some(until) => tokio::time::timeout_at(until, flushed).await.is_ok(),
                None => flushed.await.is_ok(),
            };
            (!flushed).then(|| sink.name().to_owned())
        });
        join_all(flushes).await.into_iter().flatten().collect()
    }
}

/// While this is there, a run waits for a sink until the deadline only.
struct WaitsEnd<'s>(&'s [Arc<dyn EventSink>]);

impl<'s> WaitsEnd<'s> {
    fn at(sinks: &'s [Arc<dyn EventSink>], deadline: Duration) -> Self {
        // By the clock of the machine: a thread waits for the sink, and no task.
        if let Some(end) = std::time::Instant::now().checked_add(deadline) {
            sinks.iter().for_each(|sink| sink.wait_until(Some(end)));
        }
        Self(sinks)
    }
}

impl Drop for WaitsEnd<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|sink| sink.wait_until(None));
    }
}
