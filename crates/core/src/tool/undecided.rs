//! What an operator decides on before a step runs again: the writes in it that were stopped in the middle, and of which
//! nobody knows whether they had their effect.
//!
//! It reads a journal and records nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::context::attempt_of;
use crate::event::{Edge, EventKind, Subject, ToolWaiting};
use crate::failure::{Failure, FailureKind, was_stopped};
use crate::path::StepPath;
use crate::run::{CallKeys, RunShared, is_own_failure, outermost, writes};

/// What in a step, or in the call of a tool, was begun before it runs again, may not be repeated, and of which nobody knows
/// how it ended: an operator decides on that before anything in it begins, since what would run beside it is dropped when
/// the step asks for it. Of a node that consists of a call, `direct` leaves out that call.
///
/// An agent tells its model what was stopped in it, and a workflow asks by itself: where there is nothing else, nothing is
/// due. Where there is, the workflow is stopped with the step and run again with it.
pub(crate) fn undecided_below(run: &RunShared, step: &StepPath, direct: bool) -> Vec<StepPath> {
    let stopped = stopped_below(run, step, direct);
    if !stopped.iter().any(|of| of.by == BegunBy::Step) {
        return Vec::new();
    }
    named(stopped)
}

/// All of it that a retry of the step repeats.
pub(crate) fn repeated_below(run: &RunShared, step: &StepPath, direct: bool) -> Vec<StepPath> {
    named(stopped_below(run, step, direct))
}

/// What was begun in a step, may not be repeated, and of which nobody knows how it ended, neither an operator nor the model
/// of an agent in it.
pub(crate) fn unknown_below(run: &RunShared, step: &StepPath) -> Vec<StepPath> {
    open_below(run, step, false).into_iter().map(|of| of.path).collect()
}

/// What the result of a call that was stopped in the middle says beside that: what the tool had done by then, which a
/// further call of it repeats, and what was stopped with it. Empty when it had begun nothing that writes.
pub(crate) fn written_within(run: &RunShared, call: &StepPath) -> String {
    let (mut done, mut open) = (BTreeSet::new(), BTreeSet::new());
    for (_, path, kind) in run.log.records_below(call).into_iter().filter(|(_, path, _)| path != call) {
        match &kind {
            kind if writes(kind) => drop(open.insert(path)),
            EventKind::NodeCompleted { .. } | EventKind::ToolCompleted { .. } if open.remove(&path) => {
                done.insert(path);
            }
            EventKind::ToolFailed { result, .. } if result.status.is_outcome() => drop(open.remove(&path)),
            kind if is_own_failure(kind) => drop(open.remove(&path)),
            _ => {}
        }
    }
    let within = format!("{call}/");
    let list = |paths: &BTreeSet<StepPath>| {
        let names = outermost(paths).into_iter();
        names.map(|path| format!("`{}`", path.strip_prefix(&within).unwrap_or(&path))).collect::<Vec<_>>().join(", ")
    };
    match (done.is_empty(), open.is_empty()) {
        (true, true) => String::new(),
        (false, true) => format!(". It had done {}, which another call repeats", list(&done)),
        (true, false) => format!(". It was in the middle of {}", list(&open)),
        (false, false) => {
            format!(
                ". It had done {}, which another call repeats, and was in the middle of {}",
                list(&done),
                list(&open)
            )
        }
    }
}

fn stopped_below(run: &RunShared, step: &StepPath, direct: bool) -> Vec<Open> {
    let mut open = open_below(run, step, direct);
    open.retain(|of| of.by != BegunBy::Agent);
    open
}

fn open_below(run: &RunShared, step: &StepPath, direct: bool) -> Vec<Open> {
    let mut taken: HashMap<StepPath, BegunBy> = HashMap::new();
    let mut open: Vec<Open> = Vec::new();
    let mut keys = CallKeys::default();
    for (_, path, kind) in run.log.records_around(step) {
        keys.apply(&path, &kind);
        match &kind {
            EventKind::AgentStarted(_) | EventKind::WorkflowStarted(_) if path.belongs_to(step) => {
                let is_agent = matches!(kind, EventKind::AgentStarted(_));
                if !open.iter().any(|call| call.path.parent().as_ref() == Some(&path)) {
                    taken.insert(path, if is_agent { BegunBy::Agent } else { BegunBy::Workflow });
                }
            }
            // An operator was asked about it, or about what it is in, and let that run again. Where it has failed otherwise,
            // nobody was.
            kind if asks(kind) && step.belongs_to(&path) => open.clear(),
            _ if !path.belongs_to(step) || path == *step => {}
            EventKind::ToolWaiting(_) | EventKind::ToolContinued { .. } => {
                for of in open.iter_mut().filter(|of| of.path == path) {
                    of.asks = !kind.begins_once();
                }
            }
            kind if kind.begins_once() => {
                let key = match kind {
                    EventKind::ToolStarted { call, .. } => keys.key(&path, call).into_owned(),
                    _ => path.to_string(),
                };
                // An attempt that makes a call again has the last word on it.
                open.retain(|call| call.key != key);
                let own = direct && path.parent().is_some_and(|parent| attempt_of(step, &parent).is_some());
                let by = if own { BegunBy::Agent } else { begun_by(step, &path, &taken) };
                open.push(Open { subject: kind.shape().subject, path, key, by, asks: false });
            }
            EventKind::ToolStarted { call, .. } => {
                let key = keys.key(&path, call);
                open.retain(|of| of.key != key);
            }
            // With the outcomes of its calls, whatever they are.
            EventKind::ModelStarted { .. } => {
                open.retain(|of| of.by != BegunBy::Agent || of.path.parent() != path.parent());
            }
            EventKind::ToolFailed { result, .. } if !result.status.is_outcome() => {}
            EventKind::NodeFailed { .. } if !is_own_failure(&kind) => {}
            // A call of a tool shares its path with the first agent or workflow in it.
            kind if matches!(kind.shape().edge, Edge::Closes | Edge::Retries) => {
                open.retain(|of| of.path != path || of.subject != kind.shape().subject);
            }
            _ => {}
        }
    }
    open.retain(|of| !of.asks);
    open
}

/// What is named: all of it, but once where it is the same.
fn named(open: Vec<Open>) -> Vec<StepPath> {
    let nodes: HashSet<StepPath> =
        open.iter().filter(|of| of.subject == Subject::Node).map(|of| of.path.clone()).collect();
    // The call in a step that may not be repeated says the same as the step.
    let is_below = |path: &StepPath| path.parents().any(|above| nodes.contains(&above));
    open.into_iter().map(|of| of.path).filter(|path| !is_below(path)).collect()
}

/// What the call of a tool at a path waits for, when it asked and has not continued.
pub(crate) fn asks_at(run: &RunShared, path: &StepPath) -> Option<Arc<ToolWaiting>> {
    let recorded = run.log.records_below(path);
    for (_, _, kind) in recorded.into_iter().rev().filter(|(_, of, _)| of == path) {
        match kind {
            EventKind::ToolWaiting(waiting) => return Some(waiting),
            EventKind::ToolFailed { result, .. } if !result.status.is_outcome() => {}
            EventKind::NodeFailed { error, .. } if was_stopped(&error.kind) => {}
            EventKind::ToolContinued { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ToolCompleted { .. }
            | EventKind::ToolFailed { .. }
            | EventKind::NodeCompleted { .. }
            | EventKind::NodeRetrying { .. }
            | EventKind::NodeFailed { .. } => return None,
            _ => {}
        }
    }
    None
}

/// Whether an operator is asked about a step: who retries it then has decided on what was stopped in it.
pub(super) fn asks(kind: &EventKind) -> bool {
    matches!(kind, EventKind::NodeFailed { error, .. } if error.kind == FailureKind::Interrupted)
}

/// What was begun and has no end.
struct Open {
    path: StepPath,
    /// A node or the call of a tool.
    subject: Subject,
    key: String,
    by: BegunBy,
    /// It asks people, and nothing of it runs.
    asks: bool,
}

/// What in a step has begun something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BegunBy {
    /// The step itself, or a tool that it calls.
    Step,
    Workflow,
    /// An agent, perhaps one in a workflow.
    Agent,
}

/// What a path in a step belongs to, of the agents and workflows that the step had begun.
fn begun_by(step: &StepPath, path: &StepPath, taken: &HashMap<StepPath, BegunBy>) -> BegunBy {
    let (mut below, mut found) = (path.clone(), BegunBy::Step);
    while below != *step {
        let Some(parent) = below.parent() else { return found };
        // The first agent or workflow of an attempt shares its path with the attempt.
        let is_beside = below.last_name().is_some_and(|name| name.starts_with("call#") || name.starts_with("attempt#"));
        match taken.get(&parent).filter(|_| !is_beside) {
            Some(BegunBy::Agent) => return BegunBy::Agent,
            Some(by) => found = *by,
            None => {}
        }
        below = parent;
    }
    found
}

/// What an operator decides on before a step runs again.
pub(crate) fn undecided_failure(calls: &[StepPath]) -> Option<Failure> {
    let (first, others) = calls.split_first()?;
    let whether = if others.is_empty() { "whether it had its effect" } else { "which had their effects" };
    let calls = others.iter().fold(format!("`{first}`"), |text, call| format!("{text}, `{call}`"));
    let message =
        format!("the program or the step was stopped in the middle of {calls}; {whether} is unknown{TO_OPERATOR}");
    Some(Failure::new(FailureKind::Interrupted, message))
}

/// What an operator does about such a failure.
const TO_OPERATOR: &str = ": find out, then retry the node or cancel the run";

/// The message of such a failure for a model, which has no node to retry.
pub(super) fn for_model(message: &str) -> &str {
    message.strip_suffix(TO_OPERATOR).unwrap_or(message)
}
