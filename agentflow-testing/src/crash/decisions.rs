//! What of a run waits for an operator's decision, from its events: interrupted steps, and the workflows that stand
//! still because of them. It decides nothing.

use std::collections::BTreeSet;

use agentflow::Event;
use agentflow::event::{Edge, EventKind, PauseReason, Subject};
use agentflow::path::StepPath;

/// What waits for a decision. A workflow that is a step waits by itself: when another one continues, it still does.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    interrupted: BTreeSet<StepPath>,
    /// The workflows that wait; the run's own path is empty.
    workflows: BTreeSet<StepPath>,
}

impl Decisions {
    /// Takes in the next event.
    pub(super) fn apply(&mut self, event: &Event) {
        let path = &event.path;
        match &event.kind {
            EventKind::RunPaused { reason: PauseReason::Interrupted, .. } => drop(self.workflows.insert(path.clone())),
            EventKind::RunPaused { reason: PauseReason::Operator, .. } => {}
            // It waits for something else, or for nothing.
            EventKind::RunPaused { .. } | EventKind::RunResumed { recovered: false, .. } => {
                self.workflows.remove(path);
            }
            EventKind::NodeStarted { .. } => drop(self.interrupted.remove(path)),
            EventKind::NodeReset { .. } => {
                self.interrupted.remove(path);
                self.forget_below(path);
            }
            kind if kind.shape().edge == Edge::Closes => {
                if matches!(kind.shape().subject, Subject::Node | Subject::Workflow | Subject::Run) {
                    self.forget_below(path);
                }
                if let EventKind::NodeFailed { error, .. } = kind
                    && error.kind == "interrupted"
                {
                    self.interrupted.insert(path.clone());
                }
            }
            _ => {}
        }
    }

    /// Nothing waits below a step that is over or begins anew. A step that a crash interrupted there stays so: it is
    /// decided on when what it belongs to runs again.
    fn forget_below(&mut self, path: &StepPath) {
        self.workflows.retain(|of| !of.is_within(path));
    }

    /// Whether anything waits.
    pub(super) fn are_due(&self) -> bool {
        !self.workflows.is_empty()
    }

    /// What is to be decided now, as if it were decided: what still waits after that is recorded anew.
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The steps to decide on.
    pub(super) fn steps(&self) -> impl Iterator<Item = &StepPath> {
        self.interrupted.iter()
    }

    /// The workflows that wait although only these of the steps could be decided on.
    pub(super) fn left(mut self, decided: &[StepPath]) -> BTreeSet<StepPath> {
        for step in decided {
            // It is a step of the innermost one.
            let of = self.workflows.iter().filter(|of| step.is_within(of));
            if let Some(of) = of.max_by_key(|of| of.to_string().len()).cloned() {
                self.workflows.remove(&of);
            }
        }
        self.workflows
    }
}

#[cfg(test)]
mod tests {
    use agentflow::serde_json::{Value, from_str, json};

    use super::*;

    fn seen(events: &[(&str, &str, Value)]) -> Decisions {
        let mut decisions = Decisions::default();
        for (path, name, payload) in events {
            let event = json!({"run_id": "run-1", "seq": 1, "time": 1, "path": path, "name": name, "payload": payload});
            decisions.apply(&from_str(&event.to_string()).unwrap());
        }
        decisions
    }

    fn paused(path: &str) -> (&str, &'static str, Value) {
        (path, "run.paused", json!({"reason": "interrupted"}))
    }

    fn resumed(path: &str) -> (&str, &'static str, Value) {
        (path, "run.resumed", json!({"recovered": false}))
    }

    fn interrupted(path: &str) -> (&str, &'static str, Value) {
        (
            path,
            "workflow.node.failed",
            json!({"attempt": 1, "error": {"kind": "interrupted", "message": "", "retryable": false}}),
        )
    }

    fn path(text: &str) -> StepPath {
        text.parse().unwrap()
    }

    #[test]
    fn a_workflow_waits_though_another_one_continues() {
        let events = [interrupted("a/x"), paused("a"), interrupted("b/y"), paused("b"), resumed("a")];
        assert!(seen(&events).are_due());
        assert!(!seen(&[&events[..], &[resumed("b")]].concat()).are_due());
    }

    #[test]
    fn a_decision_counts_for_the_workflow_of_its_step() {
        let mut decisions = seen(&[interrupted("a/x"), paused("a"), interrupted("b/y"), paused("b"), paused("")]);
        let due = decisions.take();
        assert!(!decisions.are_due());
        assert_eq!(due.steps().cloned().collect::<Vec<_>>(), [path("a/x"), path("b/y")]);
        assert_eq!(due.left(&[path("a/x")]), BTreeSet::from([path("b"), StepPath::root()]));
    }

    #[test]
    fn nothing_waits_below_a_step_that_is_over_or_begins_anew() {
        let events = [interrupted("a/x"), paused("a"), interrupted("ab/x"), paused("ab")];
        let by = json!({"by": "ada"});
        let completed = json!({"output": 1, "duration_ms": 0});
        for over in [("a", "workflow.node.completed", completed), ("a", "workflow.node.reset", by)] {
            let due = seen(&[&events[..], &[over]].concat());
            assert_eq!(due.left(&[]), BTreeSet::from([path("ab")]));
        }
    }

    #[test]
    fn a_step_stays_interrupted_until_it_begins_again() {
        let begun = |path| (path, "workflow.node.started", json!({"attempt": 2, "repeatable": true}));
        let events = [interrupted("a/x"), begun("a"), paused("a")];
        assert_eq!(seen(&events).steps().count(), 1);
        assert_eq!(seen(&[&events[..], &[begun("a/x")]].concat()).steps().count(), 0);
    }
}
