//! The workflow interpreter, a pure state machine: recorded events go in, the next [`Command`]
//! comes out.
//!
//! The driver calls [`Machine::command`] for the next command, executes it, records the outcome as
//! an event and hands the event to [`Machine::apply`]. After a restart it applies the events of the
//! journal in the same way.
//!
//! The machine does no I/O, reads no clock, uses no randomness and is not async. Ready nodes start
//! in the order of their definition. The machine alone decides about failures, skipped nodes and
//! the end of the run. Its work is linear in the number of nodes and edges.
//!
//! - `apply`: applies recorded events.
//! - `next`: selects the next command.
//! - `entries`, `obstacle`: decide from edges, arms and missing outputs if a node runs or is
//!   skipped.
//! - `group`: items of a map, branches of a race or a fallback, rounds of a repetition.
//! - `answers`: approvals and their timeouts.
//! - `recover`: makes nodes runnable again after a restart, a retry or a changed definition.
//! - `turn_order`: the written order of calls that the plan does not show.

mod answers;
mod apply;
mod entries;
mod group;
mod next;
mod obstacle;
mod recover;
mod seen_state;
mod stopped;
mod turn_order;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

pub(crate) use self::answers::TimedQuestion;
use self::group::Group;
pub(crate) use self::stopped::{stopped, was_stopped};
use self::turn_order::OpenNodeBounds;
use super::decided::RevisedOutputs;
use super::outputs::RevisedInput;
use super::spec::{Body, NodeIndex, Outputs, Spec};
use crate::error::Failure;
use crate::event::PauseReason;
use crate::state::SavedByStep;
use crate::time::Timestamp;
use crate::value::Encoded;

/// Identifies a node, or one item, branch or round of a node. Each is started and ends separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Unit {
    pub(crate) node: NodeIndex,
    /// Index of the item, branch or round, from 0. `None` for the node.
    pub(crate) child: Option<u32>,
}

impl Unit {
    pub(crate) const fn node(node: NodeIndex) -> Self {
        Self { node, child: None }
    }

    pub(crate) const fn child(node: NodeIndex, child: u32) -> Self {
        Self { node, child: Some(child) }
    }
}

/// The next action for the driver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// Compute the output of a node that has no effects.
    Evaluate(NodeIndex),
    /// Choose the arm of a router.
    Route(NodeIndex),
    /// Start an attempt. `scope` numbers the records that the attempt makes below its path.
    Start { unit: Unit, attempt: u32, scope: u32 },
    /// Record the start of a node with items, branches or rounds.
    Open(NodeIndex),
    /// Record the output of a node with items, branches or rounds.
    Close { node: NodeIndex, output: Encoded },
    /// Ask a person the question of the node.
    Ask(NodeIndex),
    /// Record that the node does not run.
    Skip { node: NodeIndex, reason: Arc<str> },
    /// Record that the unit failed or was interrupted.
    Fail { unit: Unit, error: Arc<Failure> },
    /// Stop a running attempt, or the wait for the next one, and record it.
    Cancel { unit: Unit, reason: &'static str },
    /// Record that the run waits.
    Pause(PauseReason),
    /// Record the end of the run.
    Finish(Outcome),
}

/// The result of a workflow run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Completed(Encoded),
    Failed { node: NodeIndex, error: Arc<Failure> },
}

/// The state of one workflow run.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    spec: Arc<Spec>,
    nodes: Vec<NodeState>,
    /// Units that can start when the concurrency limit allows it, in the order of their definition.
    /// A node is `(node, 0)`, an item or branch is `(node, index + 1)`. Entries may be outdated and
    /// are checked when they are taken out.
    ready: BinaryHeap<Reverse<(NodeIndex, u32)>>,
    /// Nodes that are processed at once, regardless of the concurrency limit: values, routers and
    /// nodes that are skipped.
    instant: BinaryHeap<Reverse<NodeIndex>>,
    /// Commands that earlier events made necessary. They precede new starts.
    due: VecDeque<Command>,
    running: usize,
    /// Number of running units that wait for earlier steps.
    held: usize,
    waiting_units: usize,
    asking: usize,
    interrupted: usize,
    /// `true` if an operator paused the run.
    paused: bool,
    /// Reason of the pause that the journal already contains.
    announced: Option<PauseReason>,
    /// Failures that make the run fail, in the order in which they happened.
    failures: Vec<(NodeIndex, Arc<Failure>)>,
    /// Node that ended the workflow early with its output.
    ended_by: Option<NodeIndex>,
    /// First node that may no longer run because of a failure. In a workflow with written order,
    /// nodes before the failed one continue to their end, as they would have in a function. If one
    /// of them fails, its failure replaces this one.
    stopped_from: Option<NodeIndex>,
    /// State at the start of the workflow.
    began_with: Option<Arc<SavedByStep>>,
    open_from: OpenNodeBounds,
}

#[derive(Clone, Debug)]
struct NodeState {
    /// Number of predecessors that have not ended.
    open: u32,
    unit: InstanceState,
    approved: bool,
    /// `true` if the node was stopped because another node failed. It runs again when that node
    /// does.
    cancelled: bool,
    /// Most recent question about the node.
    asked: Option<TimedQuestion>,
    /// `true` if the question of the node, or of its call, timed out and is configured to skip the
    /// node.
    passed_over: bool,
    output: Option<Encoded>,
    /// Revised inputs for the node that this node decides on. Set while that node runs its items,
    /// branches or rounds.
    revised: Option<Arc<RevisedInput>>,
    /// State that the node saved, for conditions on edges.
    saved: Option<Arc<SavedByStep>>,
    /// Failure of the node, if an edge for failures leaves it.
    failure: Option<Arc<Failure>>,
    group: Option<Box<Group>>,
}

#[derive(Clone, Debug, Default)]
struct InstanceState {
    phase: Phase,
    attempts: u32,
    failures: u32,
    repeatable: bool,
    /// `true` if an earlier process started the unit and recorded no end. The end is due unless the
    /// unit starts again.
    left_open: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Waiting,
    /// All predecessors have ended: it can start.
    Ready,
    /// It has started. A node with items or branches is running while they run.
    Running,
    /// It failed and waits for the next attempt: until this time, at most this delay after the
    /// failure.
    Backoff {
        until: Timestamp,
        delay_ms: u32,
    },
    /// It waits for the answer of a person.
    Asking,
    /// Its effect is unknown. It waits for a decision of an operator.
    Interrupted,
    Done,
    Skipped,
    Failed,
}

impl Phase {
    pub(crate) fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Skipped | Self::Failed)
    }
}

impl Machine {
    /// Creates a machine before its first command. `inputs` are in the order of the input nodes.
    pub(crate) fn new(spec: Arc<Spec>, inputs: Vec<Encoded>) -> Self {
        let nodes = spec.nodes.iter().map(|node| NodeState {
            open: node.awaited_count(),
            unit: InstanceState::default(),
            approved: false,
            cancelled: false,
            asked: None,
            passed_over: false,
            output: None,
            revised: None,
            saved: None,
            failure: None,
            group: None,
        });
        let mut machine = Self {
            nodes: nodes.collect(),
            ready: BinaryHeap::new(),
            instant: BinaryHeap::new(),
            due: VecDeque::new(),
            running: 0,
            held: 0,
            open_from: OpenNodeBounds::default(),
            waiting_units: 0,
            asking: 0,
            interrupted: 0,
            paused: false,
            announced: None,
            failures: Vec::new(),
            ended_by: None,
            stopped_from: None,
            began_with: None,
            spec,
        };
        let mut inputs = inputs.into_iter();
        // Nodes without predecessors are decided on here. All others follow when their last
        // predecessor ends.
        for at in 0..machine.nodes.len() {
            let node = index(at);
            if matches!(machine.spec.node(node).body, Body::Input { .. }) {
                machine.complete(node, inputs.next().unwrap_or_else(Encoded::null));
            } else if machine.nodes[at].open == 0 && machine.nodes[at].unit.phase == Phase::Waiting
            {
                machine.decide(node);
            }
        }
        machine
    }

    pub(crate) fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    pub(crate) fn phase(&self, unit: Unit) -> Phase {
        self.unit(unit).map_or(Phase::Waiting, |unit| unit.phase)
    }

    /// Returns the input of an item or a round: the item of the list, or the output of the previous
    /// round.
    pub(crate) fn item(&self, unit: Unit) -> Option<Encoded> {
        let (group, child) = (self.nodes[unit.node as usize].group.as_ref()?, unit.child? as usize);
        let node = self.spec.node(unit.node);
        match node.body {
            Body::Repeat { first, .. } if child == 0 => {
                RevisedOutputs::by(node.decided.as_ref(), self).output(first).cloned()
            }
            Body::Repeat { .. } => group.outputs.get(child - 1)?.clone(),
            _ => group.items.get(child).cloned(),
        }
    }

    /// Returns the units that wait for a time: the end of a retry delay, or the moment at which a
    /// question was asked.
    pub(crate) fn pending_times(&self) -> Vec<(Unit, Timestamp)> {
        let mut times = Vec::new();
        for (at, state) in self.nodes.iter().enumerate() {
            let node = index(at);
            match state.unit.phase {
                Phase::Backoff { until, .. } => times.push((Unit::node(node), until)),
                Phase::Asking => {
                    times.extend(state.asked.as_ref().map(|asked| (Unit::node(node), asked.since)));
                }
                _ => {}
            }
            for (child, unit) in state.group.iter().flat_map(|group| group.units.iter().enumerate())
            {
                if let Phase::Backoff { until, .. } = unit.phase {
                    times.push((Unit::child(node, index(child)), until));
                }
            }
        }
        times
    }

    /// Returns `true` if an operator paused the run.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns the reason of the pause that the journal contains.
    pub(crate) fn pause_reason(&self) -> Option<PauseReason> {
        self.announced
    }

    /// Returns the inputs of the workflow, in the order of its input nodes.
    pub(crate) fn inputs(&self) -> Vec<Encoded> {
        let is_input = |at: &usize| matches!(self.spec.nodes[*at].body, Body::Input { .. });
        (0..self.nodes.len())
            .filter(is_input)
            .filter_map(|at| self.nodes[at].output.clone())
            .collect()
    }

    /// Returns the number of attempts that have started.
    pub(crate) fn attempts(&self, unit: Unit) -> u32 {
        self.unit(unit).map_or(0, |unit| unit.attempts)
    }

    /// Returns `true` if an earlier process started the unit and nothing was recorded for it since.
    pub(crate) fn is_started_by_earlier_process(&self, unit: Unit) -> bool {
        self.unit(unit).is_some_and(|unit| unit.left_open)
    }

    /// Returns the number of attempts that have failed.
    pub(crate) fn failures(&self, unit: Unit) -> u32 {
        self.unit(unit).map_or(0, |unit| unit.failures)
    }

    /// Returns the units that have started and not ended. Items and branches precede their node.
    pub(crate) fn open_units(&self) -> Vec<Unit> {
        let mut open = Vec::new();
        for (at, state) in self.nodes.iter().enumerate() {
            let node = index(at);
            let children = state.group.iter().flat_map(|group| group.units.iter().enumerate());
            let running = |unit: &InstanceState| unit.phase == Phase::Running || unit.left_open;
            open.extend(
                children
                    .filter(|(_, unit)| running(unit))
                    .map(|(at, _)| Unit::child(node, index(at))),
            );
            open.extend(running(&state.unit).then_some(Unit::node(node)));
        }
        open
    }

    /// Returns the node, followed by its items, branches or rounds.
    pub(crate) fn units(&self, node: NodeIndex) -> impl Iterator<Item = Unit> + use<> {
        let children =
            self.nodes[node as usize].group.as_ref().map_or(0, |group| group.units.len());
        std::iter::once(Unit::node(node))
            .chain((0..children).map(move |child| Unit::child(node, index(child))))
    }

    fn unit(&self, unit: Unit) -> Option<&InstanceState> {
        let state = self.nodes.get(unit.node as usize)?;
        match unit.child {
            None => Some(&state.unit),
            Some(child) => state.group.as_ref()?.units.get(child as usize),
        }
    }

    fn unit_mut(&mut self, unit: Unit) -> Option<&mut InstanceState> {
        let state = self.nodes.get_mut(unit.node as usize)?;
        match unit.child {
            None => Some(&mut state.unit),
            Some(child) => state.group.as_mut()?.units.get_mut(child as usize),
        }
    }

    fn set_phase(&mut self, unit: Unit, phase: Phase) {
        let Some(state) = self.unit_mut(unit) else { return };
        let before = std::mem::replace(&mut state.phase, phase);
        if before.has_ended() && !phase.has_ended() {
            self.open_from.again(unit.node);
        }
        // A node with a group does not count against the concurrency limit itself: its items and
        // branches do.
        let counts = unit.child.is_some() || self.nodes[unit.node as usize].group.is_none();
        for (phase, change) in [(before, -1_isize), (phase, 1)] {
            let counter = match phase {
                Phase::Running if counts => &mut self.running,
                Phase::Backoff { .. } => &mut self.waiting_units,
                Phase::Asking => &mut self.asking,
                Phase::Interrupted => &mut self.interrupted,
                _ => continue,
            };
            *counter = counter.saturating_add_signed(change);
        }
    }

    /// Decides on a node whose predecessors have ended: makes it ready, completes it or skips it.
    fn decide(&mut self, node: NodeIndex) {
        let definition = self.spec.node(node);
        if !self.is_known(definition) {
            return;
        }
        if let Some(failure) = self.broken(definition) {
            let error = Arc::new(failure);
            self.due.push_back(Command::Fail { unit: Unit::node(node), error });
            return;
        }
        let is_pure = definition.body.is_pure();
        if let Body::Join = definition.body {
            // The end of an arm may be a node outside of the arm. The join then has the guard of
            // the arm.
            let taken = match self.missing_edges_reason(definition) {
                None => definition.reads.iter().find_map(|end| self.output(*end).cloned()),
                Some(_) => None,
            };
            match taken {
                Some(output) => self.complete(node, output),
                None => self.skip(node),
            }
            return;
        }
        if self.obstacle(node).is_none() {
            self.make_ready(Unit::node(node));
        } else if is_pure {
            self.skip(node);
        } else {
            // `instant_command` computes the reason later, so that skips are recorded in the order
            // of the plan.
            self.instant.push(Reverse(node));
        }
    }

    fn make_ready(&mut self, unit: Unit) {
        self.set_phase(unit, Phase::Ready);
        let definition = self.spec.node(unit.node);
        let is_asked_first = definition.asks_first() && !self.nodes[unit.node as usize].approved;
        match (&definition.body, unit.child) {
            (Body::Pure(_) | Body::Router { .. }, None) if !is_asked_first => {
                self.instant.push(Reverse(unit.node));
            }
            (_, child) => self.ready.push(Reverse((unit.node, child.map_or(0, |child| child + 1)))),
        }
    }
}

fn index(at: usize) -> NodeIndex {
    NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX)
}
