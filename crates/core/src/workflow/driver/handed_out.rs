//! Hands a step to the [`StepExecutor`] of the runtime: collects the data that the step needs from
//! the run, and turns the executor's answer into the outcome of the step. `elsewhere.rs` is the
//! other side.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentflow_schema::text::panic_text;
use futures_util::FutureExt;

use super::WorkflowRun;
use super::lost_step::{DispatchedStep, close_below};
use crate::context::Context;
use crate::executor::{
    ExecutorError, ExecutorErrorKind, HandedOut, StepCall, StepEnd, StepExecutor, StepOutcome,
};
use crate::tool::{Effects, HiddenCalls};
use crate::workflow::machine::Unit;
use crate::workflow::spec::{NodeIndex, OrderReason, Outputs, StepFuture};
use crate::workflow::step_error::StepError;

impl WorkflowRun {
    /// Returns the future of a step that the executor executes. `since` is the number of records of
    /// the run before this attempt. Control requests for paths below the step go to the step from
    /// now on.
    pub(super) fn hand_out(
        &self,
        executor: &Arc<dyn StepExecutor>,
        unit: Unit,
        cx: &Context,
        (since, turn): (usize, Option<Arc<HiddenCalls>>),
    ) -> StepFuture {
        let handed = HandedOut::new(
            &self.segment.shared,
            cx.path(),
            (cx.attempt(), since),
            turn,
            close_below,
        );
        let mut step = DispatchedStep {
            spec: Arc::clone(self.machine.spec()),
            unit,
            shared: Arc::clone(&self.segment.shared),
            call: self.call_of(unit, cx, since),
            since,
        };
        let executor = Arc::clone(executor);
        Box::pin(async move {
            step.call.turn = handed.begin_turn();
            let outcome = executed(&*executor, &step.call, &handed).await;
            let lost = match outcome.and_then(|outcome| checked(&step.call, outcome)) {
                Ok(StepEnd::Completed { output, saved }) => match step.fits(&output) {
                    Ok(()) => {
                        handed.end("the step has ended");
                        if let Some(saved) = saved {
                            step.shared.states_or_new().apply(&step.call.path, &saved, 0);
                        }
                        return Ok(output);
                    }
                    Err(error) => error,
                },
                Ok(StepEnd::Failed { failure }) => {
                    handed.end("the step has ended");
                    return Err(StepError::recorded(failure));
                }
                Ok(StepEnd::Left { parked }) if step.shared.is_draining() => {
                    match step.shared.park_detached(parked).await {}
                }
                Ok(StepEnd::Left { .. }) => {
                    handed.end("what executed the step was drained");
                    return step.left();
                }
                Ok(StepEnd::Refused { error }) => {
                    let message = format!(
                        "the outcome of a delivery came back that had executed nothing: {error}"
                    );
                    ExecutorError::new(error.kind(), message)
                }
                Err(error) => error,
            };
            // Late deliveries of the call must be refused from now on.
            handed.end("the executor of the step lost it");
            step.lost(&lost, handed.is_taken())
        })
    }

    /// Collects the data that another process needs to execute the step.
    fn call_of(&self, unit: Unit, cx: &Context, since: usize) -> StepCall {
        let spec = self.machine.spec();
        let node = spec.node(unit.node);
        let name = |node: NodeIndex| spec.node(node).path.names().to_owned();
        let optional = node
            .after
            .iter()
            .filter(|after| after.why == OrderReason::Optional)
            .map(|after| after.node);
        // A step that decides on another one sees all predecessors. The step it decides on sees the
        // decision.
        let seen = node.predecessors().filter(|_| node.decides.is_some());
        let decided = node.decided.as_ref().map(|decided| decided.by);
        let read = node.reads.iter().copied().chain(optional).chain(seen).chain(decided);
        let inputs = read.filter_map(|node| Some((name(node), self.machine.output(node)?.clone())));
        let failed = node
            .predecessors()
            .filter_map(|node| Some((name(node), self.machine.failure(node)?.clone())));
        let shared = &self.segment.shared;
        // The first attempt has no earlier records, so a long journal need not be searched.
        let state = shared
            .states()
            .map(|states| states.seen_by(cx.path()))
            .filter(|state| !state.is_empty());
        let is_first = cx.attempt() == 1 && cx.failed_attempts() == 0 && !shared.log.is_restored();
        StepCall {
            version: StepCall::VERSION,
            run: shared.id.clone(),
            workflow: Arc::clone(&spec.name),
            definition: Arc::clone(spec.hash()),
            parts: Arc::clone(&spec.parts().id),
            documents: spec.documents(),
            path: cx.path().clone(),
            attempt: cx.attempt(),
            failed: cx.failed_attempts(),
            inputs: inputs.collect(),
            failures: failed.collect::<BTreeMap<_, _>>(),
            item: self.machine.item(unit),
            grants: cx.grants().to_vec(),
            caller: cx.caller().map(|caller| Arc::clone(caller.shared_name())),
            caller_claims: cx.caller().map(|caller| caller.claims().clone()).unwrap_or_default(),
            trace_id: cx.trace_id().map(Into::into),
            tags: cx.tags().clone(),
            durable: shared.log.is_durable(),
            compensate: shared.log.compensates(),
            deltas: shared.host.redactor.is_none(),
            at: shared.now(),
            depth: cx.depth(),
            max_llm_calls: shared.max_llm_calls.load(Ordering::Relaxed),
            max_event_bytes: shared.log.store().and_then(|(store, _)| store.max_event_bytes()),
            spent: shared.log.spent(|ledger| ledger.rows().to_vec()),
            state: state.map(Arc::new),
            // Set when the step starts, since earlier steps may have ended by then.
            turn: Effects::None,
            records: shared.log.records_for(cx.path(), if is_first { since } else { 0 }),
        }
    }
}

/// Calls the executor. Also polls the step's record watcher, since a record made by another task
/// may stop the clock of the step.
async fn executed(
    executor: &dyn StepExecutor,
    call: &StepCall,
    handed: &HandedOut,
) -> Result<StepOutcome, ExecutorError> {
    // The executor may panic before it returns a future.
    let executed = async { executor.execute(call.clone(), handed.host().clone()).await };
    let mut executed = std::pin::pin!(AssertUnwindSafe(executed).catch_unwind());
    let ended = std::future::poll_fn(|cx| {
        handed.host().watch(cx);
        executed.as_mut().poll(cx)
    });
    ended.await.unwrap_or_else(|panic| {
        Err(ExecutorError::lost(format!(
            "the executor of the step panicked: {}",
            panic_text(&*panic)
        )))
    })
}

/// Checks that the outcome belongs to the attempt that was handed out.
fn checked(call: &StepCall, outcome: StepOutcome) -> Result<StepEnd, ExecutorError> {
    let StepOutcome { run, path, attempt, end } = outcome;
    if run == call.run && path == call.path && attempt == call.attempt {
        return match end {
            StepEnd::Left { parked } if !parked.iter().all(|base| base.is_within(&call.path)) => {
                Err(foreign(call, "paths outside of the step"))
            }
            end => Ok(end),
        };
    }
    Err(foreign(call, &format!("the outcome of attempt {attempt} at `{path}` of the run `{run}`")))
}

fn foreign(call: &StepCall, what: &str) -> ExecutorError {
    let StepCall { run, path, attempt, .. } = call;
    let message = format!(
        "attempt {attempt} at `{path}` of the run `{run}` was handed out, and {what} came back"
    );
    ExecutorError::new(ExecutorErrorKind::Foreign, message)
}
