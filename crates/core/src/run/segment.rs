//! Records the start and end of an agent or workflow, either as the run itself or as a step of a
//! run, including the outcome of a cancellation or a drop.
//!
//! The module is independent of agents and workflows. A [`SegmentKind`] defines their start and end
//! events, and an [`InSegment`] executes the work between them.

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

/// The start and end events of a kind of segment.
pub(crate) trait SegmentKind {
    /// Data of the start event.
    type Started;
    /// Data of the completion event.
    type Completed;

    /// Builds the body of `run.started`.
    fn body(started: Self::Started) -> RunBody;
    /// Builds the payload of `run.completed`.
    fn run_completed(completed: Self::Completed) -> RunCompleted;
    /// Builds the start event of a step.
    fn started(started: Self::Started) -> EventKind;
    /// Builds the completion event of a step.
    fn completed(completed: Self::Completed) -> EventKind;
    /// Builds the failure event of a step.
    fn failed(error: Arc<Failure>) -> EventKind;
}

/// An agent or a workflow in its run: the run itself, or a step of a run that records its events
/// below the path of the step.
///
/// Dropping the segment of a run closes the run. A struct that owns a segment therefore declares it
/// as its first field, so that it is dropped first.
pub(crate) struct Segment<K> {
    pub(crate) shared: Arc<RunShared>,
    /// Path of its events; the root if it is the run itself.
    pub(crate) base: StepPath,
    /// Path of the step that contains it; the root if it is the run itself.
    pub(crate) step: StepPath,
    /// `true` until its end is recorded or is known to be unnecessary.
    open: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K: SegmentKind> Segment<K> {
    /// Creates the segment of a run.
    pub(crate) fn new(shared: Arc<RunShared>) -> Self {
        Self::within(shared, StepPath::root(), StepPath::root())
    }

    /// Creates the segment of a step.
    pub(crate) fn within(shared: Arc<RunShared>, base: StepPath, step: StepPath) -> Self {
        Self { shared, base, step, open: true, kind: PhantomData }
    }

    /// Returns `true` if the segment is the run itself.
    pub(crate) fn is_run(&self) -> bool {
        self.base.is_root()
    }

    /// Returns the records of the segment from before the run was resumed.
    pub(crate) fn recorded(&self) -> Vec<(Timestamp, StepPath, EventKind)> {
        match self.shared.log.is_restored() {
            true => self.shared.log.records_below(&self.base),
            false => Vec::new(),
        }
    }

    /// Builds the start event.
    pub(crate) fn begins(&self, started: K::Started) -> EventKind {
        match self.is_run() {
            true => EventKind::RunStarted(Arc::new(self.shared.started(K::body(started)))),
            false => K::started(started),
        }
    }

    /// Returns `true` if the end is still to be recorded.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Marks the segment as ended without recording an end, because its end was recorded earlier or
    /// the log accepts no more records.
    pub(crate) fn settle(&mut self) {
        self.open = false;
    }

    /// Records an end for agents and workflows that another task still polls, if the segment is the
    /// run itself.
    pub(crate) fn close_strays(&self, reason: &str) {
        if self.is_run() {
            self.shared.close_strays(reason);
        }
    }

    /// Waits until all records are stored. For a run, also releases it in the store and closes its
    /// resources.
    pub(crate) async fn keep(&self) -> Result<(), StoreError> {
        self.shared.log.commit().await?;
        if self.is_run()
            && let Err(error) = self.shared.log.release().await
        {
            // The end of the run is already stored. A store that missed the release frees the run
            // when this process ends.
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

/// An agent or a workflow between the start and the end of its segment.
pub(crate) trait InSegment {
    type Kind: SegmentKind;

    fn segment(&mut self) -> &mut Segment<Self::Kind>;

    /// Returns the name of the agent or workflow.
    fn name(&self) -> &str;

    /// Records an event of the segment itself and applies it to the state.
    fn record_own(&mut self, kind: EventKind);

    /// Records an end for all open work in the segment, because the run or the step was cancelled.
    fn close_steps_cancelled(&mut self, reason: &Arc<str>);

    /// Stops accepting control requests. Waiting requests are passed to the run, which is about to
    /// compensate.
    fn hand_back_requests(&mut self) {}

    /// Records the completion.
    fn record_completed(&mut self, completed: <Self::Kind as SegmentKind>::Completed) {
        let segment = self.segment();
        segment.open = false;
        let kind = match segment.is_run() {
            true => EventKind::RunCompleted(Arc::new(Self::Kind::run_completed(completed))),
            false => Self::Kind::completed(completed),
        };
        self.record_own(kind);
    }

    /// Records the failure. The failure of a run is also logged.
    fn record_failed(&mut self, error: &Error) {
        let segment = self.segment();
        segment.open = false;
        let is_run = segment.is_run();
        if is_run {
            let shared = Arc::clone(&segment.shared);
            shared.log_failure(self.name(), error);
        }
        // The failure of a step keeps the data of the error, so that its caller receives the same
        // error after a restart.
        let error = Arc::new(if is_run {
            Failure::from(error)
        } else {
            Failure::from_error_with_data(error)
        });
        self.record_own(match is_run {
            true => EventKind::RunFailed { error },
            false => Self::Kind::failed(error),
        });
    }

    /// Records the cancellation, unless the end was recorded. First records an end for all open
    /// work in the segment.
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

    /// Records the cancellation of a segment whose future was dropped. A run with a store does not
    /// store these records: it stays unfinished there and can be resumed.
    fn dropped(&mut self) {
        let segment = self.segment();
        if !segment.open {
            return;
        }
        // The run has ended and has recorded an end for segments that another task polled.
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

/// Returns `true` if the step dropped the agent or workflow, as `select!` does.
pub(crate) fn was_dropped(end: &Failure) -> bool {
    *end == Failure::from(&Error::Cancelled { reason: BY_STEP.into() })
}

/// Returns `true` if the agent or workflow was cancelled because its surroundings stopped: its step
/// was dropped, for example by a time limit, or its worker was drained.
pub(crate) fn was_dropped_with_step(end: &Failure) -> bool {
    end.kind == FailureKind::Cancelled && !was_dropped(end)
}

/// Returns the outcome of `work`, or `None` if the run is cancelled first. Inside a step, the
/// future does not return `None` before the log is closed: the run drops the step and records its
/// end. If another task polls the step, which the run cannot drop, the future returns when the run
/// ends.
pub(crate) async fn unless_cancelled<T>(
    shared: &RunShared,
    base: &StepPath,
    work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let ended = tokio::select! {
        // Cancellation takes precedence over an outcome that is ready at the same time.
        biased;
        () = shared.cancelled() => None,
        outcome = work => Some(outcome),
    };
    if ended.is_none() && !base.is_root() {
        shared.log.until_closed().await;
    }
    ended
}

/// Suspends a step that failed while its run is being cancelled. The failure may be a consequence
/// of the cancellation, so the step must not record it as its outcome; the run drops the step.
pub(crate) async fn unless_failed_as_cancelled(shared: &RunShared, failed: bool) {
    if failed && shared.is_cancelled() {
        std::future::pending::<()>().await;
    }
}
