//! Executes one step of a run that another process has: makes the step of what the call says, polls it, hands on what it
//! records, and does what the run says meanwhile.
//!
//! It decides on no retry and on nothing that follows: the process that has the run does.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::Instrument;

use super::replay::unit_of;
use super::starting::{body_of, covered, question_of_call};
use super::task::{Ended, Step, Task};
use crate::context::Context;
use crate::error::{Error, Failure, FailureKind};
use crate::event::{EventKind, PauseReason};
use crate::executor::{FarRun, StepCall, StepEnd, StepRecorder, StepSignal};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::run::{Around, Asked, ControlRequest, Reply, RunShared, Seen};
use crate::state::SavedByStep;
use crate::store::{MessageId, StoreError};
use crate::telemetry;
use crate::tool::{StepPlace, StepTurn, WrittenOrder};
use crate::workflow::callee::needs_of;
use crate::workflow::check_needed;
use crate::workflow::outputs::GivenOutputs;
use crate::workflow::spec::{NodeIndex, Spec};

/// How long a step that was stopped at the deadline of a drain waits for its run to keep what it has recorded.
const GRACE: Duration = Duration::from_secs(1);

/// What became of a step that was executed here. Whatever it recorded is kept by its run then.
pub(crate) async fn execute(spec: &Arc<Spec>, call: &StepCall, run: FarRun, recorder: &dyn StepRecorder) -> StepEnd {
    match begun(spec, call, run) {
        Ok(step) => {
            let span = telemetry::workflow_span(&spec.name, step.run.shared());
            step.run(recorder).instrument(span).await
        }
        Err(error) => failed(Failure::from(&error)),
    }
}

fn failed(failure: Failure) -> StepEnd {
    StepEnd::Failed { failure }
}

/// A step of another process's run, with what it needs to be executed here.
struct FarStep {
    // Dropped before its run: what it has open records its end.
    task: Task,
    commit: Option<BoxFuture<'static, Result<(), StoreError>>>,
    control: mpsc::UnboundedReceiver<Asked>,
    path: StepPath,
    turn: Option<Arc<StepTurn>>,
    /// A call has begun to wait for its turn, or waits no more.
    waits_changed: Arc<AtomicBool>,
    /// A batch that tells this to the run.
    telling: Option<BoxFuture<'static, Result<(), StoreError>>>,
    run: FarRun,
}

/// Why the step is polled no more.
enum Over {
    Ended(Ended),
    /// Its run no longer waits for it, for this reason.
    Stopped(Arc<str>),
    /// Its run does not keep what it records.
    Unkept(StoreError),
    /// Nothing in it is running any more, and it begins nothing new; or this runtime's time is over.
    Left,
}

/// Makes the step. None of its code has run.
fn begun(spec: &Arc<Spec>, call: &StepCall, run: FarRun) -> Result<FarStep, Error> {
    let by_path: HashMap<StepPath, NodeIndex> =
        (0..).zip(&spec.nodes).map(|(at, node)| (node.path.clone(), at)).collect();
    let at = |name: &String| by_path.get(&StepPath::of_names(name.as_str().into())).copied();
    let unknown = |name: &dyn std::fmt::Display| Error::Input {
        workflow: Arc::clone(&spec.name),
        problem: format!("a step was handed out that names `{name}`, and the workflow has no such node"),
    };
    let unit = unit_of(spec, &by_path, &call.path).ok_or_else(|| unknown(&call.path))?;
    let mut given = GivenOutputs::default();
    for (name, output) in &call.inputs {
        given.outputs.insert(at(name).ok_or_else(|| unknown(name))?, output.clone());
    }
    for (name, failure) in &call.failures {
        given.failures.insert(at(name).ok_or_else(|| unknown(name))?, failure.clone());
    }
    let shared = run.shared();
    let (node, resources) = (spec.node(unit.node), shared.resources());
    let needs = needs_of(std::slice::from_ref(node));
    check_needed(&spec.name, shared, &needs)?;
    let (sender, control) = mpsc::unbounded_channel();
    // Requests that no workflow below the step takes.
    shared.listen(&StepPath::root(), sender);
    if let Some(state) = call.state.clone() {
        shared.states_or_new().open(&call.path, Some(Seen::of(move || SavedByStep::clone(&state))));
    }
    if node.policy.tap {
        shared.states_or_new().open_tap(&call.path);
    }
    let waits_changed = Arc::new(AtomicBool::new(false));
    let turn = node.has_turn().then(|| StepTurn::new(&waits_changed));
    if let Some(turn) = &turn {
        turn.open_for(call.turn);
    }
    let order = WrittenOrder { turn: turn.clone(), outer: None };
    let step = Around::of_depth(call.depth).sync_scope(|| {
        let cx = Context::new(Arc::clone(shared), call.path.clone(), resources)
            .granted(&call.grants.as_slice().into())
            .with_attempt(call.attempt, call.failed.saturating_add(1));
        let asked = question_of_call(node, shared, &call.path, &given);
        let (question, unasked) = asked.map_or_else(|error| (None, Some(error)), |question| (question, None));
        let covered = covered(node, question);
        let place = StepPlace::of_step(cx.clone(), node.callee, call.attempt == 1, covered, order);
        Step::new(place, || match unasked {
            Some(error) => Err(error),
            None => body_of(node, unit, cx, call.item.as_ref(), &given),
        })
    });
    let step = step.with_limit(node.policy.timeout_of(), node.called.as_ref()).at_its_turn(node);
    let task = Task::step(unit, shared.now(), step, None);
    Ok(FarStep { task, commit: None, control, path: call.path.clone(), turn, waits_changed, telling: None, run })
}

impl FarStep {
    async fn run(mut self, recorder: &dyn StepRecorder) -> StepEnd {
        let shared = Arc::clone(self.run.shared());
        let over = {
            let mut stopped = pin!(shared.cancellation.cancelled());
            let mut signal = recorder.signal();
            poll_fn(|cx| {
                // What the run said before counts first.
                while let Poll::Ready(said) = signal.as_mut().poll(cx) {
                    if let StepSignal::Stop { reason } = said {
                        return Poll::Ready(Over::Stopped(reason));
                    }
                    match (said, &self.turn) {
                        (StepSignal::Turn { effects }, Some(turn)) => turn.open_for(effects),
                        (said, _) => told(&shared, said),
                    }
                    signal = recorder.signal();
                }
                // This runtime was drained, and its deadline is over.
                if stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Over::Left);
                }
                match self.poll(&shared, cx) {
                    // It may have failed for that.
                    Poll::Ready(Over::Ended(ended)) if ended.is_failure() && shared.is_cancelled() => {
                        Poll::Ready(Over::Left)
                    }
                    over => over,
                }
            })
            .await
        };
        let end = match over {
            Over::Ended(Ended::Step { result: Ok(output), .. }) => {
                let saved = shared.states().and_then(|mut states| states.take(&self.path));
                StepEnd::Completed { output, saved }
            }
            Over::Ended(Ended::Step { result: Err(error), .. }) => failed(Failure { value: None, ..error.failure }),
            Over::Ended(Ended::Uncommitted(error)) | Over::Unkept(error) => {
                return failed(Failure::from(&Error::Store(error)));
            }
            Over::Ended(Ended::Timer { .. }) => failed(Failure::new(FailureKind::Value, "this node has no step")),
            Over::Stopped(reason) => {
                shared.cancel(Arc::clone(&reason));
                return failed(Failure::from(&Error::Cancelled { reason }));
            }
            Over::Left => StepEnd::Left { parked: shared.parked() },
        };
        // A write that has begun is finished by this one.
        self.commit = None;
        let kept = tokio::select! {
            biased;
            kept = self.keep(&shared) => kept,
            // Its run may never answer.
            reason = until_stopped(recorder) => return failed(Failure::from(&Error::Cancelled { reason })),
            () = past_the_deadline(&shared) => return StepEnd::Left { parked: Vec::new() },
        };
        match kept {
            Ok(()) => end,
            // It was stopped here: what its run does not know yet never happened.
            Err(_) if shared.is_stopping() => StepEnd::Left { parked: Vec::new() },
            Err(error) => failed(Failure::from(&Error::Store(error))),
        }
    }

    fn poll(&mut self, shared: &Arc<RunShared>, cx: &mut TaskContext<'_>) -> Poll<Over> {
        if let Poll::Ready(ended) = Pin::new(&mut self.task).poll(cx) {
            return Poll::Ready(Over::Ended(ended));
        }
        while let Poll::Ready(Some(asked)) = self.control.poll_recv(cx) {
            match asked.request {
                // A workflow below the step may have begun since the request arrived.
                ControlRequest::Answer { .. } | ControlRequest::Retry { .. } => {
                    shared.request_below(&StepPath::root(), asked);
                }
                _ => shared.log.reply(asked.reply, Ok(())),
            }
        }
        if let Poll::Ready(Err(error)) = self.tell_waits(cx) {
            return Poll::Ready(Over::Unkept(error));
        }
        // What the step has recorded by itself, such as the outcome of a call, is kept while it continues.
        loop {
            if self.commit.is_none() && shared.log.has_uncommitted() {
                let shared = Arc::clone(shared);
                self.commit = Some(Box::pin(async move { shared.log.commit().await }));
            }
            let Some(commit) = &mut self.commit else { break };
            match commit.as_mut().poll(cx) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Over::Unkept(error)),
                Poll::Ready(Ok(())) => self.commit = None,
            }
        }
        // Nobody polls it after that: a write that it has begun would hold up the last one.
        let is_kept = self.commit.is_none() && self.telling.is_none() && !shared.log.has_uncommitted();
        match shared.is_draining() && is_kept && shared.is_quiet_below(&self.path) {
            true => Poll::Ready(Over::Left),
            false => Poll::Pending,
        }
    }
}

impl FarStep {
    /// Tells the run which calls wait for the steps above, each time that has changed.
    fn tell_waits(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), StoreError>> {
        loop {
            if self.telling.is_none()
                && let Some(turn) = &self.turn
                && self.waits_changed.swap(false, Ordering::Relaxed)
            {
                self.telling = Some(self.run.tell_waits(turn.waited_for()));
            }
            let Some(telling) = &mut self.telling else { return Poll::Ready(Ok(())) };
            let told = std::task::ready!(telling.as_mut().poll(cx));
            self.telling = None;
            told?;
        }
    }

    /// Completes a batch that is on its way, since the next one is refused without it, and keeps all records.
    async fn keep(&mut self, shared: &RunShared) -> Result<(), StoreError> {
        if let Some(telling) = self.telling.take() {
            telling.await?;
        }
        shared.log.commit().await
    }
}

/// Waits until the run says that it no longer waits for the step, and why. The step does nothing else any more.
async fn until_stopped(recorder: &dyn StepRecorder) -> Arc<str> {
    loop {
        if let StepSignal::Stop { reason } = recorder.signal().await {
            return reason;
        }
    }
}

/// Waits until this runtime was drained, its deadline is over, and what was on its way has had its time.
async fn past_the_deadline(shared: &RunShared) {
    shared.cancellation.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// Does what the run says to its step.
fn told(shared: &RunShared, said: StepSignal) {
    let asks = |request: u64, asked| {
        shared.request(Asked { request: asked, by: None, reply: Some(Reply::Message(MessageId(request))) });
    };
    match said {
        StepSignal::Pause => {
            shared.record(StepPath::root(), EventKind::paused(PauseReason::Operator));
            shared.hold(true);
        }
        StepSignal::Unpause => {
            shared.record(StepPath::root(), EventKind::resumed());
            shared.hold(false);
        }
        StepSignal::Drain => shared.drain(),
        StepSignal::Answer { request, node, answer, by } => asks(request, ControlRequest::answer(&node, answer, &by)),
        StepSignal::Retry { request, node, by } => asks(request, ControlRequest::Retry { node, by }),
        // These are processed before.
        StepSignal::Stop { .. } | StepSignal::Turn { .. } => {}
    }
}
