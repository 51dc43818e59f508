//! Selects the next command of the machine.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{Command, InstanceState, Machine, Outcome, Phase, Unit};
use crate::error::{Failure, FailureKind};
use crate::event::PauseReason;
use crate::workflow::spec::{Body, NodeIndex, Outputs};

impl Command {
    /// Returns the unit whose end the command records, for commands that follow from earlier
    /// events.
    pub(super) fn ends(&self) -> Option<Unit> {
        match self {
            Self::Close { node, .. } => Some(Unit::node(*node)),
            Self::Fail { unit, .. } | Self::Cancel { unit, .. } => Some(*unit),
            _ => None,
        }
    }
}

impl Machine {
    /// Returns the next command, or `None` if the machine waits for an event.
    pub(crate) fn command(&mut self) -> Option<Command> {
        while let Some(command) = self.due.pop_front() {
            if self.still_holds(&command) {
                return Some(command);
            }
        }
        // The heap yields the earliest node first. If that one is stopped, so are all later ones.
        while let Some(Reverse(node)) = self.instant.peek().copied()
            && !self.is_stopped(node)
        {
            self.instant.pop();
            if let Some(command) = self.instant_command(node) {
                return Some(command);
            }
        }
        while !self.paused
            && self.has_room()
            && let Some(Reverse(entry)) = self.ready.peek().copied()
            && !self.is_stopped(entry.0)
        {
            self.ready.pop();
            if let Some(command) = self.start_command(entry) {
                return Some(command);
            }
        }
        self.rest()
    }

    /// Returns the command for a node without its own execution: a skip, a value or a router's
    /// choice.
    pub(super) fn instant_command(&self, node: NodeIndex) -> Option<Command> {
        let state = &self.nodes[node as usize];
        match (state.unit.phase, &self.spec.node(node).body) {
            (Phase::Waiting, _) if state.open == 0 => {
                self.obstacle(node).map(|reason| Command::Skip { node, reason })
            }
            (Phase::Ready, Body::Pure(_)) => Some(Command::Evaluate(node)),
            (Phase::Ready, Body::Router { .. }) => Some(Command::Route(node)),
            _ => None,
        }
    }

    /// Returns the command that starts a ready unit, or `None` if the entry of the queue is
    /// outdated.
    fn start_command(&self, (node, child): (NodeIndex, u32)) -> Option<Command> {
        let state = &self.nodes[node as usize];
        if let Some(child) = child.checked_sub(1) {
            let unit = Unit::child(node, child);
            let of = self
                .unit(unit)
                .filter(|of| of.phase == Phase::Ready && state.unit.phase == Phase::Running)?;
            return Some(start(unit, of));
        }
        if state.unit.phase != Phase::Ready {
            return None;
        }
        let definition = self.spec.node(node);
        Some(match &definition.body {
            _ if definition.asks_first() && !state.approved => Command::Ask(node),
            Body::Gate { .. } => Command::Ask(node),
            Body::Step(_) => start(Unit::node(node), &state.unit),
            _ => Command::Open(node),
        })
    }

    /// Returns `true` if a due command is still needed: its unit has not ended in the meantime.
    fn still_holds(&self, command: &Command) -> bool {
        match command {
            Command::Cancel { unit, .. } => !self.phase(*unit).has_ended(),
            Command::Fail { unit, .. } => {
                !self.phase(*unit).has_ended() && self.phase(*unit) != Phase::Interrupted
            }
            Command::Close { node, .. } => !self.phase(Unit::node(*node)).has_ended(),
            _ => true,
        }
    }

    /// Returns the command if no unit can be started: the run pauses or ends.
    fn rest(&mut self) -> Option<Command> {
        if self.active() > 0 || self.waiting_units > 0 || self.paused {
            return None;
        }
        if self.asking > 0 || self.interrupted > 0 {
            // The journal must contain each pause once, also if the machine is polled again or
            // replayed.
            let reason =
                if self.interrupted > 0 { PauseReason::Interrupted } else { PauseReason::Approval };
            return (self.announced != Some(reason)).then_some(Command::Pause(reason));
        }
        if self.running > 0 {
            return None;
        }
        if let Some(output) = self.ended_by.and_then(|node| self.output(node)) {
            return Some(Command::Finish(Outcome::Completed(output.clone())));
        }
        let first = match self.spec.ordered {
            // A function would have failed at the earliest of the failed steps.
            true => self.failures.iter().min_by_key(|(node, _)| *node),
            false => self.failures.first(),
        };
        if let Some((node, error)) = first {
            return Some(Command::Finish(Outcome::Failed {
                node: *node,
                error: Arc::clone(error),
            }));
        }
        let node = self.spec.output;
        Some(Command::Finish(match self.output(node) {
            Some(output) => Outcome::Completed(output.clone()),
            None => {
                let reason =
                    self.obstacle(node).unwrap_or_else(|| self.missing_output_reason(node));
                let message = format!("there is no output: {reason}");
                Outcome::Failed {
                    node,
                    error: Arc::new(Failure::new(FailureKind::NoOutput, message)),
                }
            }
        }))
    }
}

fn start(unit: Unit, state: &InstanceState) -> Command {
    Command::Start { unit, attempt: state.attempts + 1, scope: state.failures + 1 }
}
