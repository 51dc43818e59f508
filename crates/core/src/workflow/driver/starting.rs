//! Starts attempts at steps: in this process, or through the executor of the runtime. `task.rs`
//! polls them.

use std::sync::Arc;

use super::WorkflowRun;
use super::task::{Step, Task};
use crate::context::Context;
use crate::error::FailureKind;
use crate::event::EventKind;
use crate::path::StepPath;
use crate::run::RunShared;
use crate::tool::{
    CurrentStep, NodeGuarantees, NodeQuestion, ToolDefinition, call_has_events, pending_questions,
    undecided_failure, undecided_writes,
};
use crate::value::Encoded;
use crate::workflow::decided::RevisedOutputs;
use crate::workflow::machine::Unit;
use crate::workflow::outputs::OutputsWithState;
use crate::workflow::spec::{Body, NodeIndex, Outputs, PlanNode, StepFuture};
use crate::workflow::step_error::StepError;

impl WorkflowRun {
    /// Records the start of an attempt and adds its task.
    pub(super) fn start(&mut self, unit: Unit, attempt: u32, scope: u32) {
        let node = self.machine.spec().node(unit.node);
        let (path, began) = (self.path(unit), self.segment.shared.now());
        // A call that waits for a person has not executed anything since, so its effect is not in
        // doubt.
        let waits = attempt > 1 && pending_questions(&self.segment.shared, &path).is_some();
        let repeatable = node.policy.repeatable.unwrap_or(true) || waits;
        let since = if self.executor.is_some() { self.segment.shared.log.position() } else { 0 };
        let tool = self.unrecorded_tool(node, waits).map(|tool| Arc::clone(&tool.name));
        self.record_at(
            unit,
            path.clone(),
            began,
            EventKind::NodeStarted { attempt, repeatable, tool },
        );
        let node = self.machine.spec().node(unit.node);
        let cx = Context::new(Arc::clone(&self.segment.shared), path, self.resources.clone())
            .granted(&self.grants)
            .with_attempt(attempt, scope);
        self.open_state(unit, cx.path());
        if node.policy.tap {
            self.segment.shared.states_or_new().open_read_only(cx.path());
        }
        cx.begin_attempt();
        // An earlier attempt may have recorded calls. For a step that is handed out, the executing
        // process checks them.
        let fresh = attempt == 1 || self.executor.is_some();
        let order = self.turns.begin(unit, node);
        let turn = order.turn.clone();
        let asked = question_of_call(node, &self.segment.shared, cx.path(), &self.machine);
        let (question, unasked) =
            asked.map_or_else(|error| (None, Some(error)), |question| (question, None));
        let place =
            CurrentStep::of_step(cx.clone(), node.callee, fresh, covered(node, question), order);
        // Calls that an earlier attempt left in the middle must be decided on before the step runs
        // again.
        let may_have_stopped = || self.executor.is_some() || cx.run().may_have_stopped(cx.path());
        let undecided = match attempt > 1 && may_have_stopped() {
            false => None,
            true => {
                undecided_failure(&undecided_writes(cx.run(), cx.path(), node.called.is_some()))
            }
        };
        let forbidden = self.check_allowed(unit.node).err();
        let unable = forbidden.or(unasked).or_else(|| undecided.map(StepError::recorded));
        let step = match (unable, &self.executor) {
            (Some(error), _) => Step::new(place, || Err(error)),
            (None, None) => Step::new(place, || {
                body_of(node, unit, cx, self.machine.item(unit).as_ref(), &self.machine)
            }),
            (None, Some(executor)) => {
                Step::new(place, || Ok(self.hand_out(executor, unit, &cx, (since, turn))))
            }
        };
        let step = step.with_limit(node.policy.timeout_duration(), node.called.as_ref());
        // For a step that is handed out, the executing process applies the tool's concurrency
        // limit.
        let step = if self.executor.is_none() { step.with_tool_limits(node) } else { step };
        let durable =
            self.segment.shared.log.is_durable().then(|| Arc::clone(&self.segment.shared));
        self.tasks.push(Task::step(unit, began, step, durable));
    }

    /// Checks that the caller of the run may run a node.
    ///
    /// # Errors
    /// If neither the roles nor the name of the caller are allowed.
    pub(super) fn check_allowed(&self, node: NodeIndex) -> Result<(), StepError> {
        let caller = self.segment.shared.own().and_then(|own| own.began.caller());
        if self.machine.spec().node(node).policy.allows(caller) {
            return Ok(());
        }
        let caller = match caller {
            Some(caller) => format!("the caller `{caller}`"),
            None => "a run without a caller".to_owned(),
        };
        let message = format!(
            "{caller} may not run `{}`, which is for its `allowed_roles` and `allowed_users` only",
            self.path(Unit::node(node))
        );
        Err(StepError::new(FailureKind::Unauthorized, message))
    }

    /// Returns the tool whose call the node consists of, if the call itself does not record events.
    /// A call that `waits` at the node's path since an earlier process is continued there.
    fn unrecorded_tool<'n>(
        &self,
        node: &'n PlanNode,
        waits: bool,
    ) -> Option<&'n Arc<ToolDefinition>> {
        let tool = node.called.as_ref()?;
        (waits || !call_has_events(&self.segment.shared.host, tool)).then_some(tool)
    }
}

/// Fills in the text of the question that the call of a node asks.
///
/// # Errors
/// If a value in the text is missing.
pub(super) fn question_of_call(
    node: &PlanNode,
    shared: &RunShared,
    path: &StepPath,
    outputs: &dyn Outputs,
) -> Result<Option<Arc<NodeQuestion>>, StepError> {
    let (Some(question), Some(text)) = (&node.question, &node.question_text) else {
        return Ok(node.question.clone());
    };
    let state = shared.states().map(|states| states.seen_by(path)).unwrap_or_default();
    let text = text(&OutputsWithState { outputs, state })?;
    Ok(Some(Arc::new(NodeQuestion { text: Some(text.into()), ..NodeQuestion::clone(question) })))
}

/// Returns the approvals and limits of the node that apply to calls in its step.
pub(super) fn covered(node: &PlanNode, question: Option<Arc<NodeQuestion>>) -> NodeGuarantees {
    // The question of a node with items or rounds does not show the arguments of their calls.
    let approved = node.asks_first() && matches!(node.body, Body::Step(_));
    let is_round = matches!(node.body, Body::Repeat { .. });
    NodeGuarantees {
        approved,
        once: !node.policy.repeatable.unwrap_or(true),
        question,
        is_round,
        time_limit: node.policy.timeout_duration(),
    }
}

/// Creates the step of a node, item, round or branch without running any of its code.
pub(super) fn body_of(
    node: &PlanNode,
    unit: Unit,
    cx: Context,
    item: Option<&Encoded>,
    outputs: &dyn Outputs,
) -> Result<StepFuture, StepError> {
    let seen = node.decided.is_some().then(|| RevisedOutputs::by(node.decided.as_ref(), outputs));
    let outputs: &dyn Outputs = seen.as_ref().map_or(outputs, |seen| seen);
    match (&node.body, unit.child) {
        (Body::Step(step), None) => step(cx, outputs),
        (Body::Race(branches) | Body::Fallback(branches), Some(child)) => {
            (branches[child as usize].step)(cx, outputs)
        }
        (Body::Map { step, .. } | Body::Repeat { step, .. }, Some(_)) => match item {
            Some(item) => step(cx, item, outputs),
            None => Err(StepError::new(FailureKind::Value, "the list has no item of this number")),
        },
        _ => Err(StepError::new(FailureKind::Value, "this node has no step")),
    }
}
