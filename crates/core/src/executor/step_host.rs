//! `StepHost`: the run's side of the connection to a step that is executed remotely.
//!
//! It writes the records of the step to the run's journal, refuses records that do not belong to
//! the step, and passes control requests to the step. It executes nothing and decides about no
//! retry.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task;

use async_trait::async_trait;
use futures_util::task::AtomicWaker;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    ExecutorError, ExecutorErrorKind, HiddenCalls, StepAnswer, StepBatch, StepDelivery,
    StepRecorder, StepSignal,
};
use crate::event::{Event, EventKind, ModelDelta, PauseReason, Subject};
use crate::path::StepPath;
use crate::run::{Asked, ControlRequest, OpenSteps, RunShared};
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// The run, as a [`StepExecutor`](super::StepExecutor) sees it. It stores the records of the step
/// and passes on control requests.
///
/// Cloning is cheap, and a clone may outlive the step. After the step has ended or was stopped, the
/// host refuses all records ([`ExecutorErrorKind::Ended`]) and signals [`StepSignal::Stop`].
#[derive(Clone)]
pub struct StepHost(Arc<Inner>);

struct Inner {
    run: Arc<RunShared>,
    path: StepPath,
    attempt: u32,
    /// Index of the first record of this attempt.
    since: usize,
    state: Mutex<HostState>,
    requests: Mutex<mpsc::UnboundedReceiver<Asked>>,
    ended: CancellationToken,
    /// Wakes the task that polls the step. Records that another task adds may stop the step's
    /// clock.
    waiting: AtomicWaker,
    /// Blocks the hidden calls of the step; `None` if its plan shows all calls.
    turn: Option<Arc<HiddenCalls>>,
}

#[derive(Default)]
struct HostState {
    /// The delivery that took the step, and the number of its next batch.
    taken: Option<Arc<str>>,
    batches: u64,
    /// Subjects below the step that the delivery started and has not ended.
    open: OpenSteps,
    /// The reason why the run no longer waits for the step.
    ended: Option<Arc<str>>,
    /// Requests that were passed to the step and have no outcome yet.
    asked: HashMap<u64, Asked>,
    next: u64,
    /// The strongest effect of hidden calls that the step was last allowed.
    told: Option<Effects>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostState {
    /// Returns `true` if a batch is new, and `false` if it was stored before.
    ///
    /// # Errors
    /// Fails if another delivery took the step, an earlier batch is missing, or the batch starts a
    /// subject that is already open.
    fn takes(
        &mut self,
        delivery: &StepDelivery,
        number: u64,
        events: &[Event],
    ) -> Result<bool, ExecutorError> {
        let StepDelivery { run, path, attempt, id } = delivery;
        if self.taken.as_ref().is_some_and(|taken| taken != id) {
            let message = format!(
                "attempt {attempt} at `{path}` of the run `{run}` is executed by another delivery of the same call; drop \
                 this one, and let the outcome of the other be the step's"
            );
            return Err(ExecutorError::new(ExecutorErrorKind::Taken, message));
        }
        // Stored before. The sender repeats a batch when it did not receive the confirmation.
        if number < self.batches {
            return Ok(false);
        }
        if number > self.batches {
            let message = format!(
                "batch {number} of attempt {attempt} at `{path}` of the run `{run}` came, and batch {} did not; give each \
                 batch when the one before it is kept",
                self.batches
            );
            return Err(ExecutorError::new(ExecutorErrorKind::Foreign, message));
        }
        // Works on a copy, so that a refused batch changes nothing.
        let mut open = self.open.clone();
        for event in events {
            if !open.begins(&event.path, &event.kind) {
                let message = format!(
                    "`{}` at `{}` of the run `{run}` begins what has begun already and has no end; send each event once",
                    event.name(),
                    event.path
                );
                return Err(ExecutorError::new(ExecutorErrorKind::Foreign, message));
            }
        }
        (self.open, self.batches) = (open, number + 1);
        self.taken.get_or_insert_with(|| Arc::clone(id));
        Ok(true)
    }
}

impl StepHost {
    /// Checks that a delivery belongs to this attempt.
    fn check_delivery(&self, delivery: &StepDelivery) -> Result<(), ExecutorError> {
        let Inner { run, path, attempt, .. } = &*self.0;
        if delivery.run == run.id && delivery.path == *path && delivery.attempt == *attempt {
            return Ok(());
        }
        let message = format!(
            "attempt {} at `{}` of the run `{}` was delivered, and this is the way to attempt {attempt} at `{path}` of the \
             run `{}`; send each batch to the attempt that it belongs to",
            delivery.attempt, delivery.path, delivery.run, run.id
        );
        Err(ExecutorError::new(ExecutorErrorKind::Foreign, message))
    }

    /// Polls for the next control request, including requests sent before the first poll.
    fn poll_signal(&self, cx: &mut task::Context<'_>) -> task::Poll<StepSignal> {
        let Inner { state, requests, .. } = &*self.0;
        let mut state = locked(state);
        if state.ended.is_some() {
            // `HandedOut::end` returns the requests that are still in the queue.
            return task::Poll::Pending;
        }
        // The state is locked while the request is received, so `end` finds it either in the queue
        // or in `asked`.
        let Some(asked) = task::ready!(locked(requests).poll_recv(cx)) else {
            // The channel is closed, so the step has ended. `signal` reports that with `Stop`.
            return task::Poll::Pending;
        };
        let request = state.next;
        let signal = match &asked.request {
            ControlRequest::Pause => StepSignal::Pause,
            ControlRequest::Unpause => StepSignal::Unpause,
            ControlRequest::Drain => StepSignal::Drain,
            // Cancellation reaches the step when its host ends.
            ControlRequest::Cancel { reason } => {
                StepSignal::Stop { reason: reason.as_str().into() }
            }
            ControlRequest::Answer { node, question, answer, by } => {
                let node = question
                    .as_ref()
                    .map_or_else(|| node.clone(), |question| format!("{node}@{question}"));
                StepSignal::Answer { request, node, answer: answer.clone(), by: by.clone() }
            }
            // Steps accept neither messages nor a close.
            ControlRequest::Message { .. } | ControlRequest::Close => return task::Poll::Pending,
            ControlRequest::Retry { node, by } => {
                StepSignal::Retry { request, node: node.clone(), by: by.clone() }
            }
        };
        // The step reports an outcome only for answers and retries.
        if asked.request.node().is_some() {
            state.next += 1;
            state.asked.insert(request, asked);
        }
        task::Poll::Ready(signal)
    }

    /// Waits until more calls may start in the step, and returns the signal that allows them.
    async fn next_turn(&self) -> StepSignal {
        let Some(turn) = &self.0.turn else { return std::future::pending().await };
        let known = locked(&self.0.state).told.unwrap_or(Effects::None);
        turn.wait_for_stronger(known).await;
        let effects = turn.opened_for();
        locked(&self.0.state).told = Some(effects);
        StepSignal::Turn { effects }
    }

    /// Returns an error if an event does not belong to the step.
    fn foreign(&self, Event { run_id, path, kind, .. }: &Event) -> Option<ExecutorError> {
        let Inner { run, path: step, .. } = &*self.0;
        let is_own = match kind.shape().subject {
            // The process that owns the run records the events of the step itself.
            Subject::Node | Subject::Approval => path != step,
            Subject::Run => match kind {
                EventKind::RunPaused { reason, .. } => *reason != PauseReason::Operator,
                EventKind::RunResumed { recovered, redefined, .. } => {
                    !recovered && redefined.is_none()
                }
                EventKind::RunStep { .. } => true,
                _ => false,
            },
            // An event of a newer release would prevent this release from resuming the run.
            Subject::Unknown => false,
            _ => !matches!(kind, EventKind::ModelDelta(_) | EventKind::StepProgress { .. }),
        };
        let is_here = *run_id == run.id && path.is_within(step);
        (!is_own || !is_here).then(|| {
            let message = format!(
                "`{}` at `{path}` of the run `{run_id}` is not an event of the step `{step}` of the run `{}`; send each \
                 batch to the run and the step that it belongs to",
                kind.name(),
                run.id
            );
            ExecutorError::new(ExecutorErrorKind::Foreign, message)
        })
    }

    /// Registers the task that polls the step, so that records of other tasks wake it.
    pub(crate) fn watch(&self, cx: &task::Context<'_>) {
        self.0.waiting.register(cx.waker());
    }
}

#[async_trait]
impl StepRecorder for StepHost {
    async fn record(&self, batch: StepBatch) -> Result<(), ExecutorError> {
        let StepBatch { delivery, number, events, answers, waits } = batch;
        let Inner { run, path: step, state, waiting, turn, .. } = &*self.0;
        self.check_delivery(&delivery)?;
        if let Some(error) = events.iter().find_map(|event| self.foreign(event)) {
            return Err(error);
        }
        {
            // The lock makes sure that only one delivery takes the step and that no record follows
            // the end of the step.
            let mut state = locked(state);
            if let Some(reason) = &state.ended {
                let message =
                    format!("the run `{}` no longer waits for the step `{step}`: {reason}", run.id);
                return Err(ExecutorError::new(ExecutorErrorKind::Ended, message));
            }
            if state.takes(&delivery, number, &events)? {
                let replies = answers.into_iter().filter_map(|StepAnswer { request, outcome }| {
                    let asked = state.asked.remove(&request)?;
                    asked.reply.map(|reply| (reply, outcome))
                });
                let replies: Vec<_> = replies.collect();
                let events = events.into_iter().map(|Event { path, kind, .. }| (path, kind));
                run.log.record_and_answer(run.now(), events, replies);
                if let (Some(turn), Some(effects)) = (turn, waits) {
                    turn.set_remote_waiting(effects);
                }
            }
        }
        // The new records may suspend or continue the time limit of the step.
        waiting.wake();
        // A repeated batch is committed too: the first call may have been dropped before its
        // commit.
        let kept = run.log.commit().await;
        kept.map_err(|error| ExecutorError::new(ExecutorErrorKind::Store, error.to_string()))
    }

    fn delta(&self, path: &StepPath, delta: ModelDelta) {
        let Inner { run, path: step, state, .. } = &*self.0;
        if path.is_within(step) && locked(state).ended.is_none() && run.log.wants_deltas() {
            run.log.delta(run.now(), path, EventKind::ModelDelta(delta));
        }
    }

    fn progress(&self, path: &StepPath, value: Encoded) {
        let Inner { run, path: step, state, .. } = &*self.0;
        if path.is_within(step) && locked(state).ended.is_none() && run.log.wants_deltas() {
            run.log.delta(run.now(), path, EventKind::StepProgress { value });
        }
    }

    async fn signal(&self) -> StepSignal {
        let stop = async {
            self.0.ended.cancelled().await;
            let reason = locked(&self.0.state).ended.clone();
            StepSignal::Stop { reason: reason.unwrap_or_else(|| "the step has ended".into()) }
        };
        tokio::select! {
            // A stop takes precedence over other signals.
            biased;
            stop = stop => stop,
            signal = std::future::poll_fn(|cx| self.poll_signal(cx)) => signal,
            turn = self.next_turn() => turn,
        }
    }
}

impl fmt::Debug for StepHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepHost")
            .field("run", &self.0.run.id)
            .field("path", &self.0.path)
            .finish_non_exhaustive()
    }
}

/// A step that is executed remotely. While it exists, the run waits for the step, and control
/// requests for paths below the step are passed to it. Dropping it closes all open subjects below
/// the step.
pub(crate) struct HandedOut(StepHost, CloseBelow);

/// Records an end event for each open subject below a step. Arguments: run, path of the step, index
/// of the attempt's first record, reason.
pub(crate) type CloseBelow = fn(&RunShared, &StepPath, usize, &str);

impl HandedOut {
    /// Creates the host of the step at `path`. `since` is the index of the attempt's first record
    /// in this process.
    pub(crate) fn new(
        run: &Arc<RunShared>,
        path: &StepPath,
        (attempt, since): (u32, usize),
        turn: Option<Arc<HiddenCalls>>,
        close_below: CloseBelow,
    ) -> Self {
        let (sender, requests) = mpsc::unbounded_channel();
        // The first signal reports a pause or drain that precedes the step.
        let first = sender.clone();
        run.listen(path, sender);
        if run.is_held() {
            let request =
                if run.is_draining() { ControlRequest::Drain } else { ControlRequest::Pause };
            // Cannot fail, because this function owns the receiver.
            let _ = first.send(Asked { request, by: None, reply: None });
        }
        let host = StepHost(Arc::new(Inner {
            run: Arc::clone(run),
            path: path.clone(),
            attempt,
            since,
            state: Mutex::default(),
            requests: Mutex::new(requests),
            ended: CancellationToken::new(),
            waiting: AtomicWaker::new(),
            turn,
        }));
        Self(host, close_below)
    }

    pub(crate) fn host(&self) -> &StepHost {
        &self.0
    }

    /// Returns the strongest effect that a hidden call may have when the step is sent out. The step
    /// learns of later changes through [`StepSignal::Turn`].
    pub(crate) fn begin_turn(&self) -> Effects {
        let Inner { turn, state, .. } = &*self.0.0;
        let effects = turn.as_ref().map_or(Effects::None, |turn| turn.opened_for());
        locked(state).told = Some(effects);
        effects
    }

    /// Returns `true` if a delivery took the step. Otherwise no part of this attempt has run.
    pub(crate) fn is_taken(&self) -> bool {
        locked(&self.0.0.state).taken.is_some()
    }

    /// Ends the wait of the run for the step. Later calls have no effect.
    pub(crate) fn end(&self, reason: &str) {
        let Inner { run, path, since, state, requests, ended, .. } = &*self.0.0;
        let mut asked: Vec<Asked> = {
            let mut state = locked(state);
            if state.ended.is_some() {
                return;
            }
            state.ended = Some(reason.into());
            state.asked.drain().map(|(_, asked)| asked).collect()
        };
        // No request is routed to the step after this. Requests in the queue are collected below.
        run.unlisten(path);
        ended.cancel();
        {
            let mut requests = locked(requests);
            requests.close();
            while let Ok(one) = requests.try_recv() {
                asked.push(one);
            }
        }
        (self.1)(run, path, *since, reason);
        // Requests that the step did not handle are sent to the run again.
        for asked in asked.into_iter().filter(|asked| asked.reply.is_some()) {
            run.request(asked);
        }
    }
}

impl Drop for HandedOut {
    fn drop(&mut self) {
        let run = &self.0.0.run;
        let reason = match run.cancellation.is_cancelled() {
            true => run.cancel_reason(),
            false => "the step was dropped".into(),
        };
        self.end(&reason);
    }
}
