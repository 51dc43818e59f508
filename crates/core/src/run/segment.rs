//! How an agent or a workflow begins and ends in its run, as the run itself or as a step of it: the records, their
//! commits, and the outcome of a cancellation or a drop.
//!
//! It knows neither agents nor workflows: a [`SegmentKind`] names their events, and they execute what is between
//! beginning and end.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use super::nesting::{BY_STEP, why_dropped};
use super::shared::RunShared;
use crate::error::{Error, Failure, FailureKind};
use crate::event::{EventKind, RunBody, RunCompleted};
use crate::path::StepPath;
use crate::store::StoreError;
use crate::time::Timestamp;

/// The records in which one kind of segment begins and ends.
pub(crate) trait SegmentKind {
    /// What it begins with.
    type Started;
    /// What it ends with when all is well.
    type Completed;

    /// Its beginning as a run.
    fn body(started: Self::Started) -> RunBody;
    /// Its end as a run.
    fn run_completed(completed: Self::Completed) -> RunCompleted;
    /// Its beginning as a step.
    fn started(started: Self::Started) -> EventKind;
    /// Its end as a step.
    fn completed(completed: Self::Completed) -> EventKind;
    /// Its failure as a step.
    fn failed(error: Arc<Failure>) -> EventKind;
}

/// An agent or a workflow in its run. It is a run of its own, or a step of another one: then it records below that
/// step, in that run's journal.
///
/// A run of its own is closed when this is dropped, so an owner has it as its first field.
pub(crate) struct Segment<K> {
    pub(crate) shared: Arc<RunShared>,
    /// Where it records; the root for a run of its own.
    pub(crate) base: StepPath,
    /// The step that it is within; the root for a run of its own.
    pub(crate) step: StepPath,
    /// Its end is neither recorded nor given up.
    open: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K: SegmentKind> Segment<K> {
    /// A run of its own.
    pub(crate) fn new(shared: Arc<RunShared>) -> Self {
        Self::within(shared, StepPath::root(), StepPath::root())
    }

    /// One in a step.
    pub(crate) fn within(shared: Arc<RunShared>, base: StepPath, step: StepPath) -> Self {
        Self { shared, base, step, open: true, kind: PhantomData }
    }

    /// Whether it is a run of its own.
    pub(crate) fn is_run(&self) -> bool {
        self.base.is_root()
    }

    /// What an earlier life of the run recorded of it.
    pub(crate) fn recorded(&self) -> Vec<(Timestamp, StepPath, EventKind)> {
        match self.shared.log.is_restored() {
            true => self.shared.log.records_below(&self.base),
            false => Vec::new(),
        }
    }

    /// The record of its beginning.
    pub(crate) fn begins(&self, started: K::Started) -> EventKind {
        match self.is_run() {
            true => EventKind::RunStarted(Arc::new(self.shared.started(K::body(started)))),
            false => K::started(started),
        }
    }

    /// Whether its end is still to be recorded.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// It has no end to record: it had one before, or nothing of it can be kept.
    pub(crate) fn settle(&mut self) {
        self.open = false;
    }

    /// A run of its own gives an end to what another task polls in it: nobody dropped that with its step.
    pub(crate) fn close_strays(&self, reason: &str) {
        if self.is_run() {
            self.shared.close_strays(reason);
        }
    }

    /// Sees to it that everything recorded is kept; a run is then free for others, and its resources are closed.
    pub(crate) async fn keep(&self) -> Result<(), StoreError> {
        self.shared.log.commit().await?;
        if self.is_run()
            && let Err(error) = self.shared.log.release().await
        {
            // What happened is kept, and the end with it. A store that did not learn that its run is free finds out when
            // this process ends.
            tracing::warn!(run = %self.shared.id, %error, "a run that has ended could not be closed in its store");
        }
        if self.is_run() {
            self.shared.close_resources().await;
        }
        Ok(())
    }
}

impl<K> Drop for Segment<K> {
    fn drop(&mut self) {
        if self.base.is_root() {
            self.shared.close();
        }
    }
}

/// What is between the beginning and the end of a segment: an agent or a workflow.
pub(crate) trait InSegment {
    type Kind: SegmentKind;

    fn segment(&mut self) -> &mut Segment<Self::Kind>;

    /// The name of the agent or workflow.
    fn name(&self) -> &str;

    /// Takes in and records what happened to the segment itself.
    fn record_own(&mut self, kind: EventKind);

    /// Gives everything that has begun in it and not ended its end, since the run or the step is cancelled.
    fn close_steps_cancelled(&mut self, reason: &Arc<str>);

    /// Takes no control requests any more: those that wait for it are the run's to answer, which undoes what it had done.
    fn hand_back_requests(&mut self) {}

    /// Records that it ended well.
    fn record_completed(&mut self, completed: <Self::Kind as SegmentKind>::Completed) {
        let segment = self.segment();
        segment.open = false;
        let kind = match segment.is_run() {
            true => EventKind::RunCompleted(Arc::new(Self::Kind::run_completed(completed))),
            false => Self::Kind::completed(completed),
        };
        self.record_own(kind);
    }

    /// Records that it failed. The log of the program says so of a run.
    fn record_failed(&mut self, error: &Error) {
        let segment = self.segment();
        segment.open = false;
        let is_run = segment.is_run();
        if is_run {
            let shared = Arc::clone(&segment.shared);
            shared.log_failure(self.name(), error);
        }
        // The caller gets the same error after a restart.
        let error = Arc::new(if is_run { Failure::from(error) } else { Failure::with_data_of(error) });
        self.record_own(match is_run {
            true => EventKind::RunFailed { error },
            false => Self::Kind::failed(error),
        });
    }

    /// Records that it was cancelled, unless it has ended: what is open in it first.
    fn record_cancelled(&mut self, reason: &Arc<str>) {
        let segment = self.segment();
        if !segment.open {
            return;
        }
        segment.open = false;
        let is_run = segment.is_run();
        self.close_steps_cancelled(reason);
        let reason = Arc::clone(reason);
        let by = self.segment().shared.cancelled_by().cloned();
        self.record_own(match is_run {
            true => EventKind::RunCancelled { reason, by },
            false => Self::Kind::failed(Arc::new(Failure::from(&Error::Cancelled { reason }))),
        });
    }

    /// Its future is dropped: whatever is open in it has its end. Nothing of this is kept of a run with a store: it is
    /// unfinished there and can be resumed.
    fn dropped(&mut self) {
        let segment = self.segment();
        if !segment.open {
            return;
        }
        // Its run has ended, and has given an end to what another task polls.
        if !segment.is_run() && segment.shared.log.is_closed() {
            segment.open = false;
            return;
        }
        if segment.is_run() {
            segment.shared.cancel("the run's future was dropped");
        }
        let reason = match segment.shared.cancellation.is_cancelled() {
            true => segment.shared.cancel_reason(),
            false => why_dropped().into(),
        };
        self.record_cancelled(&reason);
    }
}

/// Whether the step of an agent or a workflow had dropped it, as `select!` does.
pub(crate) fn was_dropped(end: &Failure) -> bool {
    *end == Failure::from(&Error::Cancelled { reason: BY_STEP.into() })
}

/// Whether an agent or a workflow ended since what it is in had stopped: it was dropped with its step, as a time limit does,
/// or its worker had left it.
pub(crate) fn was_dropped_with_step(end: &Failure) -> bool {
    end.kind == FailureKind::Cancelled && !was_dropped(end)
}

/// The outcome of `work`; `None` when the run is cancelled before. What is in a step is not over then: its run drops it,
/// and records how it ended. When another task polls it, which nobody drops, it is over with the run.
pub(crate) async fn unless_cancelled<T>(
    shared: &RunShared,
    base: &StepPath,
    work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let ended = tokio::select! {
        biased;
        () = shared.cancelled() => None,
        outcome = work => Some(outcome),
    };
    if ended.is_none() && !base.is_root() {
        shared.log.until_closed().await;
    }
    ended
}

/// A step that fails while its run is cancelled may have failed for that, so it has no outcome of its own: this never
/// ends then, and the run drops the step.
pub(crate) async fn unless_failed_as_cancelled(shared: &RunShared, failed: bool) {
    if failed && shared.is_cancelled() {
        std::future::pending::<()>().await;
    }
}
