//! Finds the writes in a step that were interrupted and whose outcome is unknown.
//!
//! An operator decides about them before the step runs again. This module reads the journal and
//! records nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::context::attempt_of;
use crate::event::{Edge, EventKind, Subject, ToolWaiting};
use crate::failure::{Failure, FailureKind, was_stopped};
use crate::path::StepPath;
use crate::run::{CallKeys, RunShared, is_own_failure, outermost, writes};

/// Returns the calls and nodes in a step, or in a tool call, that were started, must not be
/// repeated, and have no known outcome.
///
/// The operator decides before any part of the step starts, because concurrent work is dropped when
/// the step asks the operator. With `direct`, the call that a node consists of is left out.
///
/// An agent reports its own interrupted calls to its model, and a workflow asks the operator
/// itself. The result is therefore empty unless the step itself started one of the calls. In that
/// case the workflow's calls are included, since the workflow is stopped and run again together
/// with the step.
pub(crate) fn undecided_writes(run: &RunShared, step: &StepPath, direct: bool) -> Vec<StepPath> {
    let stopped = stopped_below(run, step, direct);
    if !stopped.iter().any(|of| of.by == RecordOwner::Step) {
        return Vec::new();
    }
    named(stopped)
}

/// Returns all interrupted writes of the step that a retry of it repeats.
pub(crate) fn repeated_writes(run: &RunShared, step: &StepPath, direct: bool) -> Vec<StepPath> {
    named(stopped_below(run, step, direct))
}

/// Returns the writes started in a step that must not be repeated and have no known outcome. No
/// operator and no model of an agent in the step has decided about them.
pub(crate) fn unknown_writes(run: &RunShared, step: &StepPath) -> Vec<StepPath> {
    open_below(run, step, false).into_iter().map(|of| of.path).collect()
}

/// Returns the text that a stopped call's result adds about the tool's own writes: the completed
/// ones, which another call would repeat, and the interrupted ones. Empty if the tool started no
/// write.
pub(crate) fn describe_writes(run: &RunShared, call: &StepPath) -> String {
    let (mut done, mut open) = (BTreeSet::new(), BTreeSet::new());
    for (_, path, kind) in
        run.log.records_below(call).into_iter().filter(|(_, path, _)| path != call)
    {
        match &kind {
            kind if writes(kind) => drop(open.insert(path)),
            EventKind::NodeCompleted { .. } | EventKind::ToolCompleted { .. }
                if open.remove(&path) =>
            {
                done.insert(path);
            }
            EventKind::ToolFailed { result, .. } if result.status.is_outcome() => {
                open.remove(&path);
            }
            kind if is_own_failure(kind) => drop(open.remove(&path)),
            _ => {}
        }
    }
    let within = format!("{call}/");
    let list = |paths: &BTreeSet<StepPath>| {
        let names = outermost(paths).into_iter();
        names
            .map(|path| format!("`{}`", path.strip_prefix(&within).unwrap_or(&path)))
            .collect::<Vec<_>>()
            .join(", ")
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
    open.retain(|of| of.by != RecordOwner::Agent);
    open
}

fn open_below(run: &RunShared, step: &StepPath, direct: bool) -> Vec<Open> {
    let mut taken: HashMap<StepPath, RecordOwner> = HashMap::new();
    let mut open: Vec<Open> = Vec::new();
    let mut keys = CallKeys::default();
    for (_, path, kind) in run.log.records_around(step) {
        keys.apply(&path, &kind);
        match &kind {
            EventKind::AgentStarted(_) | EventKind::WorkflowStarted(_) if path.belongs_to(step) => {
                let is_agent = matches!(kind, EventKind::AgentStarted(_));
                if !open.iter().any(|call| call.path.parent().as_ref() == Some(&path)) {
                    taken.insert(
                        path,
                        if is_agent { RecordOwner::Agent } else { RecordOwner::Workflow },
                    );
                }
            }
            // The operator was asked about this step, or an enclosing one, and then ran it again.
            // After any other failure, no operator decided.
            kind if asks(kind) && step.belongs_to(&path) => open.clear(),
            _ if !path.belongs_to(step) || path == *step => {}
            EventKind::ToolWaiting(_) | EventKind::ToolContinued { .. } => {
                for of in open.iter_mut().filter(|of| of.path == path) {
                    of.asks = !kind.is_unrepeatable_start();
                }
            }
            kind if kind.is_unrepeatable_start() => {
                let key = match kind {
                    EventKind::ToolStarted { call, .. } => keys.key(&path, call).into_owned(),
                    _ => path.to_string(),
                };
                // The call was retried, so only its newest attempt counts.
                open.retain(|call| call.key != key);
                let own = direct
                    && path.parent().is_some_and(|parent| attempt_of(step, &parent).is_some());
                let by = if own { RecordOwner::Agent } else { begun_by(step, &path, &taken) };
                open.push(Open { subject: kind.shape().subject, path, key, by, asks: false });
            }
            EventKind::ToolStarted { call, .. } => {
                let key = keys.key(&path, call);
                open.retain(|of| of.key != key);
            }
            // The agent gave the results of its calls to the model, including the interrupted ones.
            EventKind::ModelStarted { .. } => {
                open.retain(|of| of.by != RecordOwner::Agent || of.path.parent() != path.parent());
            }
            EventKind::ToolFailed { result, .. } if !result.status.is_outcome() => {}
            EventKind::NodeFailed { .. } if !is_own_failure(&kind) => {}
            // A tool call has the same path as the first agent or workflow in it, so the subject
            // must match too.
            kind if matches!(kind.shape().edge, Edge::Closes | Edge::Retries) => {
                open.retain(|of| of.path != path || of.subject != kind.shape().subject);
            }
            _ => {}
        }
    }
    open.retain(|of| !of.asks);
    open
}

/// Returns the paths of open records, without paths below an open node.
fn named(open: Vec<Open>) -> Vec<StepPath> {
    let nodes: HashSet<StepPath> =
        open.iter().filter(|of| of.subject == Subject::Node).map(|of| of.path.clone()).collect();
    // A node that must not be repeated already covers the calls in it.
    let is_below = |path: &StepPath| path.parents().any(|above| nodes.contains(&above));
    open.into_iter().map(|of| of.path).filter(|path| !is_below(path)).collect()
}

/// Returns the questions that the tool call at a path waits for, if it has not continued since.
pub(crate) fn pending_questions(run: &RunShared, path: &StepPath) -> Option<Arc<ToolWaiting>> {
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

/// Returns `true` if this event asks an operator about a step. An operator who then retries the
/// step has decided about its interrupted writes.
pub(super) fn asks(kind: &EventKind) -> bool {
    matches!(kind, EventKind::NodeFailed { error, .. } if error.kind == FailureKind::Interrupted)
}

/// A record that was started and has not ended.
struct Open {
    path: StepPath,
    /// A node or a tool call.
    subject: Subject,
    key: String,
    by: RecordOwner,
    /// `true` while the call waits for the answers of people and none of its code runs.
    asks: bool,
}

/// The owner of a started record inside a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordOwner {
    /// The step itself, or a tool that it calls.
    Step,
    Workflow,
    /// An agent, including one inside a workflow.
    Agent,
}

/// Returns the owner of a path inside a step, given the agents and workflows that the step started.
fn begun_by(
    step: &StepPath,
    path: &StepPath,
    taken: &HashMap<StepPath, RecordOwner>,
) -> RecordOwner {
    let (mut below, mut found) = (path.clone(), RecordOwner::Step);
    while below != *step {
        let Some(parent) = below.parent() else { return found };
        // The first agent or workflow of an attempt shares its path with the attempt.
        let is_beside = below
            .last_name()
            .is_some_and(|name| name.starts_with("call#") || name.starts_with("attempt#"));
        match taken.get(&parent).filter(|_| !is_beside) {
            Some(RecordOwner::Agent) => return RecordOwner::Agent,
            Some(by) => found = *by,
            None => {}
        }
        below = parent;
    }
    found
}

/// Creates the failure that asks an operator about interrupted calls. Returns `None` if there are
/// none.
pub(crate) fn undecided_failure(calls: &[StepPath]) -> Option<Failure> {
    let (first, others) = calls.split_first()?;
    let whether =
        if others.is_empty() { "whether it had its effect" } else { "which had their effects" };
    let calls = others.iter().fold(format!("`{first}`"), |text, call| format!("{text}, `{call}`"));
    let message = format!(
        "the program or the step was stopped in the middle of {calls}; {whether} is unknown{TO_OPERATOR}"
    );
    Some(Failure::new(FailureKind::Interrupted, message))
}

/// The end of that failure's message, which tells the operator how to proceed.
const TO_OPERATOR: &str = ": find out, then retry the node or cancel the run";

/// Returns the failure's message for a model, which cannot retry a node.
pub(super) fn for_model(message: &str) -> &str {
    message.strip_suffix(TO_OPERATOR).unwrap_or(message)
}
