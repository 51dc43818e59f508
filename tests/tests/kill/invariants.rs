//! Invariants of a run whose processes were killed. They are checked against its journal, its
//! effects and its operators' requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use agentflow::Event;
use agentflow::event::{EventKind, PauseReason};
use agentflow::path::StepPath;
use agentflow::store::{RunRecord, RunStatus};
use agentflow_testing::check_events;
use agentflow_tests::kill::Word;

/// A violated invariant.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: &'static str,
    text: String,
}

impl Problem {
    pub(crate) fn new(kind: &'static str, text: String) -> Self {
        Self { kind, text }
    }

    /// Returns the class of the problem. Problems of the same class are counted together.
    pub(crate) fn class(&self) -> String {
        match self.kind {
            "complaint" => {
                let words = self.text.split(' ').filter(|word| !word.contains(['`', '/']));
                format!("complaint ({})", words.take(14).collect::<Vec<_>>().join(" "))
            }
            kind => kind.to_owned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

/// Checks a run that has ended. Returns its output, if it has one.
pub(crate) fn of_run(
    run: &RunRecord,
    events: &[Event],
    effects: &str,
    words: &[Word],
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let id = &run.run_id;
    let mut problem =
        |kind, text: String| problems.push(Problem::new(kind, format!("{id}: {text}")));
    if let Err(error) = check_events(events) {
        problem("journal", error.to_string());
    }
    let finals = |event: &&Event| {
        matches!(event.kind, EventKind::RunCompleted(_) | EventKind::RunCancelled { .. })
    };
    let end = events.iter().find(finals);
    if let Some(end) = end.filter(|end| end.seq as usize != events.len()) {
        problem(
            "after the end",
            format!("{} events follow its end {}", events.len() as u64 - end.seq, end.name()),
        );
    }
    let status = match end.map(|end| &end.kind) {
        Some(EventKind::RunCompleted(_)) => Some(RunStatus::Success),
        Some(_) => Some(RunStatus::Cancelled),
        None => None,
    };
    if status.is_some_and(|status| status != run.status) {
        problem(
            "listed",
            format!("it is listed as {}, and its journal says {status:?}", run.status),
        );
    }
    again(events).into_iter().for_each(|text| problem("again", text));
    of_effects(run, events, effects).into_iter().for_each(|text| problem("effect", text));
    for word in words.iter().filter(|word| word.run == *id && word.outcome == Some(Ok(()))) {
        if let Err(text) = kept(word, events) {
            problem("lost word", text);
        }
    }
    match end.map(|end| &end.kind) {
        Some(EventKind::RunCompleted(completed)) => match (completed.workflow(), completed.agent())
        {
            (Some(workflow), _) => Some(workflow.output.to_string()),
            (None, agent) => agent.map(|agent| agent.message.text().into_owned()),
        },
        _ => None,
    }
}

/// Finds completed steps that started again, and calls with side effects that were retried after an
/// interruption without a decision.
fn again(events: &[Event]) -> Vec<String> {
    let (mut done, mut begun) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    let mut found = Vec::new();
    for event in events {
        let path = event.path.to_string();
        match &event.kind {
            EventKind::NodeCompleted { .. }
            | EventKind::ToolCompleted { .. }
            | EventKind::ToolFailed { .. }
            | EventKind::ModelCompleted(_)
            | EventKind::AgentCompleted(_)
            | EventKind::WorkflowCompleted(_) => {
                done.insert((path, subject(event)));
            }
            EventKind::NodeStarted { .. }
            | EventKind::ModelStarted { .. }
            | EventKind::AgentStarted(_)
            | EventKind::WorkflowStarted(_)
            | EventKind::ToolStarted { .. } => {
                if done.contains(&(path.clone(), subject(event))) {
                    found.push(format!(
                        "`{path}` was done and began again ({}, event {})",
                        event.name(),
                        event.seq
                    ));
                }
                let count = begun.entry(path.clone()).or_default();
                *count += 1;
                let repeatable = match &event.kind {
                    EventKind::ToolStarted { idempotent, .. } => *idempotent,
                    EventKind::NodeStarted { repeatable, .. } => *repeatable,
                    _ => true,
                };
                if !repeatable && *count > 1 + allowed(&event.path, events) {
                    found.push(format!(
                        "`{path}` began {count} times, and may not be repeated (event {})",
                        event.seq
                    ));
                }
            }
            _ => {}
        }
    }
    found
}

fn subject(event: &Event) -> &str {
    event.name().rsplit_once('.').map_or("", |(subject, _)| subject)
}

/// Returns how often the journal allows a step to be retried: by an operator, for the step, for the
/// node with the call, or for the whole map that contains it; or by the step's own retry policy.
fn allowed(path: &StepPath, events: &[Event]) -> usize {
    let path = path.to_string();
    let whole =
        path.strip_suffix(']').and_then(|path| path.rsplit_once('[')).map(|(whole, _)| whole);
    let is_it = |of: &StepPath| {
        let of = of.to_string();
        let is_within = path.strip_prefix(&of).is_some_and(|rest| rest.starts_with('/'));
        of == path || is_within || Some(of.as_str()) == whole
    };
    let says = |event: &&Event| match event.kind {
        EventKind::NodeReset { .. } => is_it(&event.path),
        EventKind::NodeRetrying { .. } => event.path.to_string() == path,
        _ => false,
    };
    events.iter().filter(says).count()
}

/// Finds effects that the journal does not account for.
fn of_effects(run: &RunRecord, events: &[Event], effects: &str) -> Vec<String> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut models = 0;
    for line in effects.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["model", of, ..] if of == run.run_id.as_str() => models += 1,
            [kind, of, path, ..] if of == run.run_id.as_str() => {
                *counts.entry((kind, path)).or_default() += 1;
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    let started =
        events.iter().filter(|event| matches!(event.kind, EventKind::ModelStarted { .. })).count();
    if models > started {
        found.push(format!("{models} model calls were made, and {started} are in the journal"));
    }
    for ((kind, path), count) in counts {
        let starts = events.iter().filter(|event| {
            let starts =
                matches!(event.kind, EventKind::NodeStarted { .. } | EventKind::ToolStarted { .. });
            starts && event.path.to_string() == path
        });
        let starts = starts.count();
        let most = match kind {
            "pay" => 1,
            "once" => 1 + path.parse().map_or(0, |path| allowed(&path, events)),
            _ => starts,
        };
        if count > starts.min(most) {
            found.push(format!(
                "`{kind} {path}` happened {count} times; it has {starts} starts and may {most}"
            ));
        }
    }
    found
}

/// Checks that the journal contains an accepted request of this operator, and that it was recorded
/// by the time the request was accepted.
fn kept(word: &Word, events: &[Event]) -> Result<(), String> {
    let is_it = |event: &&Event| match &event.kind {
        EventKind::ApprovalResolved { by, .. } => word.kind == "answer" && **by == *word.token,
        EventKind::NodeReset { by } => word.kind == "retry" && **by == *word.token,
        // If two operators cancel at the same time, only the first reason is recorded.
        EventKind::RunCancelled { .. } => word.kind == "cancel" && event.seq > word.seen,
        EventKind::RunPaused { reason: PauseReason::Operator, .. } => {
            word.kind == "pause" && event.seq > word.seen
        }
        EventKind::RunResumed { recovered: false, .. } => {
            word.kind == "unpause" && event.seq > word.seen
        }
        _ => false,
    };
    let place = format!("{} {} (seen {}, {})", word.kind, word.node, word.seen, word.token);
    let Some(event) = events.iter().find(is_it) else {
        let end = events.iter().rev().find(|event| event.kind.ends_run());
        let end = end
            .map(|end| format!("; the run ended at {} ({})", end.seq, end.name()))
            .unwrap_or_default();
        return Err(format!(
            "{place} was accepted at {:?}, and nothing came of it{end}",
            word.after
        ));
    };
    match word.after {
        Some(after) if event.seq > after => {
            Err(format!("{place} was accepted at {after} and kept at {}", event.seq))
        }
        _ => Ok(()),
    }
}

/// Tests that the checks detect violations.
mod breaches {
    use agentflow::serde_json::{Value, json};
    use agentflow::store::RunRecord;
    use agentflow::{Event, RunId};
    use agentflow_tests::journal::{event, started};
    use agentflow_tests::kill::Word;

    use super::of_run;

    fn run() -> RunId {
        RunId::new("run-a")
    }

    fn journal(events: &[(&str, &str, Value)]) -> Vec<Event> {
        let first = std::iter::once(started(&run()));
        first
            .chain(
                (2..)
                    .zip(events)
                    .map(|(seq, (path, name, body))| event(&run(), seq, path, name, body.clone())),
            )
            .collect()
    }

    fn begun(repeatable: bool) -> Value {
        json!({"attempt": 1, "repeatable": repeatable})
    }

    fn done() -> Value {
        json!({"output": 1, "duration_ms": 1})
    }

    fn ended() -> (&'static str, &'static str, Value) {
        ("", "run.completed", json!({"workflow": {"output": 1}}))
    }

    fn resumed() -> (&'static str, &'static str, Value) {
        ("", "run.resumed", json!({"recovered": true}))
    }

    fn word(kind: &str, node: &str) -> Word {
        let (token, node) = ("w1".to_owned(), node.to_owned());
        let (outcome, after) = (Some(Ok(())), Some(2));
        Word { token, kind: kind.to_owned(), run: run(), node, seen: 1, outcome, after }
    }

    /// Returns the problems found in a journal, its effects and its requests.
    fn problems(events: &[Event], effects: &str, words: &[Word]) -> String {
        let mut record = RunRecord::new(&events[0]).unwrap();
        events.iter().for_each(|event| record.apply(event));
        let mut problems = Vec::new();
        of_run(&record, events, effects, words, &mut problems);
        problems.iter().map(|problem| format!("{problem}\n")).collect()
    }

    #[test]
    fn of_a_journal() {
        let sound = [
            ("a", "workflow.node.started", begun(true)),
            ("a", "workflow.node.completed", done()),
            ended(),
        ];
        assert_eq!(problems(&journal(&sound), "free run-a a 1", &[]), "");
        let text = problems(&journal(&[ended(), resumed()]), "", &[]);
        assert!(
            text.contains("after the end: run-a: 1 events follow its end run.completed"),
            "{text}"
        );
        let [begin, end, last] = sound;
        let text =
            problems(&journal(&[begin.clone(), end.clone(), resumed(), begin, end, last]), "", &[]);
        assert!(text.contains("again: run-a: `a` was done and began again"), "{text}");
    }

    #[test]
    fn of_effects() {
        let once = ("a", "workflow.node.started", begun(false));
        let twice =
            [once.clone(), resumed(), once, ("a", "workflow.node.completed", done()), ended()];
        let text = problems(&journal(&twice), "once run-a a 1\nonce run-a a 2\n", &[]);
        assert!(
            text.contains("again: run-a: `a` began 2 times, and may not be repeated"),
            "{text}"
        );
        assert!(
            text.contains("effect: run-a: `once a` happened 2 times; it has 2 starts and may 1"),
            "{text}"
        );
        let text = problems(&journal(&[ended()]), "free run-a b 1\nmodel run-a b 0\n", &[]);
        assert!(text.contains("`free b` happened 1 times; it has 0 starts"), "{text}");
        assert!(text.contains("1 model calls were made, and 0 are in the journal"), "{text}");
    }

    #[test]
    fn of_words() {
        let cancelled = |reason: &str| journal(&[("", "run.cancelled", json!({"reason": reason}))]);
        assert_eq!(problems(&cancelled("w1"), "", &[word("cancel", "")]), "");
        let text = problems(&journal(&[resumed(), resumed(), ended()]), "", &[word("cancel", "")]);
        assert!(
            text.contains("lost word: run-a: cancel  (seen 1, w1) was accepted at Some(2)"),
            "{text}"
        );
        assert!(text.contains("nothing came of it; the run ended at 4 (run.completed)"), "{text}");
        let answered = |by: &str| ("g", "approval.resolved", json!({"answer": 1, "by": by}));
        assert_eq!(problems(&journal(&[answered("w1"), ended()]), "", &[word("answer", "g")]), "");
        let text = problems(&journal(&[answered("w2"), ended()]), "", &[word("answer", "g")]);
        assert!(text.contains("nothing came of it"), "{text}");
        let text =
            problems(&journal(&[resumed(), answered("w1"), ended()]), "", &[word("answer", "g")]);
        assert!(text.contains("was accepted at 2 and kept at 3"), "{text}");
    }
}
