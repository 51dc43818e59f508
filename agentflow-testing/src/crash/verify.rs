//! Checks the journal of a run with crashes: nothing was done twice that may not be repeated.
//!
//! It reads the journal alone and knows no workflow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use agentflow::Event;
use agentflow::event::{EventKind, RunCompleted};
use agentflow::message::ToolStatus;
use agentflow::tool::Effects;

use crate::check::check_events;

/// How a run ended.
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

/// Why a step began again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Again {
    /// A crash interrupted it, and it may be repeated.
    Interrupted,
    /// An attempt at it had failed and is on record.
    Retried,
    /// An operator said so, and that is on record.
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

/// What a step did in one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Began {
    pub(super) times: usize,
    pub(super) again: Vec<Again>,
    pub(super) interrupted: usize,
}

/// What a journal says.
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) steps: BTreeMap<String, Began>,
    /// Nodes that were interrupted, and tool calls.
    pub(super) interrupted: bool,
    pub(super) problems: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Last<'e> {
    Started { repeatable: bool },
    Retrying,
    Failed { at: usize },
    Ended { name: &'e str, at: usize },
}

/// Reads a journal.
pub(super) fn verify(events: &[Event]) -> Verdict {
    let mut problems = match check_events(events) {
        Ok(()) => Vec::new(),
        Err(found) => found.problems().to_vec(),
    };
    let mut steps: BTreeMap<String, Began> = BTreeMap::new();
    let mut last: BTreeMap<(String, &str), Last> = BTreeMap::new();
    let mut reset = None;
    // When a node last had another attempt.
    let mut retried: BTreeMap<String, usize> = BTreeMap::new();
    let mut outcome = Outcome::Open;
    let mut interrupted = BTreeSet::new();
    for (at, event) in events.iter().enumerate() {
        let path = event.path.to_string();
        let Some((subject, what)) = event.name().rsplit_once('.') else { continue };
        let key = (path.clone(), subject);
        match &event.kind {
            EventKind::RunCompleted(completed) => outcome = Outcome::Completed(output_of(completed)),
            EventKind::RunFailed { error } => outcome = Outcome::Failed(format!("{}: {}", error.kind, error.message)),
            EventKind::RunCancelled { reason, .. } => outcome = Outcome::Cancelled(reason.to_string()),
            EventKind::RunResumed { recovered: false, .. } => outcome = Outcome::Open,
            EventKind::NodeReset { .. } => {
                reset = Some(at);
                retried.insert(path, at);
            }
            EventKind::NodeRetrying { .. } => {
                last.insert(key, Last::Retrying);
                retried.insert(path, at);
            }
            EventKind::NodeFailed { error, .. } => {
                if error.kind == "interrupted" {
                    steps.entry(path.clone()).or_default().interrupted += 1;
                    interrupted.insert(path);
                }
                last.insert(key, Last::Failed { at });
            }
            EventKind::ToolFailed { result, .. } => {
                if result.status == ToolStatus::Interrupted {
                    steps.entry(path.clone()).or_default().interrupted += 1;
                    interrupted.insert(path);
                }
                // It was stopped, and whoever continues what it is in may call it again.
                let stopped = matches!(result.status, ToolStatus::Interrupted | ToolStatus::Cancelled)
                    && matches!(last.get(&key), Some(Last::Started { repeatable: true }));
                if !stopped {
                    last.insert(key, Last::Ended { name: event.name(), at });
                }
            }
            _ if what == "started" && subject != "run" => {
                let began = steps.entry(path.clone()).or_default();
                // An agent or a workflow that is a node has the node's path, and the node counts.
                let counts = !matches!(subject, "agent" | "workflow");
                began.times += usize::from(counts);
                let before = last.insert(key, Last::Started { repeatable: is_repeatable(&event.kind) });
                let again = match before {
                    None => continue,
                    Some(Last::Started { repeatable: true }) => Again::Interrupted,
                    Some(Last::Retrying) => Again::Retried,
                    Some(Last::Failed { at }) if reset.is_some_and(|reset| reset > at) => Again::Operator,
                    Some(Last::Started { repeatable: false }) => {
                        problems.push(format!(
                            "`{path}` must not simply be repeated; it began, has no end on record, and began again \
                             (event {})",
                            event.seq
                        ));
                        continue;
                    }
                    Some(Last::Failed { .. }) => {
                        problems.push(format!("`{path}` had failed for good and began again (event {})", event.seq));
                        continue;
                    }
                    // A further attempt at the step continues what failed in it.
                    Some(Last::Ended { name: "workflow.failed" | "agent.failed", at })
                        if retried.iter().any(|(node, retried)| *retried > at && is_within(&path, node)) =>
                    {
                        continue;
                    }
                    Some(Last::Ended { name: end, .. }) => {
                        problems.push(format!("`{path}` had ended ({end}) and began again (event {})", event.seq));
                        continue;
                    }
                };
                if counts {
                    began.again.push(again);
                }
            }
            _ if matches!(what, "completed" | "failed") && subject != "run" => {
                last.insert(key, Last::Ended { name: event.name(), at });
            }
            _ => {}
        }
    }
    Verdict { outcome, steps, interrupted: !interrupted.is_empty(), problems }
}

/// Whether a path is a node's, that of one of its items, or below either.
fn is_within(path: &str, node: &str) -> bool {
    path.strip_prefix(node).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
}

/// What an end says, as text: the output of a workflow, the last message of an agent.
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
        EventKind::ToolStarted { effects, idempotent, .. } => *idempotent || *effects != Effects::Write,
        _ => true,
    }
}
