//! Recovery: makes nodes ready again after a restart, or when an operator retries a node.

use std::sync::Arc;

use super::stopped::STOPPED;
use super::{Command, Machine, Phase, Unit, index};
use crate::error::{Failure, FailureKind};
use crate::workflow::policy::StopPolicy;
use crate::workflow::spec::{Body, NodeIndex};

impl Machine {
    /// Runs a failed or interrupted node again, with the nodes that were stopped because of it.
    /// Their successors are decided on again. Completed items stay completed.
    ///
    /// If another node has failed as well, the run still fails with that failure, and the nodes
    /// after it stay stopped. A node that was stopped in the middle of a call that must not be
    /// repeated becomes interrupted, since no operator has decided on it.
    pub(super) fn reset(&mut self, node: NodeIndex) {
        self.failures.retain(|(failed, _)| *failed != node);
        self.run_again(Some(node));
    }

    /// Runs a node again, if one is given, and all nodes that were stopped.
    fn run_again(&mut self, node: Option<NodeIndex>) {
        self.stopped_from = self.still_stopped_from();
        let spec = Arc::clone(&self.spec);
        let mut again = vec![false; self.nodes.len()];
        for (at, state) in self.nodes.iter().enumerate() {
            again[at] = Some(index(at)) == node
                || (state.cancelled && !self.is_stopped(index(at)))
                // A node that the failure kept from starting must wait for the retried node, too.
                || (matches!(state.unit.phase, Phase::Skipped | Phase::Waiting | Phase::Ready)
                    && spec.nodes[at].predecessors().any(|before| again[before as usize]));
        }
        // Cancellations because of the failure are obsolete, as are ends of nodes that run again.
        // Other due commands stay: the retry of one node is no decision about another step that was
        // lost.
        let is_void = |command: &Command| match command {
            Command::Cancel { reason: STOPPED, .. } => true,
            command => command.ends().is_some_and(|unit| again[unit.node as usize]),
        };
        self.due.retain(|command| !is_void(command));
        for at in (0..self.nodes.len()).filter(|at| again[*at]) {
            let unit = Unit::node(index(at));
            let state = &self.nodes[at];
            // The retried node itself was decided on by the operator. Any other one needs its own
            // decision.
            let undecided = state.cancelled
                && Some(index(at)) != node
                && state.unit.attempts > 0
                && !state.unit.repeatable;
            self.set_phase(unit, if undecided { Phase::Running } else { Phase::Waiting });
            let state = &mut self.nodes[at];
            (state.cancelled, state.output, state.failure, state.passed_over) =
                (false, None, None, false);
            state.saved = None;
            if undecided {
                self.due
                    .push_back(Command::Fail { unit, error: interrupted("the run was stopped") });
            } else if let Some(group) = &mut state.group {
                group.reset_failed_units(matches!(spec.nodes[at].body, Body::Fallback(_)));
            }
        }
        for (at, again) in again.into_iter().enumerate() {
            let before = |before: &NodeIndex| !self.nodes[*before as usize].unit.phase.has_ended();
            match self.nodes[at].unit.phase {
                // It was ready when the workflow was stopped. If it is still in the queue, the
                // second entry is ignored.
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

    /// Returns the first of the remaining failures, in a workflow with written order: nodes after
    /// it may not start, although another node runs again. Without written order, no node is after
    /// a failure.
    fn still_stopped_from(&self) -> Option<NodeIndex> {
        let stops = self.spec.ordered && self.spec.stop == StopPolicy::FailFast;
        let left = self.failures.iter().map(|(node, _)| *node);
        left.filter(|_| stops).min()
    }

    /// Returns the nodes from which a failed workflow continues: the failed nodes, and the nodes
    /// that wait for an answer.
    pub(crate) fn nodes_to_reset(&self) -> Vec<NodeIndex> {
        let asks = (0..self.nodes.len())
            .map(index)
            .filter(|node| self.phase(Unit::node(*node)) == Phase::Asking);
        self.failures.iter().map(|(node, _)| *node).chain(asks).collect()
    }

    /// Returns the nodes that were stopped in the middle of a call that must not be repeated
    /// without a decision.
    pub(crate) fn undecided(&self) -> Vec<NodeIndex> {
        let of = |command: &Command| match command {
            Command::Fail { unit, .. } => Some(unit.node),
            _ => None,
        };
        self.due.iter().filter_map(of).collect()
    }

    /// Handles the steps that were running when the process ended. Repeatable steps become ready,
    /// all others are interrupted.
    pub(crate) fn recover(&mut self) {
        // The failure that stopped these nodes no longer exists, because the definition has
        // changed.
        if self.failures.is_empty() && self.nodes.iter().any(|node| node.cancelled) {
            self.run_again(None);
        }
        for at in 0..self.nodes.len() {
            let node = index(at);
            let children = self.nodes[at].group.as_ref().map_or(0, |group| group.units.len());
            let own = self.nodes[at].group.is_none().then_some(Unit::node(node));
            for unit in
                own.into_iter().chain((0..children).map(|child| Unit::child(node, index(child))))
            {
                let Some(state) = self.unit_mut(unit) else { continue };
                if state.phase != Phase::Running {
                    continue;
                }
                state.left_open = true;
                // The start is recorded and needs an end: the next attempt, or the failure below.
                if state.repeatable {
                    self.make_ready(unit);
                } else {
                    self.due.push_back(Command::Fail {
                        unit,
                        error: interrupted("the program stopped"),
                    });
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
