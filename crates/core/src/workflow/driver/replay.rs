//! Resumes a workflow from its journal: applies the recorded events to the machine without running
//! steps.

use std::collections::HashMap;
use std::sync::Arc;

use super::WorkflowRun;
use crate::context::Context;
use crate::error::FailureKind;
use crate::event::{EventKind, RunTerms, Subject};
use crate::path::StepPath;
use crate::run::{outermost, writes};
use crate::time::Timestamp;
use crate::tool::answer_with_replacement;
use crate::workflow::machine::Unit;
use crate::workflow::spec::{Body, NodeIndex, Spec};

impl WorkflowRun {
    /// Applies recorded events, handles interrupted steps and restarts timers.
    pub(super) fn replay(&mut self, recorded: &[(Timestamp, StepPath, EventKind)]) {
        let spec = Arc::clone(self.machine.spec());
        let nodes: HashMap<StepPath, NodeIndex> =
            (0..).zip(&spec.nodes).map(|(at, _)| (self.path(Unit::node(at)), at)).collect();
        for (time, path, kind) in recorded {
            if *path == self.segment.base {
                self.machine.apply_run(kind);
                match kind {
                    // The next attempt at a body continues it.
                    EventKind::WorkflowStarted(_) => self.ended = None,
                    EventKind::WorkflowCompleted(completed) => {
                        self.ended = Some(Ok(completed.output.clone()));
                    }
                    EventKind::WorkflowFailed { error } => {
                        self.ended = Some(Err(Arc::clone(error)));
                    }
                    _ => {}
                }
            } else if matches!(
                kind.shape().subject,
                Subject::Node | Subject::Approval | Subject::Tool
            ) && let Some(unit) = find_unit(&spec, &nodes, path)
            {
                self.machine.apply(unit, kind, *time);
            }
        }
        self.machine.recover();
        for (unit, since) in self.machine.pending_times() {
            self.set_timer(unit, since);
            if let Some(asked) = self.machine.asked(unit.node).filter(|_| unit.child.is_none()) {
                answer_with_replacement(&self.segment.shared, &self.path(unit), &asked.question);
            }
        }
    }
}

impl WorkflowRun {
    /// Continues a body or nested workflow that failed: failed nodes and open questions are reset.
    /// If an operator has decided to run the step again (`decided`), nodes that were stopped in the
    /// middle are reset, too.
    pub(super) fn continue_failed(&mut self, decided: bool) {
        self.ended = None;
        let names = self.machine.spec().input_names();
        let inputs = self.machine.inputs();
        let inputs = crate::workflow::input_object::to_object(&names, &inputs);
        self.record_started(inputs, RunTerms::default());
        for node in self.machine.nodes_to_reset() {
            self.record(
                Unit::node(node),
                EventKind::NodeReset { by: EventKind::FURTHER_ATTEMPT.into() },
            );
        }
        let undecided = if decided { self.machine.undecided() } else { Vec::new() };
        for node in undecided {
            self.record(
                Unit::node(node),
                EventKind::NodeReset { by: EventKind::FURTHER_ATTEMPT.into() },
            );
        }
        let (sender, control) = tokio::sync::mpsc::unbounded_channel();
        self.control = control;
        self.listen(sender);
    }
}

/// Returns `true` if an operator was asked about this step or an enclosing one, and let it run
/// again. A step that failed in a different way, or was retried by its policy, carries no decision
/// about the calls that were stopped in it.
pub(super) fn has_operator_decision(cx: &Context) -> bool {
    let recorded = cx.run().log.all_below(&StepPath::root());
    let mut around = recorded.iter().rev().filter(|(_, path, _)| cx.path().belongs_to(path));
    let reset = around.find_map(|(_, path, kind)| match kind {
        EventKind::NodeReset { by } => (**by != *EventKind::FURTHER_ATTEMPT).then_some(Some(path)),
        EventKind::NodeRetrying { .. } => Some(None),
        _ => None,
    });
    let Some(Some(reset)) = reset else { return false };
    around.find_map(|(_, path, kind)| match kind {
        EventKind::NodeFailed { error, .. } if path == reset => {
            Some(error.kind == FailureKind::Interrupted)
        }
        _ => None,
    }) == Some(true)
}

/// Returns `true` if the body failed and the step has already failed because of it, so that the
/// next attempt continues the body. A failure that the step has not yet received is returned first.
pub(super) fn has_reported_failure(
    base: &StepPath,
    recorded: &[(Timestamp, StepPath, EventKind)],
    attempts: u32,
) -> bool {
    let own = || recorded.iter().filter(|(_, path, _)| path == base).map(|(_, _, kind)| kind);
    let failed = |kind: &&EventKind| matches!(kind, EventKind::WorkflowFailed { .. });
    let last = own().rfind(|kind| kind.shape().subject == Subject::Workflow);
    let failures = u32::try_from(own().filter(failed).count()).unwrap_or(u32::MAX);
    last.as_ref().is_some_and(failed) && failures <= attempts
}

/// Returns the unit with the given path in a workflow.
pub(super) fn find_unit(
    spec: &Spec,
    nodes: &HashMap<StepPath, NodeIndex>,
    path: &StepPath,
) -> Option<Unit> {
    if let Some(node) = nodes.get(path) {
        return Some(Unit::node(*node));
    }
    let branch = path.last_name()?;
    if let Some((whole, item)) = path.item()
        && let Some(node) = nodes.get(&whole)
    {
        return Some(Unit::child(*node, item));
    }
    let node = *nodes.get(&path.parent()?)?;
    match &spec.node(node).body {
        Body::Race(branches) | Body::Fallback(branches) => {
            let at = branches.iter().position(|of| *of.name == *branch)?;
            Some(Unit::child(node, u32::try_from(at).ok()?))
        }
        _ => None,
    }
}

/// Returns `true` if a nested workflow started with another definition and has not ended.
pub(super) fn is_changed(
    spec: &Spec,
    base: &StepPath,
    recorded: &[(Timestamp, StepPath, EventKind)],
) -> bool {
    let own = || recorded.iter().filter(|(_, path, _)| path == base).map(|(_, _, kind)| kind);
    let ended = own().any(|kind| {
        matches!(kind, EventKind::WorkflowCompleted(_) | EventKind::WorkflowFailed { .. })
    });
    let began_with = own().find_map(|kind| match kind {
        EventKind::WorkflowStarted(started) => Some(&started.definition),
        _ => None,
    });
    !ended
        && began_with.is_some_and(|definition| !definition.is_empty() && !spec.has_hash(definition))
}

/// Returns the outermost recorded calls that may have changed something outside of the run.
pub(super) fn written(recorded: &[(Timestamp, StepPath, EventKind)]) -> Vec<String> {
    let all = recorded
        .iter()
        .filter(|(.., kind)| writes(kind))
        .map(|(_, path, _)| path.clone())
        .collect();
    outermost(&all)
}
