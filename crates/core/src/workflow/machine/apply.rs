//! Applies recorded events to the state of the machine.

use super::super::policy::{OnError, StopPolicy};
use super::super::spec::NodeIndex;
use super::answers::TimedQuestion;
use super::stopped::was_stopped;
use super::stopped::{BEGUN_ONCE, ENDED, STOPPED};
use crate::error::{Failure, FailureKind};
use crate::event::{EventKind, PauseReason};
use crate::state::EXIT;
use crate::time::Timestamp;
use crate::value::Encoded;
use std::sync::Arc;

use super::{Command, Machine, Phase, Unit, index};

impl Machine {
    /// Applies a recorded event to a unit.
    pub(crate) fn apply(&mut self, unit: Unit, kind: &EventKind, time: Timestamp) {
        if let (Some(child), EventKind::NodeStarted { .. }) = (unit.child, kind) {
            self.next_round(unit.node, child);
        }
        if unit.child.is_some() && self.unit(unit).is_none() {
            return;
        }
        if matches!(kind, EventKind::NodeCompleted { .. } | EventKind::NodeFailed { .. }) {
            // The end of the unit is recorded now. A command that is still due must not end a later
            // attempt.
            self.due.retain(|command| command.ends() != Some(unit));
        }
        match kind {
            EventKind::NodeStarted { attempt, repeatable, .. } => {
                self.started(unit, *attempt, *repeatable);
            }
            // A call that waits for a person has stopped executing, so running the step again is
            // safe.
            EventKind::ToolWaiting(_) => self.set_repeatable(unit, true),
            EventKind::ToolContinued { repeatable } => self.set_repeatable(unit, *repeatable),
            EventKind::NodeCompleted { output, saved, .. } => match unit.child {
                None => {
                    self.nodes[unit.node as usize].saved.clone_from(saved);
                    self.complete(unit.node, output.clone());
                }
                Some(child) => {
                    let exit = saved.as_ref().and_then(|saved| saved.get(EXIT).flatten());
                    self.child_completed(unit.node, child, output.clone(), exit);
                }
            },
            EventKind::NodeRetrying { delay_ms, .. } => {
                if let Some(state) = self.unit_mut(unit) {
                    state.failures += 1;
                }
                let until = Timestamp::from_millis(time.as_millis().saturating_add(*delay_ms));
                let delay_ms = u32::try_from(*delay_ms).unwrap_or(u32::MAX);
                self.set_phase(unit, Phase::Backoff { until, delay_ms });
            }
            EventKind::NodeFailed { error, .. } => self.failed(unit, error),
            EventKind::NodeSkipped { .. } => self.skip(unit.node),
            EventKind::NodeReset { .. } => self.reset(unit.node),
            EventKind::ApprovalRequested(question) => {
                self.nodes[unit.node as usize].asked = Some(TimedQuestion::new(time, question));
                self.set_phase(unit, Phase::Asking);
            }
            EventKind::ApprovalResolved { answer, .. } => self.resolved(unit.node, answer),
            _ => {}
        }
    }

    /// Follows a pause or unpause of the run that this workflow is a step of.
    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Applies an event of the run itself: a pause or its end.
    pub(crate) fn apply_run(&mut self, kind: &EventKind) {
        match kind {
            EventKind::RunPaused { reason, .. } => {
                self.paused |= *reason == PauseReason::Operator;
                self.announced = Some(*reason);
            }
            EventKind::RunResumed { recovered: false, .. } => {
                self.paused = false;
                self.announced = None;
            }
            // The changed definition may no longer contain the wait that was announced.
            EventKind::RunResumed { redefined: Some(_), .. } if !self.paused => {
                self.announced = None;
            }
            _ => {}
        }
    }

    pub(super) fn started(&mut self, unit: Unit, attempt: u32, repeatable: bool) {
        if let Some(state) = self.unit_mut(unit) {
            state.attempts = attempt;
            state.left_open = false;
            state.repeatable = repeatable;
        }
        if unit.child.is_none() && self.open_group(unit.node) {
            return;
        }
        self.set_phase(unit, Phase::Running);
    }

    pub(super) fn set_repeatable(&mut self, unit: Unit, repeatable: bool) {
        if let Some(state) = self.unit_mut(unit) {
            state.repeatable = repeatable;
        }
    }

    pub(super) fn complete(&mut self, node: NodeIndex, output: Encoded) {
        let state = &mut self.nodes[node as usize];
        (state.output, state.revised) = (Some(output), None);
        // This node ends the workflow with its output: all other nodes are stopped, also those
        // before it.
        if self.spec.node(node).ends && self.ended_by.is_none() && !self.is_stopped(node) {
            (self.ended_by, self.stopped_from) = (Some(node), Some(0));
            self.set_phase(Unit::node(node), Phase::Done);
            return self.cancel_nodes_from(0, ENDED);
        }
        self.end(node, Phase::Done);
    }

    pub(super) fn skip(&mut self, node: NodeIndex) {
        self.end(node, Phase::Skipped);
    }

    pub(super) fn failed(&mut self, unit: Unit, error: &Arc<Failure>) {
        if let Some(state) = self.unit_mut(unit) {
            state.failures += 1;
            state.left_open = false;
        }
        if was_stopped(error) && error.message.ends_with(BEGUN_ONCE) {
            // A node is not repeatable either if one of its items or branches is not.
            self.nodes[unit.node as usize].unit.repeatable = false;
        }
        if let Some(child) = unit.child {
            return self.child_failed(unit.node, child, error);
        }
        if was_stopped(error) {
            self.nodes[unit.node as usize].cancelled = true;
            return self.end(unit.node, Phase::Failed);
        }
        match self.on_error(unit.node, error) {
            OnError::Skip => self.end(unit.node, Phase::Failed),
            // The effect of the step is unknown, so only an operator can decide if it runs again.
            OnError::Fail if error.kind == FailureKind::Interrupted => {
                self.set_phase(unit, Phase::Interrupted);
            }
            OnError::Fail if self.spec.node(unit.node).has_rescue => {
                self.nodes[unit.node as usize].failure = Some(Arc::clone(error));
                self.end(unit.node, Phase::Failed);
            }
            OnError::Fail => {
                self.end(unit.node, Phase::Failed);
                self.failures.push((unit.node, Arc::clone(error)));
                if self.spec.stop == StopPolicy::FailFast {
                    // Without a written order no node is "after" the failure, so all are stopped.
                    let from = if self.spec.ordered { unit.node } else { 0 };
                    if self.stopped_from.is_none_or(|before| from < before) {
                        self.stopped_from = Some(from);
                        self.cancel_nodes_from(from, STOPPED);
                    }
                }
            }
        }
    }

    /// Returns `true` if a failure or an early end prevents the node from starting.
    pub(super) fn is_stopped(&self, node: NodeIndex) -> bool {
        self.stopped_from.is_some_and(|from| node >= from)
    }

    /// Schedules the cancellation of all nodes from this one on that are running, waiting or
    /// interrupted.
    pub(super) fn cancel_nodes_from(&mut self, from: NodeIndex, reason: &'static str) {
        for at in from as usize..self.nodes.len() {
            let node = index(at);
            self.cancel_children(node, reason);
            let open = matches!(
                self.phase(Unit::node(node)),
                Phase::Running | Phase::Backoff { .. } | Phase::Asking
            );
            let owed = self.phase(Unit::node(node)) == Phase::Interrupted
                || self.is_started_by_earlier_process(Unit::node(node));
            if open || owed {
                self.due.push_back(Command::Cancel { unit: Unit::node(node), reason });
            }
        }
    }

    /// Ends a node in any way, and decides on the nodes that waited for it.
    pub(super) fn end(&mut self, node: NodeIndex, phase: Phase) {
        if self.nodes[node as usize].unit.phase.has_ended() {
            return;
        }
        self.set_phase(Unit::node(node), phase);
        if let Some(by) = self.spec.node(node).decided.as_ref().map(|decided| decided.by) {
            self.nodes[by as usize].revised = None;
        }
        for at in 0..self.spec.followers(node).len() {
            let follower = self.spec.followers(node)[at];
            let state = &mut self.nodes[follower as usize];
            state.open = state.open.saturating_sub(1);
            if state.open == 0 && state.unit.phase == Phase::Waiting {
                self.decide(follower);
            }
        }
        // These nodes need only some of their edges, so they may start before all predecessors have
        // ended.
        if self.spec.has_early_followers() {
            let spec = Arc::clone(&self.spec);
            for chance in spec.chances(node) {
                let state = &self.nodes[chance as usize];
                if state.open == 0 && state.unit.phase == Phase::Waiting {
                    self.decide(chance);
                }
            }
        }
    }

    /// Completes a node without effects whose output was just computed and is not recorded.
    pub(crate) fn evaluated(&mut self, node: NodeIndex, output: Encoded) {
        self.complete(node, output);
    }

    /// Makes a unit ready whose retry delay is over.
    pub(crate) fn wake(&mut self, unit: Unit) {
        if matches!(self.phase(unit), Phase::Backoff { .. }) {
            self.make_ready(unit);
        }
    }
}
