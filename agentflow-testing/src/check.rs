//! Implements `check_events`, which checks that the events of a run are well-formed.
//!
//! It depends only on the events, not on the agent or workflow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use agentflow::Event;
use agentflow::event::{Edge, EventKind, Shape, Subject};
use agentflow::message::Conversation;
use agentflow::path::StepPath;

/// The violations that [`check_events`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventProblems(Vec<String>);

impl EventProblems {
    /// Returns one sentence for each problem.
    pub fn problems(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for EventProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the events are not well-formed:\n- {}", self.0.join("\n- "))
    }
}

impl std::error::Error for EventProblems {}

/// Checks the complete journal or the complete event stream of one or more runs. For each run:
///
/// - `seq` counts from 1 without gaps, deltas carry the `seq` of the event that they follow, and
///   time does not run backwards;
/// - the first event is `run.started`, and the only event that ends the run is the last one;
/// - every `started` event has exactly one end, and every end has a start;
/// - the parent of every event appears before it;
/// - every tool call in the conversation has exactly one result, and every event survives a round
///   trip through JSON;
/// - every message to the run has its own number, and a run that completed has delivered each
///   message to its model once.
///
/// # Errors
/// Returns all problems. A run that has not ended is a problem too.
pub fn check_events(events: &[Event]) -> Result<(), EventProblems> {
    let mut runs: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        runs.entry(event.run_id.as_str()).or_default().push(event);
    }
    let mut problems = Vec::new();
    if runs.is_empty() {
        problems.push("there are no events".to_owned());
    }
    for (run, events) in runs {
        check_run(run, &events, &mut problems);
    }
    if problems.is_empty() { Ok(()) } else { Err(EventProblems(problems)) }
}

/// Checks that the messages to a run are numbered without gaps and delivered in order.
fn check_messages(events: &[&Event], problem: &mut impl FnMut(String)) {
    let (mut received, mut delivered) = (0, 0);
    for event in events {
        match &event.kind {
            EventKind::MessageReceived { number, .. } if *number != received + 1 => {
                problem(format!(
                    "event {}: the message {number} comes after the message {received}",
                    event.seq
                ));
            }
            EventKind::MessageReceived { number, .. } => received = *number,
            EventKind::MessageDelivered { number }
                if *number <= delivered || *number > received =>
            {
                problem(format!(
                    "event {}: the message {number} is delivered twice, or was not received",
                    event.seq
                ));
            }
            EventKind::MessageDelivered { number } => delivered = *number,
            EventKind::RunCompleted(_) if delivered != received => {
                problem(format!(
                    "the run has ended with an answer, and the message {received} was not delivered"
                ));
            }
            _ => {}
        }
    }
}

/// Returns `true` if a path ends in `attempt#N`, `call#N` or `undo#N`.
fn is_counted(path: &StepPath) -> bool {
    let text = path.to_string();
    let last = text.rsplit('/').next().unwrap_or_default();
    ["attempt#", "call#", "undo#"].iter().any(|counted| last.starts_with(counted))
}

fn check_run(run: &str, events: &[&Event], problems: &mut Vec<String>) {
    let mut problem = |text: String| problems.push(format!("{run}: {text}"));
    let (mut seq, mut part, mut time) = (0, 0, None);
    let mut open: BTreeSet<(String, &str)> = BTreeSet::new();
    let mut paths: BTreeSet<String> = BTreeSet::new();
    let mut left = BTreeSet::new();
    // Nodes that have started or were computed. A computed value completes without a start event.
    let mut begun = BTreeSet::new();
    let mut ends = 0;
    for event in events {
        let what = format!("event {} ({} {})", event.seq, event.name(), event.path);
        if event.is_recorded() {
            if event.seq != seq + 1 {
                problem(format!("{what} comes after event {seq}"));
            }
            (seq, part) = (event.seq, 0);
        } else {
            if event.seq != seq || event.part <= part {
                problem(format!("the delta {} comes after event {seq}, delta {part}", event.id()));
            }
            part = event.part;
        }
        // After a recovery, another process with another clock may continue the run.
        let resumed = matches!(event.kind, EventKind::RunResumed { recovered: true, .. });
        if !resumed && time.is_some_and(|time| event.time < time) {
            problem(format!("{what} is earlier than the event before it"));
        }
        time = Some(event.time);
        // Retrying a node reopens a failed run.
        if ends > 0 && matches!(event.kind, EventKind::RunResumed { recovered: false, .. }) {
            ends = 0;
        }
        if ends > 0 {
            problem(format!("{what} comes after the end of the run"));
        }
        if paths.is_empty() != matches!(event.kind, EventKind::RunStarted(_)) {
            problem(format!("{what}: the first event, and only the first, is run.started"));
        }
        // An arm of a router has no events; its router precedes it and has some.
        let mut ancestor = event.path.parent();
        let known = |path: &StepPath| path.is_root() || paths.contains(&path.to_string());
        let is_call = matches!(event.kind.shape().subject, Subject::Model | Subject::Tool);
        // The counted segments `attempt#N`, `call#N` and `undo#N` have no events. Skip them.
        while let Some(path) = &ancestor
            && !known(path)
            && is_counted(path)
        {
            ancestor = path.parent();
        }
        while let Some(path) = &ancestor
            && !known(path)
        {
            if is_call || path.parent().is_some_and(|above| above.is_root()) {
                problem(format!("{what}: its parent `{path}` is not there before it"));
                break;
            }
            ancestor = path.parent();
        }
        paths.insert(event.path.to_string());
        // After a recovery, a step that the previous process left open either starts again or is
        // ended now.
        if resumed {
            left.append(&mut open);
        }
        if event.kind.ends_run() {
            ends += 1;
            open.append(&mut left);
            for (step, _) in &open {
                problem(format!("`{step}` has no end when the run ends"));
            }
            continue;
        }
        let Shape { subject, edge, .. } = event.kind.shape();
        let step = (event.path.to_string(), subject.as_str());
        // A changed definition invalidates results, so these nodes may be computed again.
        if matches!(event.kind, EventKind::RunResumed { redefined: Some(_), .. }) {
            begun.clear();
        }
        let is_new =
            subject == Subject::Node && edge != Edge::Marks && begun.insert(step.0.clone());
        let wrong = match (subject, edge) {
            (Subject::Run | Subject::Output | Subject::Approval, _) => None,
            // A node that cannot start, for example because its input is invalid, fails without a
            // start event.
            (Subject::Node, Edge::Closes) if matches!(event.kind, EventKind::NodeFailed { .. }) => {
                open.remove(&step);
                left.remove(&step);
                None
            }
            (_, Edge::Retries) => {
                (!open.remove(&step)).then_some("it is tried again without a first try")
            }
            (_, Edge::Opens) if left.remove(&step) => {
                open.insert(step);
                None
            }
            (_, Edge::Closes) if left.remove(&step) => None,
            (_, Edge::Opens) => {
                (!open.insert(step)).then_some("it was started before and has not ended")
            }
            // A value completes once, without a start event.
            (Subject::Node, Edge::Closes) if is_new => None,
            (_, Edge::Closes) => (!open.remove(&step)).then_some("it ends without a start"),
            _ if !event.is_recorded() => {
                (!open.contains(&step)).then_some("a delta of a step that is not running")
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            problem(format!("{what}: {wrong}"));
        }
    }
    if ends != 1 {
        problem(format!("the run has {ends} ends and should have one"));
    }
    check_messages(events, &mut problem);
    let open_calls = Conversation::from_events(events.iter().copied());
    if !open_calls.open_calls().is_empty() {
        problem(format!(
            "these tool calls have no result, or their results no call: {:?}",
            open_calls.open_calls()
        ));
    }
    for event in events {
        let back =
            serde_json::to_string(event).and_then(|json| serde_json::from_str::<Event>(&json));
        match back {
            Ok(back) if back == **event => {}
            Ok(_) => problem(format!("event {} comes back from JSON as another one", event.id())),
            Err(error) => problem(format!("event {} does not survive JSON: {error}", event.id())),
        }
    }
}
