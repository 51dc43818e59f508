//! Nodes with items, branches or rounds: which of them start, and how their ends complete or fail
//! the node.

use std::sync::Arc;

use agentflow_schema::diagnostic::Diagnostic;
use agentflow_schema::text::head;

use super::{Command, InstanceState, Machine, Phase, Unit, index};
use crate::error::{Failure, FailureKind};
use crate::state::WITHOUT_OUTPUT;
use crate::value::Encoded;
use crate::workflow::decided::RevisedOutputs;
use crate::workflow::spec::{Body, NodeIndex, Outputs};
use crate::workflow::step_error::{StepError, caught};
use crate::workflow::value_codes;

/// The items of a map, the branches of a race or a fallback, or the rounds of a repetition.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) items: Vec<Encoded>,
    pub(super) units: Vec<InstanceState>,
    pub(super) outputs: Vec<Option<Encoded>>,
    /// Maximum number of units. Items and branches exist from the start. The rounds of a repetition
    /// are added one at a time, since the bound may be much larger than the number of rounds.
    most: usize,
    /// Number of units that have been made ready.
    begun: u32,
    done: u32,
    /// Failures of units, in the order in which they happened.
    causes: Vec<Arc<Failure>>,
}

impl Group {
    fn new(items: Vec<Encoded>, there: usize, most: usize) -> Self {
        let mut group = Self { items, most, ..Self::default() };
        group.grow(there);
        group
    }

    fn grow(&mut self, units: usize) {
        self.units.resize_with(units, InstanceState::default);
        self.outputs.resize(units, None);
    }

    /// Resets all units that have not succeeded, so that they can start again. With `in_turn` (a
    /// fallback), a group that was stopped before all branches had failed continues with the branch
    /// that was running: earlier branches stay failed.
    pub(super) fn reset_failed_units(&mut self, in_turn: bool) {
        let failed =
            self.causes.iter().take_while(|cause| cause.kind != FailureKind::Interrupted).count();
        let from = if in_turn && failed < self.units.len() { failed } else { 0 };
        self.causes.truncate(from);
        for unit in self.units.iter_mut().skip(from).filter(|unit| unit.phase != Phase::Done) {
            unit.phase = Phase::Waiting;
        }
    }
}

/// Maximum number of bytes of a value in an error message.
const SHOWN: usize = 200;

/// Parses the output of a node as a list of items.
fn list_of_items(list: Option<&Encoded>, from: &str) -> Result<Vec<Encoded>, Diagnostic> {
    let Some(list) = list else {
        return Err(Diagnostic::new(value_codes::NO_LIST).name("node", from));
    };
    list.items().map_err(|_| {
        let found = match list.as_str().trim_start().as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'"') => "a text",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "`null`",
            _ => "a number",
        };
        let problem = Diagnostic::new(value_codes::NOT_A_LIST).name("node", from);
        problem.text("kind", found).absent("found", head(list.as_str(), SHOWN))
    })
}

impl Machine {
    /// Creates and starts the items, branches or rounds of a node. Returns `false` for a node
    /// without them.
    pub(super) fn open_group(&mut self, node: NodeIndex) -> bool {
        if let Body::Step(_) = self.spec.node(node).body {
            return false;
        }
        let spec = Arc::clone(&self.spec);
        let definition = spec.node(node);
        if let Some(decided) = &definition.decided {
            // Computed once here, since all items, branches and rounds see the same revised inputs.
            let revised = Arc::new(decided.revised(self));
            self.nodes[decided.by as usize].revised = Some(revised);
        }
        let (items, count, begin) = match &definition.body {
            Body::Map { items, .. } => {
                let seen = RevisedOutputs::by(definition.decided.as_ref(), self);
                let items =
                    match list_of_items(seen.output(*items), self.spec.node(*items).path.names()) {
                        Ok(items) => items,
                        Err(problem) => {
                            // The failure below counts the unit as no longer running.
                            self.set_phase(Unit::node(node), Phase::Running);
                            let error = Arc::new(StepError::of_value(&problem).failure);
                            self.due.push_back(Command::Fail { unit: Unit::node(node), error });
                            return true;
                        }
                    };
                let count = items.len();
                (
                    items,
                    count,
                    definition.policy.concurrency.map_or(count, |limit| limit.max(1) as usize),
                )
            }
            Body::Race(branches) => {
                let at_once = definition
                    .policy
                    .concurrency
                    .map_or(branches.len(), |limit| limit.max(1) as usize);
                (Vec::new(), branches.len(), at_once)
            }
            Body::Fallback(branches) => (Vec::new(), branches.len(), 1),
            Body::Repeat { max, .. } => (Vec::new(), *max as usize, 1),
            _ => return false,
        };
        let state = &mut self.nodes[node as usize];
        state.unit.phase = Phase::Running;
        // A node that runs again keeps the existing group with the outcomes of its items.
        let there = if matches!(definition.body, Body::Repeat { .. }) { 0 } else { count };
        let group = state.group.get_or_insert_with(|| Box::new(Group::new(items, there, count)));
        group.begun = 0;
        for _ in 0..begin {
            self.begin_next(node);
        }
        if count == 0 {
            let collects = matches!(definition.body, Body::Map { collects: true, .. });
            let output = if collects { Encoded::list([]) } else { Encoded::null() };
            self.due.push_back(Command::Close { node, output });
        }
        true
    }

    /// Makes the next unit ready that has not started. Returns `false` if all have started.
    fn begin_next(&mut self, node: NodeIndex) -> bool {
        let Some(group) = self.nodes[node as usize].group.as_mut() else { return false };
        while (group.begun as usize) < group.most {
            let child = group.begun;
            let at = child as usize;
            group.begun += 1;
            if at == group.units.len() {
                group.grow(at + 1);
            }
            if group.units[at].phase == Phase::Waiting {
                self.make_ready(Unit::child(node, child));
                return true;
            }
        }
        false
    }

    /// Adds a round that has started. Its record proves that the previous round was not the last,
    /// even if `until` returns another result today.
    pub(super) fn next_round(&mut self, node: NodeIndex, child: u32) {
        if !matches!(self.spec.node(node).body, Body::Repeat { .. }) {
            return;
        }
        self.due
            .retain(|command| !matches!(command, Command::Close { node: of, .. } if *of == node));
        if let Some(group) = self.nodes[node as usize].group.as_mut()
            && child as usize == group.units.len()
        {
            group.grow(child as usize + 1);
            group.begun = group.begun.max(child + 1);
        }
    }

    /// Applies the success of a unit. `exit` is the value of the request to end the repetition, if
    /// the round made one.
    pub(super) fn child_completed(
        &mut self,
        node: NodeIndex,
        child: u32,
        output: Encoded,
        exit: Option<&Encoded>,
    ) {
        self.set_phase(Unit::child(node, child), Phase::Done);
        let spec = Arc::clone(&self.spec);
        let Some(group) = self.nodes[node as usize].group.as_mut() else { return };
        group.outputs[child as usize] = Some(output.clone());
        group.done += 1;
        let all_done = group.done as usize == group.most;
        match &spec.node(node).body {
            Body::Map { collects, .. } => {
                if all_done {
                    let output = if *collects {
                        Encoded::list(group.outputs.iter().flatten())
                    } else {
                        Encoded::null()
                    };
                    self.due.push_back(Command::Close { node, output });
                } else {
                    self.begin_next(node);
                }
            }
            Body::Race(_) => {
                // The first branch to succeed wins.
                self.cancel_children(node, "another branch was faster");
                self.due.push_back(Command::Close { node, output });
            }
            Body::Repeat { until, .. } => {
                // A request to end the repetition takes precedence over `until`.
                let over = until.as_ref().filter(|_| exit.is_none());
                let over = over.map_or(Ok(exit.is_some()), |until| caught(|| until(&output)));
                match over {
                    Ok(over) if over || all_done || !self.begin_next(node) => {
                        let output = self.output_of_last(Unit::child(node, child), output, exit);
                        self.due.push_back(Command::Close { node, output });
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let message = format!(
                            "whether the repetition is over is not known: {}",
                            error.failure.message
                        );
                        let error = Arc::new(Failure { message, ..error.failure });
                        self.due.push_back(Command::Fail { unit: Unit::node(node), error });
                    }
                }
            }
            _ => self.due.push_back(Command::Close { node, output }),
        }
    }

    /// Returns the output of a repetition that ends with this round. If an agent ended the round
    /// without an answer, this is the input of the round.
    fn output_of_last(&self, round: Unit, output: Encoded, exit: Option<&Encoded>) -> Encoded {
        let is_empty =
            output.as_str() == "\"\"" && exit.is_some_and(|exit| exit.as_str() == WITHOUT_OUTPUT);
        let before = self.item(round).filter(|before| is_empty && before.as_str() != "null");
        before.unwrap_or(output)
    }

    /// Applies the failure of a unit.
    pub(super) fn child_failed(&mut self, node: NodeIndex, child: u32, error: &Arc<Failure>) {
        self.set_phase(Unit::child(node, child), Phase::Failed);
        if self.nodes[node as usize].unit.phase != Phase::Running {
            return;
        }
        let spec = Arc::clone(&self.spec);
        let Some(group) = self.nodes[node as usize].group.as_mut() else { return };
        // The unit was stopped from outside, which does not fail its node.
        if super::was_stopped(error) {
            return;
        }
        group.causes.push(Arc::clone(error));
        let decided = group.outputs.iter().any(Option::is_some);
        let open = group.units.iter().any(|unit| !unit.phase.has_ended());
        match &spec.node(node).body {
            Body::Race(_) if decided => {}
            Body::Race(_) if self.begin_next(node) || open => {}
            // The effect of this branch is unknown, so no other branch may run instead of it.
            Body::Fallback(_) if error.kind == FailureKind::Interrupted => {
                self.due
                    .push_back(Command::Fail { unit: Unit::node(node), error: Arc::clone(error) });
            }
            Body::Fallback(_) if self.begin_next(node) => {}
            Body::Race(_) | Body::Fallback(_) => {
                let error = self.all_failed(node);
                self.due.push_back(Command::Fail { unit: Unit::node(node), error });
            }
            _ => {
                self.cancel_children(node, "another item failed");
                self.due
                    .push_back(Command::Fail { unit: Unit::node(node), error: Arc::clone(error) });
            }
        }
    }

    /// Returns the failure of a node without a successful branch: the last failure, with the
    /// messages of all.
    fn all_failed(&self, node: NodeIndex) -> Arc<Failure> {
        let causes = self.nodes[node as usize]
            .group
            .as_ref()
            .map(|group| &*group.causes)
            .unwrap_or_default();
        let Some(last) = causes.last() else {
            return Arc::new(Failure::new(FailureKind::Error, "no branch succeeded"));
        };
        if causes.len() == 1 {
            return Arc::clone(last);
        }
        let reasons: Vec<&str> = causes.iter().map(|cause| cause.message.as_str()).collect();
        let message = format!("all {} branches failed: {}", causes.len(), reasons.join("; "));
        Arc::new(Failure { message, ..Failure::clone(last) })
    }

    /// Stops all units that are running, ready or waiting for a retry.
    pub(super) fn cancel_children(&mut self, node: NodeIndex, reason: &'static str) {
        let Some(group) = &self.nodes[node as usize].group else { return };
        let open: Vec<u32> = group
            .units
            .iter()
            .enumerate()
            .filter(|(_, unit)| {
                matches!(unit.phase, Phase::Running | Phase::Backoff { .. } | Phase::Ready)
            })
            .map(|(child, _)| index(child))
            .collect();
        for child in open {
            let unit = Unit::child(node, child);
            match self.phase(unit) {
                // It has not started in this process, so no end is due.
                Phase::Ready if !self.is_started_by_earlier_process(unit) => {
                    self.set_phase(unit, Phase::Waiting);
                }
                _ => self.due.push_back(Command::Cancel { unit, reason }),
            }
        }
    }
}
