//! `StepHost`: the run's end of the way to a step that is executed elsewhere. It takes records into the run's journal,
//! refuses what is not the step's, and hands on control requests. It executes nothing and decides on no retry.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task;

use async_trait::async_trait;
use futures_util::task::AtomicWaker;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    ExecutorError, ExecutorErrorKind, StepAnswer, StepBatch, StepDelivery, StepRecorder, StepSignal, StepTurn,
};
use crate::event::{Event, EventKind, ModelDelta, PauseReason, Subject};
use crate::path::StepPath;
use crate::run::{Asked, ControlRequest, OpenSteps, RunShared};
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// The run, as a [`StepExecutor`](super::StepExecutor) sees it: where what is recorded below the step is kept, and where
/// control requests come from.
///
/// Cloning is one reference count; a clone may outlive the step. Once the step has its outcome or was stopped, it refuses
/// all records ([`ExecutorErrorKind::Ended`]) and signals [`StepSignal::Stop`].
#[derive(Clone)]
pub struct StepHost(Arc<Inner>);

struct Inner {
    run: Arc<RunShared>,
    path: StepPath,
    attempt: u32,
    /// Where what this attempt records begins.
    since: usize,
    state: Mutex<State>,
    requests: Mutex<mpsc::UnboundedReceiver<Asked>>,
    ended: CancellationToken,
    /// Whoever polls the step: what another task records may stop its clock.
    waiting: AtomicWaker,
    /// The turn of the step, unless the plan shows all that it does.
    turn: Option<Arc<StepTurn>>,
}

#[derive(Default)]
struct State {
    /// The delivery that has the step, and the number of its next batch.
    taken: Option<Arc<str>>,
    batches: u64,
    /// What it has begun below the step and not ended.
    open: OpenSteps,
    /// Why the run no longer waits for the step.
    ended: Option<Arc<str>>,
    /// The requests that were handed on and have no outcome.
    asked: HashMap<u64, Asked>,
    next: u64,
    /// The strongest effect of calls that the step knows it may begin.
    told: Option<Effects>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Whether a batch is new; one that is here already is not taken twice.
    ///
    /// # Errors
    /// When another delivery has the step, a batch before this one is missing, or something in it is begun twice.
    fn takes(&mut self, delivery: &StepDelivery, number: u64, events: &[Event]) -> Result<bool, ExecutorError> {
        let StepDelivery { run, path, attempt, id } = delivery;
        if self.taken.as_ref().is_some_and(|taken| taken != id) {
            let message = format!(
                "attempt {attempt} at `{path}` of the run `{run}` is executed by another delivery of the same call; drop \
                 this one, and let the outcome of the other be the step's"
            );
            return Err(ExecutorError::new(ExecutorErrorKind::Taken, message));
        }
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
    /// Whether what a delivery gives belongs to this attempt.
    fn is_of_this(&self, delivery: &StepDelivery) -> Result<(), ExecutorError> {
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

    /// What the run says next; also what it said before anybody asked.
    fn poll_signal(&self, cx: &mut task::Context<'_>) -> task::Poll<StepSignal> {
        let Inner { state, requests, .. } = &*self.0;
        let mut state = locked(state);
        if state.ended.is_some() {
            // The end of the step returns the requests that are still in the queue.
            return task::Poll::Pending;
        }
        let Some(asked) = task::ready!(locked(requests).poll_recv(cx)) else {
            // The step has ended, which says it.
            return task::Poll::Pending;
        };
        let request = state.next;
        let signal = match &asked.request {
            ControlRequest::Pause => StepSignal::Pause,
            ControlRequest::Unpause => StepSignal::Unpause,
            ControlRequest::Drain => StepSignal::Drain,
            // It reaches the step by its end.
            ControlRequest::Cancel { reason } => StepSignal::Stop { reason: reason.as_str().into() },
            ControlRequest::Answer { node, question, answer, by } => {
                let node = question.as_ref().map_or_else(|| node.clone(), |question| format!("{node}@{question}"));
                StepSignal::Answer { request, node, answer: answer.clone(), by: by.clone() }
            }
            // No step takes them.
            ControlRequest::Message { .. } | ControlRequest::Close => return task::Poll::Pending,
            ControlRequest::Retry { node, by } => StepSignal::Retry { request, node: node.clone(), by: by.clone() },
        };
        if asked.request.node().is_some() {
            state.next += 1;
            state.asked.insert(request, asked);
        }
        task::Poll::Ready(signal)
    }

    /// Waits until further calls may begin in the step, and tells the step.
    async fn next_turn(&self) -> StepSignal {
        let Some(turn) = &self.0.turn else { return std::future::pending().await };
        let known = locked(&self.0.state).told.unwrap_or(Effects::None);
        turn.opened_beyond(known).await;
        let effects = turn.opened_for();
        locked(&self.0.state).told = Some(effects);
        StepSignal::Turn { effects }
    }

    /// Why an event is not one of the step; `None` when it is.
    fn foreign(&self, Event { run_id, path, kind, .. }: &Event) -> Option<ExecutorError> {
        let Inner { run, path: step, .. } = &*self.0;
        let is_own = match kind.shape().subject {
            // What becomes of the step itself is recorded where the run is.
            Subject::Node | Subject::Approval => path != step,
            Subject::Run => match kind {
                EventKind::RunPaused { reason, .. } => *reason != PauseReason::Operator,
                EventKind::RunResumed { recovered, redefined, .. } => !recovered && redefined.is_none(),
                EventKind::RunStep { .. } => true,
                _ => false,
            },
            // One of a newer release would keep this release from resuming the run.
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

    /// Polls what executes the step; what another task records polls it again.
    pub(crate) fn watch(&self, cx: &task::Context<'_>) {
        self.0.waiting.register(cx.waker());
    }
}

#[async_trait]
impl StepRecorder for StepHost {
    async fn record(&self, batch: StepBatch) -> Result<(), ExecutorError> {
        let StepBatch { delivery, number, events, answers, waits } = batch;
        let Inner { run, path: step, state, waiting, turn, .. } = &*self.0;
        self.is_of_this(&delivery)?;
        if let Some(error) = events.iter().find_map(|event| self.foreign(event)) {
            return Err(error);
        }
        {
            // Under the lock, so that one of several deliveries has the step, and nothing is recorded after its end.
            let mut state = locked(state);
            if let Some(reason) = &state.ended {
                let message = format!("the run `{}` no longer waits for the step `{step}`: {reason}", run.id);
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
                    turn.set_waited_for_elsewhere(effects);
                }
            }
        }
        waiting.wake();
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
            biased;
            stop = stop => stop,
            signal = std::future::poll_fn(|cx| self.poll_signal(cx)) => signal,
            turn = self.next_turn() => turn,
        }
    }
}

impl fmt::Debug for StepHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepHost").field("run", &self.0.run.id).field("path", &self.0.path).finish_non_exhaustive()
    }
}

/// A step that is handed out: as long as this lives, the run waits for it, and control requests for what is below it are
/// the step's. Dropped, it gives everything below the step its end.
pub(crate) struct HandedOut(StepHost, CloseBelow);

/// Gives what is open below a step, after so many records, its end, for a reason.
pub(crate) type CloseBelow = fn(&RunShared, &StepPath, usize, &str);

impl HandedOut {
    /// The step at a path; what it records follows the first `since` records of this life of the run.
    pub(crate) fn new(
        run: &Arc<RunShared>,
        path: &StepPath,
        (attempt, since): (u32, usize),
        turn: Option<Arc<StepTurn>>,
        close_below: CloseBelow,
    ) -> Self {
        let (sender, requests) = mpsc::unbounded_channel();
        // What an operator paused before this is the first that the step hears.
        let first = sender.clone();
        run.listen(path, sender);
        if run.is_held() {
            let request = if run.is_draining() { ControlRequest::Drain } else { ControlRequest::Pause };
            // The receiver is here.
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

    /// Returns the strongest effect that a call may have as the step is handed out. The step learns of later changes.
    pub(crate) fn begin_turn(&self) -> Effects {
        let Inner { turn, state, .. } = &*self.0.0;
        let effects = turn.as_ref().map_or(Effects::None, |turn| turn.opened_for());
        locked(state).told = Some(effects);
        effects
    }

    /// Whether a delivery has taken the step; if not, nothing of this attempt has run.
    pub(crate) fn is_taken(&self) -> bool {
        locked(&self.0.0.state).taken.is_some()
    }

    /// The run no longer waits for the step. Once.
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
        // What the step did not do is asked of the workflow around it.
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
