//! Recovery: makes nodes ready again after the end of a process, or when an operator retries a node.

use std::sync::Arc;

use super::stopped::STOPPED;
use super::{Command, Machine, Phase, Unit, index};
use crate::error::{Failure, FailureKind};
use crate::workflow::policy::StopPolicy;
use crate::workflow::spec::{Body, NodeIndex};

impl Machine {
    /// A failed or interrupted node runs again. What was stopped because of it runs again too, and what depends on
    /// either is decided on anew. Items that are done stay done. A run that failed of another node, too, still fails of
    /// that one, and what is written below that stays stopped. What was stopped in the middle and may not simply run again
    /// is interrupted: nobody has decided on it.
    pub(super) fn reset(&mut self, node: NodeIndex) {
        self.failures.retain(|(failed, _)| *failed != node);
        self.run_again(Some(node));
    }

    /// A node, or none, runs again, with all that was stopped.
    fn run_again(&mut self, node: Option<NodeIndex>) {
        self.stopped_from = self.still_stopped_from();
        let spec = Arc::clone(&self.spec);
        let mut again = vec![false; self.nodes.len()];
        for (at, state) in self.nodes.iter().enumerate() {
            again[at] = Some(index(at)) == node
                || (state.cancelled && !self.is_stopped(index(at)))
                // Also one that could begin, and that the failure kept from it: it waits for the retry.
                || (matches!(state.unit.phase, Phase::Skipped | Phase::Waiting | Phase::Ready)
                    && spec.nodes[at].predecessors().any(|before| again[before as usize]));
        }
        // What was to be stopped because of the failure continues, and what runs again does not end before. All else that is
        // due stays so: a step that was lost beside it is not the operator's to decide on by this.
        let is_void = |command: &Command| match command {
            Command::Cancel { reason: STOPPED, .. } => true,
            command => command.ends().is_some_and(|unit| again[unit.node as usize]),
        };
        self.due.retain(|command| !is_void(command));
        for at in (0..self.nodes.len()).filter(|at| again[*at]) {
            let unit = Unit::node(index(at));
            let state = &self.nodes[at];
            let undecided =
                state.cancelled && Some(index(at)) != node && state.unit.attempts > 0 && !state.unit.repeatable;
            self.set_phase(unit, if undecided { Phase::Running } else { Phase::Waiting });
            let state = &mut self.nodes[at];
            (state.cancelled, state.output, state.failure, state.passed_over) = (false, None, None, false);
            state.saved = None;
            if undecided {
                self.due.push_back(Command::Fail { unit, error: interrupted("the run was stopped") });
            } else if let Some(group) = &mut state.group {
                group.forget_failures(matches!(spec.nodes[at].body, Body::Fallback(_)));
            }
        }
        for (at, again) in again.into_iter().enumerate() {
            let before = |before: &NodeIndex| !self.nodes[*before as usize].unit.phase.has_ended();
            match self.nodes[at].unit.phase {
                // It was ready when everything was stopped.
                Phase::Ready => self.make_ready(Unit::node(index(at))),
                Phase::Waiting if again => {
                    let open = spec.nodes[at].awaited().filter(before).count();
                    self.nodes[at].open = u32::try_from(open).unwrap_or(u32::MAX);
                    if open == 0 {
                        self.decide(index(at));
                    }
                }
                _ => {}
            }
        }
    }

    /// The first of the failures that are left, in a workflow with written order: nothing below it may begin, although
    /// another node runs again. A workflow without one has no place that is below a failure.
    fn still_stopped_from(&self) -> Option<NodeIndex> {
        let stops = self.spec.ordered && self.spec.stop == StopPolicy::FailFast;
        let left = self.failures.iter().map(|(node, _)| *node);
        left.filter(|_| stops).min()
    }

    /// The nodes that a workflow which has failed begins with when it is continued: those that it failed of, and those
    /// that ask a person.
    pub(crate) fn stopped_at(&self) -> Vec<NodeIndex> {
        let asks = (0..self.nodes.len()).map(index).filter(|node| self.phase(Unit::node(*node)) == Phase::Asking);
        self.failures.iter().map(|(node, _)| *node).chain(asks).collect()
    }

    /// The nodes of a workflow that is continued which were stopped in the middle and may not simply run again.
    pub(crate) fn undecided(&self) -> Vec<NodeIndex> {
        let of = |command: &Command| match command {
            Command::Fail { unit, .. } => Some(unit.node),
            _ => None,
        };
        self.due.iter().filter_map(of).collect()
    }

    /// Decides on the steps that ran when the process ended: those that may run again are made ready, the rest are
    /// interrupted.
    pub(crate) fn recover(&mut self) {
        // What they were stopped for is void: the workflow has changed.
        if self.failures.is_empty() && self.nodes.iter().any(|node| node.cancelled) {
            self.run_again(None);
        }
        for at in 0..self.nodes.len() {
            let node = index(at);
            let children = self.nodes[at].group.as_ref().map_or(0, |group| group.units.len());
            let own = self.nodes[at].group.is_none().then_some(Unit::node(node));
            for unit in own.into_iter().chain((0..children).map(|child| Unit::child(node, index(child)))) {
                let Some(state) = self.unit_mut(unit) else { continue };
                if state.phase != Phase::Running {
                    continue;
                }
                state.left_open = true;
                if state.repeatable {
                    self.make_ready(unit);
                } else {
                    self.due.push_back(Command::Fail { unit, error: interrupted("the program stopped") });
                }
            }
        }
    }
}

fn interrupted(why: &str) -> Arc<Failure> {
    let message = format!(
        "{why} in the middle of this step; whether it had its effect is unknown: find out, then retry the node or \
         cancel the run"
    );
    Arc::new(Failure::new(FailureKind::Interrupted, message))
}
