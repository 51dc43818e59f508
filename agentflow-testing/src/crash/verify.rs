//! Checks the journal of a run with crashes: a step that must not be repeated did not run twice.
//!
//! It depends only on the journal and not on the workflow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use agentflow::Event;
use agentflow::event::{EventKind, RunCompleted};
use agentflow::message::ToolStatus;
use agentflow::tool::Effects;

use crate::check::check_events;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Completed(String),
    Failed(String),
    Cancelled(String),
    Open,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed(output) => write!(f, "it completed with {output}"),
            Self::Failed(error) => write!(f, "it failed: {error}"),
            Self::Cancelled(reason) => write!(f, "it was cancelled: {reason}"),
            Self::Open => f.write_str("it has no end"),
        }
    }
}

/// The reason why a step started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Again {
    /// A crash interrupted the step, and it may be repeated.
    Interrupted,
    /// A recorded attempt had failed.
    Retried,
    /// An operator decided to run it again, which is recorded.
    Operator,
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupted => "a crash interrupted it and it may be repeated",
            Self::Retried => "an attempt had failed",
            Self::Operator => "an operator let it run again",
        })
    }
}

/// Counts of one step in one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Began {
    pub(super) times: usize,
    pub(super) again: Vec<Again>,
    pub(super) interrupted: usize,
}

/// The result of checking a journal.
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) steps: BTreeMap<String, Began>,
    /// `true` if a node or a tool call was interrupted.
    pub(super) interrupted: bool,
    pub(super) problems: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum LastStepEvent<'e> {
    Started { repeatable: bool },
    Retrying,
    Failed { at: usize },
    Ended { name: &'e str, at: usize },
}

/// Checks a journal.
pub(super) fn verify(events: &[Event]) -> Verdict {
    let mut problems = match check_events(events) {
        Ok(()) => Vec::new(),
        Err(found) => found.problems().to_vec(),
    };
    let mut steps: BTreeMap<String, Began> = BTreeMap::new();
    let mut last: BTreeMap<(String, &str), LastStepEvent> = BTreeMap::new();
    let mut reset = None;
    // Index of the last retry or reset of each node.
    let mut retried: BTreeMap<String, usize> = BTreeMap::new();
    let mut outcome = Outcome::Open;
    let mut interrupted = BTreeSet::new();
    for (at, event) in events.iter().enumerate() {
        let path = event.path.to_string();
        let Some((subject, what)) = event.name().rsplit_once('.') else { continue };
        let key = (path.clone(), subject);
        match &event.kind {
            EventKind::RunCompleted(completed) => {
                outcome = Outcome::Completed(output_of(completed));
            }
            EventKind::RunFailed { error } => {
                outcome = Outcome::Failed(format!("{}: {}", error.kind, error.message));
            }
            EventKind::RunCancelled { reason, .. } => {
                outcome = Outcome::Cancelled(reason.to_string());
            }
            // A retry has reopened a run that had ended.
            EventKind::RunResumed { recovered: false, .. } => outcome = Outcome::Open,
            EventKind::NodeReset { .. } => {
                reset = Some(at);
                retried.insert(path, at);
            }
            EventKind::NodeRetrying { .. } => {
                last.insert(key, LastStepEvent::Retrying);
                retried.insert(path, at);
            }
            EventKind::NodeFailed { error, .. } => {
                if error.kind == "interrupted" {
                    steps.entry(path.clone()).or_default().interrupted += 1;
                    interrupted.insert(path);
                }
                last.insert(key, LastStepEvent::Failed { at });
            }
            EventKind::ToolFailed { result, .. } => {
                if result.status == ToolStatus::Interrupted {
                    steps.entry(path.clone()).or_default().interrupted += 1;
                    interrupted.insert(path);
                }
                // The call was stopped. The agent or workflow that contains it may call it again
                // when it is resumed.
                let stopped =
                    matches!(result.status, ToolStatus::Interrupted | ToolStatus::Cancelled)
                        && matches!(
                            last.get(&key),
                            Some(LastStepEvent::Started { repeatable: true })
                        );
                if !stopped {
                    last.insert(key, LastStepEvent::Ended { name: event.name(), at });
                }
            }
            _ if what == "started" && subject != "run" => {
                let began = steps.entry(path.clone()).or_default();
                // An agent or a workflow that is a node has the path of the node. Only the node
                // counts.
                let counts = !matches!(subject, "agent" | "workflow");
                began.times += usize::from(counts);
                let before = last
                    .insert(key, LastStepEvent::Started { repeatable: is_repeatable(&event.kind) });
                let again = match before {
                    None => continue,
                    Some(LastStepEvent::Started { repeatable: true }) => Again::Interrupted,
                    Some(LastStepEvent::Retrying) => Again::Retried,
                    Some(LastStepEvent::Failed { at }) if reset.is_some_and(|reset| reset > at) => {
                        Again::Operator
                    }
                    Some(LastStepEvent::Started { repeatable: false }) => {
                        problems.push(format!(
                            "`{path}` must not simply be repeated; it began, has no end on record, and began again \
                             (event {})",
                            event.seq
                        ));
                        continue;
                    }
                    Some(LastStepEvent::Failed { .. }) => {
                        problems.push(format!(
                            "`{path}` had failed for good and began again (event {})",
                            event.seq
                        ));
                        continue;
                    }
                    // A new attempt at a node continues a nested agent or workflow that failed in
                    // the previous attempt.
                    Some(LastStepEvent::Ended { name: "workflow.failed" | "agent.failed", at })
                        if retried
                            .iter()
                            .any(|(node, retried)| *retried > at && is_within(&path, node)) =>
                    {
                        continue;
                    }
                    Some(LastStepEvent::Ended { name: end, .. }) => {
                        problems.push(format!(
                            "`{path}` had ended ({end}) and began again (event {})",
                            event.seq
                        ));
                        continue;
                    }
                };
                if counts {
                    began.again.push(again);
                }
            }
            _ if matches!(what, "completed" | "failed") && subject != "run" => {
                last.insert(key, LastStepEvent::Ended { name: event.name(), at });
            }
            _ => {}
        }
    }
    Verdict { outcome, steps, interrupted: !interrupted.is_empty(), problems }
}

/// Returns `true` if a path is the path of a node, of one of its items, or below either.
fn is_within(path: &str, node: &str) -> bool {
    path.strip_prefix(node).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
}

/// Returns the output of a workflow or the last message of an agent as text.
fn output_of(completed: &RunCompleted) -> String {
    match (completed.workflow(), completed.agent()) {
        (Some(workflow), _) => workflow.output.to_string(),
        (_, Some(agent)) => agent.message.text().into_owned(),
        _ => "something this release of agentflow-testing does not know".to_owned(),
    }
}

fn is_repeatable(kind: &EventKind) -> bool {
    match kind {
        EventKind::NodeStarted { repeatable, .. } => *repeatable,
        EventKind::ToolStarted { effects, idempotent, .. } => {
            *idempotent || *effects != Effects::Write
        }
        _ => true,
    }
}
