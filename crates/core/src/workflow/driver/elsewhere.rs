//! Executes one step of a run that another process owns: creates the step from a [`StepCall`],
//! polls it, sends its records to the run and follows the run's signals.
//!
//! Retries and all further decisions are up to the process that owns the run.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::Instrument;

use super::replay::find_unit;
use super::starting::{body_of, covered, question_of_call};
use super::task::{Ended, Step, Task};
use crate::context::Context;
use crate::error::{Error, Failure, FailureKind};
use crate::event::{EventKind, PauseReason};
use crate::executor::{RemoteRun, StepCall, StepEnd, StepRecorder, StepSignal};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::run::{Around, Asked, ControlRequest, Reply, RunShared, Seen};
use crate::state::SavedByStep;
use crate::store::{MessageId, StoreError};
use crate::telemetry;
use crate::tool::{CurrentStep, HiddenCalls, WrittenOrder};
use crate::workflow::callee::needs_of;
use crate::workflow::check_needed;
use crate::workflow::outputs::CopiedOutputs;
use crate::workflow::spec::{NodeIndex, Spec};

/// Time that a step stopped at the drain deadline waits for its run to store its last records.
const GRACE: Duration = Duration::from_secs(1);

/// Executes a step of another process and returns its end. All its records are stored by the run at
/// that time.
pub(crate) async fn execute(
    spec: &Arc<Spec>,
    call: &StepCall,
    run: RemoteRun,
    recorder: &dyn StepRecorder,
) -> StepEnd {
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

/// A step of a run that another process owns, while it is executed here.
struct FarStep {
    // Declared first, so that it is dropped first: its drop records the ends of open calls in the
    // run.
    task: Task,
    commit: Option<BoxFuture<'static, Result<(), StoreError>>>,
    control: mpsc::UnboundedReceiver<Asked>,
    path: StepPath,
    turn: Option<Arc<HiddenCalls>>,
    /// Set when a call starts or stops waiting for earlier steps.
    waits_changed: Arc<AtomicBool>,
    /// The message to the run about `waits_changed` that is being sent.
    telling: Option<BoxFuture<'static, Result<(), StoreError>>>,
    run: RemoteRun,
}

/// Reason why the step is no longer polled.
enum Over {
    Ended(Ended),
    /// The run no longer waits for the step, for this reason.
    Stopped(Arc<str>),
    /// The run could not store the records of the step.
    Unkept(StoreError),
    /// The step is draining and does not make progress, or the drain deadline of this runtime has
    /// passed.
    Left,
}

/// Creates the step without running any of its code.
fn begun(spec: &Arc<Spec>, call: &StepCall, run: RemoteRun) -> Result<FarStep, Error> {
    let by_path: HashMap<StepPath, NodeIndex> =
        (0..).zip(&spec.nodes).map(|(at, node)| (node.path.clone(), at)).collect();
    let at = |name: &String| by_path.get(&StepPath::from_names(name.as_str().into())).copied();
    let unknown = |name: &dyn std::fmt::Display| Error::Input {
        workflow: Arc::clone(&spec.name),
        problem: format!(
            "a step was handed out that names `{name}`, and the workflow has no such node"
        ),
    };
    let unit = find_unit(spec, &by_path, &call.path).ok_or_else(|| unknown(&call.path))?;
    let mut given = CopiedOutputs::default();
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
    // Registered at the root, so it receives the requests that no nested workflow takes.
    shared.listen(&StepPath::root(), sender);
    if let Some(state) = call.state.clone() {
        shared
            .states_or_new()
            .open(&call.path, Some(Seen::lazy(move || SavedByStep::clone(&state))));
    }
    if node.policy.tap {
        shared.states_or_new().open_read_only(&call.path);
    }
    // The run decides when earlier steps have ended, and sends a signal.
    let waits_changed = Arc::new(AtomicBool::new(false));
    let turn = node.has_turn().then(|| HiddenCalls::new(&waits_changed));
    if let Some(turn) = &turn {
        turn.open_for(call.turn);
    }
    let order = WrittenOrder { turn: turn.clone(), outer: None };
    let step = Around::with_depth(call.depth).sync_scope(|| {
        let cx = Context::new(Arc::clone(shared), call.path.clone(), resources)
            .granted(&call.grants.as_slice().into())
            .with_attempt(call.attempt, call.failed.saturating_add(1));
        let asked = question_of_call(node, shared, &call.path, &given);
        let (question, unasked) =
            asked.map_or_else(|error| (None, Some(error)), |question| (question, None));
        let covered = covered(node, question);
        let place =
            CurrentStep::of_step(cx.clone(), node.callee, call.attempt == 1, covered, order);
        Step::new(place, || match unasked {
            Some(error) => Err(error),
            None => body_of(node, unit, cx, call.item.as_ref(), &given),
        })
    });
    let step = step
        .with_limit(node.policy.timeout_duration(), node.called.as_ref())
        .with_tool_limits(node);
    let task = Task::step(unit, shared.now(), step, None);
    Ok(FarStep {
        task,
        commit: None,
        control,
        path: call.path.clone(),
        turn,
        waits_changed,
        telling: None,
        run,
    })
}

impl FarStep {
    async fn run(mut self, recorder: &dyn StepRecorder) -> StepEnd {
        let shared = Arc::clone(self.run.shared());
        let over = {
            let mut stopped = pin!(shared.cancellation.cancelled());
            let mut signal = recorder.signal();
            poll_fn(|cx| {
                // Signals that the run sent earlier take precedence over the step.
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
                // This runtime was draining, and its deadline has passed.
                if stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Over::Left);
                }
                match self.poll(&shared, cx) {
                    // The step may have failed because of the stop.
                    Poll::Ready(Over::Ended(ended))
                        if ended.is_failure() && shared.is_cancelled() =>
                    {
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
            Over::Ended(Ended::Step { result: Err(error), .. }) => {
                failed(Failure { value: None, ..error.failure })
            }
            Over::Ended(Ended::Uncommitted(error)) | Over::Unkept(error) => {
                return failed(Failure::from(&Error::Store(error)));
            }
            Over::Ended(Ended::Timer { .. }) => {
                failed(Failure::new(FailureKind::Value, "this node has no step"))
            }
            Over::Stopped(reason) => {
                shared.cancel(Arc::clone(&reason));
                return failed(Failure::from(&Error::Cancelled { reason }));
            }
            Over::Left => StepEnd::Left { parked: shared.parked() },
        };
        // Any write that has started is completed by the following one.
        self.commit = None;
        let kept = tokio::select! {
            biased;
            kept = self.keep(&shared) => kept,
            // The run may never answer, so a stop signal or the deadline ends the wait.
            reason = until_stopped(recorder) => return failed(Failure::from(&Error::Cancelled { reason })),
            () = past_the_deadline(&shared) => return StepEnd::Left { parked: Vec::new() },
        };
        match kept {
            Ok(()) => end,
            // The runtime stopped. Records that the run did not store count as never made.
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
                // A nested workflow may have started since the request arrived.
                ControlRequest::Answer { .. } | ControlRequest::Retry { .. } => {
                    shared.request_below(&StepPath::root(), asked);
                }
                _ => shared.log.reply(asked.reply, Ok(())),
            }
        }
        if let Poll::Ready(Err(error)) = self.tell_waits(cx) {
            return Poll::Ready(Over::Unkept(error));
        }
        // Records that the step makes while running, such as the outcome of a call, are committed
        // while it continues.
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
        // The step is not polled after this. An unfinished write would block the final commit.
        let is_kept =
            self.commit.is_none() && self.telling.is_none() && !shared.log.has_uncommitted();
        match shared.is_draining() && is_kept && shared.is_quiet_below(&self.path) {
            true => Poll::Ready(Over::Left),
            false => Poll::Pending,
        }
    }
}

impl FarStep {
    /// Reports to the run which calls wait for earlier steps, each time this changes.
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

    /// Completes the message that is being sent, since the run refuses later batches without it,
    /// and commits all records.
    async fn keep(&mut self, shared: &RunShared) -> Result<(), StoreError> {
        if let Some(telling) = self.telling.take() {
            telling.await?;
        }
        shared.log.commit().await
    }
}

/// Waits until the run stops waiting for the step, and returns the reason.
async fn until_stopped(recorder: &dyn StepRecorder) -> Arc<str> {
    loop {
        if let StepSignal::Stop { reason } = recorder.signal().await {
            return reason;
        }
    }
}

/// Waits for the drain deadline of this runtime, plus a grace period for messages on their way.
async fn past_the_deadline(shared: &RunShared) {
    shared.cancellation.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// Applies a signal from the run.
fn told(shared: &RunShared, said: StepSignal) {
    let asks = |request: u64, asked| {
        shared.request(Asked {
            request: asked,
            by: None,
            reply: Some(Reply::Message(MessageId(request))),
        });
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
        StepSignal::Answer { request, node, answer, by } => {
            asks(request, ControlRequest::answer(&node, answer, &by));
        }
        StepSignal::Retry { request, node, by } => {
            asks(request, ControlRequest::Retry { node, by });
        }
        // Handled by the caller.
        StepSignal::Stop { .. } | StepSignal::Turn { .. } => {}
    }
}
