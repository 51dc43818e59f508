//! Tracks from a run's events which steps wait for an operator's decision: interrupted steps, and
//! the workflows that are paused because of them. It does not make decisions.

use std::collections::BTreeSet;

use agentflow::Event;
use agentflow::event::{Edge, EventKind, PauseReason, Subject};
use agentflow::path::StepPath;

/// The pending decisions. A nested workflow waits independently: it still waits if another one
/// continues.
#[derive(Debug, Default)]
pub(super) struct PendingDecisions {
    interrupted: BTreeSet<StepPath>,
    /// Paths of the workflows that wait. The path of the run itself is empty.
    workflows: BTreeSet<StepPath>,
}

impl PendingDecisions {
    /// Applies the next event.
    pub(super) fn apply(&mut self, event: &Event) {
        let path = &event.path;
        match &event.kind {
            EventKind::RunPaused { reason: PauseReason::Interrupted, .. } => {
                self.workflows.insert(path.clone());
            }
            EventKind::RunPaused { reason: PauseReason::Operator, .. } => {}
            // The workflow waits for a different reason, or continues.
            EventKind::RunPaused { .. } | EventKind::RunResumed { recovered: false, .. } => {
                self.workflows.remove(path);
            }
            EventKind::NodeStarted { .. } => drop(self.interrupted.remove(path)),
            EventKind::NodeReset { .. } => {
                self.interrupted.remove(path);
                self.forget_below(path);
            }
            kind if kind.shape().edge == Edge::Closes => {
                if matches!(kind.shape().subject, Subject::Node | Subject::Workflow | Subject::Run)
                {
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

    /// Removes the workflows that wait below a step that has ended or starts again. Steps that a
    /// crash interrupted there remain: the decision on them follows when the parent runs again.
    fn forget_below(&mut self, path: &StepPath) {
        self.workflows.retain(|of| !of.is_within(path));
    }

    /// Returns `true` if a workflow waits for a decision.
    pub(super) fn are_due(&self) -> bool {
        !self.workflows.is_empty()
    }

    /// Takes the pending decisions and clears the state. Workflows that still wait afterwards are
    /// reported by new events.
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Returns the steps that need a decision.
    pub(super) fn steps(&self) -> impl Iterator<Item = &StepPath> {
        self.interrupted.iter()
    }

    /// Returns the workflows that still wait after decisions on only these steps.
    pub(super) fn left(mut self, decided: &[StepPath]) -> BTreeSet<StepPath> {
        for step in decided {
            // A step belongs to the innermost workflow that contains it.
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

    fn seen(events: &[(&str, &str, Value)]) -> PendingDecisions {
        let mut decisions = PendingDecisions::default();
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
        let events =
            [interrupted("a/x"), paused("a"), interrupted("b/y"), paused("b"), resumed("a")];
        assert!(seen(&events).are_due());
        assert!(!seen(&[&events[..], &[resumed("b")]].concat()).are_due());
    }

    #[test]
    fn a_decision_counts_for_the_workflow_of_its_step() {
        let mut decisions =
            seen(&[interrupted("a/x"), paused("a"), interrupted("b/y"), paused("b"), paused("")]);
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
        for over in [("a", "workflow.node.completed", completed), ("a", "workflow.node.reset", by)]
        {
            let due = seen(&[&events[..], &[over]].concat());
            assert_eq!(due.left(&[]), BTreeSet::from([path("ab")]));
        }
    }

    #[test]
    fn a_step_stays_interrupted_until_it_begins_again() {
        let begun =
            |path| (path, "workflow.node.started", json!({"attempt": 2, "repeatable": true}));
        let events = [interrupted("a/x"), begun("a"), paused("a")];
        assert_eq!(seen(&events).steps().count(), 1);
        assert_eq!(seen(&[&events[..], &[begun("a/x")]].concat()).steps().count(), 0);
    }
}
