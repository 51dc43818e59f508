//! The reasons for which a run waits, as a fold over its events: an operator's pause, and the open
//! questions of each of its workflows.
//!
//! A run in which two workflows wait is paused until both are answered.

use std::collections::BTreeMap;

use crate::event::{Edge, EventKind, PauseReason, Shape, Subject};
use crate::path::StepPath;

/// The reasons for which a run waits.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    operator: bool,
    /// By the path of the waiting workflow. The path of the run's own workflow is empty.
    workflows: BTreeMap<StepPath, PauseReason>,
}

impl Waits {
    /// Applies the next event.
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        match kind {
            EventKind::RunPaused { reason: PauseReason::Operator, .. } => self.operator = true,
            EventKind::RunPaused { reason, .. } => {
                self.workflows.insert(path.clone(), *reason);
            }
            EventKind::RunResumed { recovered: false, .. } => {
                // A resume below the root continues one workflow, but not a run that an operator
                // paused.
                self.operator &= !path.is_root();
                self.workflows.remove(path);
            }
            // The change may have removed the question. If the question remains, it is recorded
            // again.
            EventKind::RunResumed { redefined: Some(redefined), .. } => {
                let forgotten =
                    |of: &StepPath| redefined.forgotten.iter().any(|node| of.belongs_to(node));
                self.workflows.retain(|of, _| !of.is_root() && !forgotten(of));
            }
            // A compensating run does not wait for its earlier questions.
            EventKind::RunCompensating { .. } => *self = Self::default(),
            kind if kind.ends_run() => *self = Self::default(),
            // No workflow waits below a step that ended or starts again.
            EventKind::NodeReset { .. } => self.forget_below(path),
            kind => {
                let Shape { subject, edge, .. } = kind.shape();
                if edge == Edge::Closes && matches!(subject, Subject::Node | Subject::Workflow) {
                    self.forget_below(path);
                }
            }
        }
    }

    fn forget_below(&mut self, path: &StepPath) {
        self.workflows.retain(|of, _| !of.belongs_to(path));
    }

    /// Returns the reason why the run is paused. An operator's pause takes precedence.
    pub(crate) fn reason(&self) -> Option<PauseReason> {
        match self.operator {
            true => Some(PauseReason::Operator),
            false => self.workflows.values().next().copied(),
        }
    }

    /// Returns the reason why a workflow of the run waits, ignoring the operator.
    pub(crate) fn of_workflows(&self) -> Option<PauseReason> {
        let interrupted =
            self.workflows.values().find(|reason| **reason == PauseReason::Interrupted);
        interrupted.or_else(|| self.workflows.values().next()).copied()
    }

    /// Returns `true` if an operator paused the run.
    pub(crate) fn is_held(&self) -> bool {
        self.operator
    }

    /// Returns `true` if the workflow at a path waits.
    pub(crate) fn are_of(&self, path: &StepPath) -> bool {
        self.workflows.contains_key(path)
    }

    /// Returns `true` if a workflow or a call at a path or below it waits.
    pub(crate) fn are_within(&self, base: &StepPath) -> bool {
        self.within(base).next().is_some()
    }

    /// Returns the paths of the waiting workflows and calls at a path and below it.
    pub(crate) fn within(&self, base: &StepPath) -> impl Iterator<Item = &StepPath> {
        self.workflows.keys().filter(|of| of.is_within(base))
    }

    /// Returns the reason why the run would still wait if the workflow at a path no longer did.
    pub(crate) fn without(&self, path: &StepPath) -> Option<PauseReason> {
        match self.operator {
            true => Some(PauseReason::Operator),
            false => self.workflows.iter().find(|(of, _)| *of != path).map(|(_, reason)| *reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(waits: &mut Waits, path: &str, kind: &EventKind) {
        waits.apply(&path.parse().unwrap(), kind);
    }

    const ASKS: EventKind = EventKind::paused(PauseReason::Approval);
    const HELD: EventKind = EventKind::paused(PauseReason::Operator);

    fn resumed() -> EventKind {
        EventKind::resumed()
    }

    #[test]
    fn a_run_waits_until_the_last_of_its_workflows_is_answered() {
        let mut waits = Waits::default();
        apply(&mut waits, "a", &ASKS);
        apply(&mut waits, "b", &ASKS);
        apply(&mut waits, "a", &resumed());
        assert_eq!(waits.reason(), Some(PauseReason::Approval));
        apply(&mut waits, "b", &resumed());
        assert_eq!(waits.reason(), None);
    }

    #[test]
    fn an_operators_pause_outlasts_an_answer() {
        let mut waits = Waits::default();
        apply(&mut waits, "", &HELD);
        apply(&mut waits, "a", &ASKS);
        assert_eq!(waits.reason(), Some(PauseReason::Operator));
        apply(&mut waits, "a", &resumed());
        assert_eq!(waits.reason(), Some(PauseReason::Operator));
        apply(&mut waits, "", &resumed());
        assert_eq!(waits.reason(), None);
    }

    #[test]
    fn nothing_waits_below_a_step_that_has_ended() {
        let mut waits = Waits::default();
        for path in ["a/b", "a[1]/c", "ab", "b"] {
            apply(&mut waits, path, &ASKS);
        }
        let completed = EventKind::NodeCompleted {
            output: crate::value::Encoded::null(),
            duration_ms: 0,
            saved: None,
        };
        apply(&mut waits, "a", &completed);
        assert_eq!(
            waits.workflows.keys().map(ToString::to_string).collect::<Vec<_>>(),
            ["ab", "b"]
        );
    }
}
