//! The interpreter of a workflow as a pure machine: recorded events go in, the next command comes out.
//!
//! It does no I/O, reads no clock, draws no random number and is not async. What is ready runs in the order in which it
//! was defined. It alone decides on failures, skipped nodes and the end of the run.
//! Its work is linear in nodes and edges.

mod answers;
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

pub(crate) use self::answers::AskedAt;
use self::group::Group;
use self::stopped::{BEGUN_ONCE, ENDED, STOPPED};
pub(crate) use self::stopped::{stopped, was_stopped};
use self::turn_order::OpenFrom;
use super::decided::SeenBy;
use super::outputs::Revised;
use super::policy::{OnError, StopPolicy};
use super::spec::{Body, NodeIndex, Outputs, Spec};
use crate::error::{Failure, FailureKind};
use crate::event::{EventKind, PauseReason};
use crate::state::{EXIT, SavedByStep};
use crate::time::Timestamp;
use crate::value::Encoded;

/// A node, or one of the items or branches of a node: what is started and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Unit {
    pub(crate) node: NodeIndex,
    /// The item or branch, from 0.
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

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// Compute the output of a node that has no effects.
    Evaluate(NodeIndex),
    /// Choose the arm of a router.
    Route(NodeIndex),
    /// Start an attempt. `scope` numbers what the attempt records below itself.
    Start { unit: Unit, attempt: u32, scope: u32 },
    /// Record that a node with items or branches has begun.
    Open(NodeIndex),
    /// Record that such a node has its output.
    Close { node: NodeIndex, output: Encoded },
    /// Ask a person.
    Ask(NodeIndex),
    /// Record that a node will not run.
    Skip { node: NodeIndex, reason: Arc<str> },
    /// Record that a node has failed or was interrupted.
    Fail { unit: Unit, error: Arc<Failure> },
    /// Stop a running attempt, or a wait for one, and record it.
    Cancel { unit: Unit, reason: &'static str },
    /// Record that the run waits.
    Pause(PauseReason),
    /// Record how the run ends.
    Finish(Outcome),
}

/// How a workflow ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Completed(Encoded),
    Failed { node: NodeIndex, error: Arc<Failure> },
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    spec: Arc<Spec>,
    nodes: Vec<NodeState>,
    /// What can be started when there is room, the first defined first: nodes as `(node, 0)`, their items and branches
    /// as `(node, item + 1)`. An entry that no longer holds is passed over.
    ready: BinaryHeap<Reverse<(NodeIndex, u32)>>,
    /// Nodes that are done at once, whatever else runs: values, routers, and nodes that will not run.
    instant: BinaryHeap<Reverse<NodeIndex>>,
    /// Commands that follow from what has happened.
    due: VecDeque<Command>,
    running: usize,
    /// Number of running units that wait for steps above.
    held: usize,
    waiting_units: usize,
    asking: usize,
    interrupted: usize,
    /// An operator paused the run.
    paused: bool,
    /// That the run waits is recorded, with what it waits for.
    announced: Option<PauseReason>,
    /// The nodes that the run fails of, in the order of their failures.
    failures: Vec<(NodeIndex, Arc<Failure>)>,
    /// The node that has ended the workflow with its output.
    ended_by: Option<NodeIndex>,
    /// A failure stops everything from this node on: in a workflow with written order, what is below it. What is above
    /// it goes to its end first, as it would have in a function; a failure there counts in its place.
    stopped_from: Option<NodeIndex>,
    /// The state as it was when the workflow began.
    began_with: Option<Arc<SavedByStep>>,
    open_from: OpenFrom,
}

#[derive(Clone, Debug)]
struct NodeState {
    /// How many predecessors have not ended.
    open: u32,
    unit: UnitState,
    approved: bool,
    /// It was stopped because of another node, so it runs again when that one does.
    cancelled: bool,
    /// The last question about it.
    asked: Option<AskedAt>,
    /// Nobody has answered in time, and for that it counts as skipped.
    passed_over: bool,
    output: Option<Encoded>,
    /// What it gives the node that it decides on to see, while that one runs through items, branches or rounds.
    revised: Option<Arc<Revised>>,
    /// What it saved, for the conditions of edges.
    saved: Option<Arc<SavedByStep>>,
    /// Why it failed, where an edge is taken for that.
    failure: Option<Arc<Failure>>,
    group: Option<Box<Group>>,
}

#[derive(Clone, Debug, Default)]
struct UnitState {
    phase: Phase,
    attempts: u32,
    failures: u32,
    repeatable: bool,
    /// An earlier process began it and recorded no end; that is owed until it begins again.
    left_open: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Waiting,
    /// Everything before it has ended: it can begin.
    Ready,
    /// It has begun: as a unit, or through its items or branches.
    Running,
    /// Its next attempt comes at a time, so long after the last one.
    Backoff {
        until: Timestamp,
        delay_ms: u32,
    },
    /// A person is asked.
    Asking,
    /// It was interrupted and waits for an operator.
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
    /// A machine that has been given nothing but the workflow's inputs, in the order of the input nodes.
    pub(crate) fn new(spec: Arc<Spec>, inputs: Vec<Encoded>) -> Self {
        let nodes = spec.nodes.iter().map(|node| NodeState {
            open: node.awaited_count(),
            unit: UnitState::default(),
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
            open_from: OpenFrom::default(),
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
        for at in 0..machine.nodes.len() {
            let node = index(at);
            if matches!(machine.spec.node(node).body, Body::Input { .. }) {
                machine.complete(node, inputs.next().unwrap_or_else(Encoded::null));
            } else if machine.nodes[at].open == 0 && machine.nodes[at].unit.phase == Phase::Waiting {
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

    /// The item that a step of a map or a repetition is given.
    pub(crate) fn item(&self, unit: Unit) -> Option<Encoded> {
        let (group, child) = (self.nodes[unit.node as usize].group.as_ref()?, unit.child? as usize);
        let node = self.spec.node(unit.node);
        match node.body {
            Body::Repeat { first, .. } if child == 0 => SeenBy::by(node.decided.as_ref(), self).output(first).cloned(),
            Body::Repeat { .. } => group.outputs.get(child - 1)?.clone(),
            _ => group.items.get(child).cloned(),
        }
    }

    /// Every unit whose next attempt waits for its time, and every node that asks, with the moment it began to.
    pub(crate) fn pending_times(&self) -> Vec<(Unit, Timestamp)> {
        let mut times = Vec::new();
        for (at, state) in self.nodes.iter().enumerate() {
            let node = index(at);
            match state.unit.phase {
                Phase::Backoff { until, .. } => times.push((Unit::node(node), until)),
                Phase::Asking => times.extend(state.asked.as_ref().map(|asked| (Unit::node(node), asked.since))),
                _ => {}
            }
            for (child, unit) in state.group.iter().flat_map(|group| group.units.iter().enumerate()) {
                if let Phase::Backoff { until, .. } = unit.phase {
                    times.push((Unit::child(node, index(child)), until));
                }
            }
        }
        times
    }

    /// Whether an operator paused it.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// What it waits for, if that is recorded.
    pub(crate) fn pause_reason(&self) -> Option<PauseReason> {
        self.announced
    }

    /// The workflow's inputs, in their order.
    pub(crate) fn inputs(&self) -> Vec<Encoded> {
        let is_input = |at: &usize| matches!(self.spec.nodes[*at].body, Body::Input { .. });
        (0..self.nodes.len()).filter(is_input).filter_map(|at| self.nodes[at].output.clone()).collect()
    }

    /// How many attempts at a unit have begun.
    pub(crate) fn attempts(&self, unit: Unit) -> u32 {
        self.unit(unit).map_or(0, |unit| unit.attempts)
    }

    /// Whether an earlier process began it and nothing has been recorded of it since.
    pub(crate) fn is_left_open(&self, unit: Unit) -> bool {
        self.unit(unit).is_some_and(|unit| unit.left_open)
    }

    /// How many attempts at a unit have failed.
    pub(crate) fn failures(&self, unit: Unit) -> u32 {
        self.unit(unit).map_or(0, |unit| unit.failures)
    }

    /// Everything that has begun and has no end, items and branches before their node.
    pub(crate) fn open_units(&self) -> Vec<Unit> {
        let mut open = Vec::new();
        for (at, state) in self.nodes.iter().enumerate() {
            let node = index(at);
            let children = state.group.iter().flat_map(|group| group.units.iter().enumerate());
            let running = |unit: &UnitState| unit.phase == Phase::Running || unit.left_open;
            open.extend(children.filter(|(_, unit)| running(unit)).map(|(at, _)| Unit::child(node, index(at))));
            open.extend(running(&state.unit).then_some(Unit::node(node)));
        }
        open
    }

    /// A node with its items or branches.
    pub(crate) fn units(&self, node: NodeIndex) -> impl Iterator<Item = Unit> + use<> {
        let children = self.nodes[node as usize].group.as_ref().map_or(0, |group| group.units.len());
        std::iter::once(Unit::node(node)).chain((0..children).map(move |child| Unit::child(node, index(child))))
    }

    fn unit(&self, unit: Unit) -> Option<&UnitState> {
        let state = self.nodes.get(unit.node as usize)?;
        match unit.child {
            None => Some(&state.unit),
            Some(child) => state.group.as_ref()?.units.get(child as usize),
        }
    }

    fn unit_mut(&mut self, unit: Unit) -> Option<&mut UnitState> {
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
        // A node with items runs through them and does not count itself.
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

    /// A node that is waited for no more: does it run, is it skipped, is it nothing but a value?
    fn decide(&mut self, node: NodeIndex) {
        let definition = self.spec.node(node);
        if !self.is_known(definition) {
            return;
        }
        if let Some(problem) = self.broken(definition) {
            let error = Arc::new(Failure::new(FailureKind::Value, problem));
            self.due.push_back(Command::Fail { unit: Unit::node(node), error });
            return;
        }
        let is_pure = definition.body.is_pure();
        if let Body::Join = definition.body {
            // The end of an arm may be a node outside of it: then its join has the arm's guard.
            let taken = match self.not_entered(definition) {
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
            // The reason is given when its turn comes.
            self.instant.push(Reverse(node));
        }
    }

    fn make_ready(&mut self, unit: Unit) {
        self.set_phase(unit, Phase::Ready);
        let definition = self.spec.node(unit.node);
        let is_asked_first = definition.asks_first() && !self.nodes[unit.node as usize].approved;
        match (&definition.body, unit.child) {
            (Body::Pure(_) | Body::Router { .. }, None) if !is_asked_first => self.instant.push(Reverse(unit.node)),
            (_, child) => self.ready.push(Reverse((unit.node, child.map_or(0, |child| child + 1)))),
        }
    }

    /// Takes in what was recorded of a unit.
    pub(crate) fn apply(&mut self, unit: Unit, kind: &EventKind, time: Timestamp) {
        if let (Some(child), EventKind::NodeStarted { .. }) = (unit.child, kind) {
            self.next_round(unit.node, child);
        }
        if unit.child.is_some() && self.unit(unit).is_none() {
            return;
        }
        if matches!(kind, EventKind::NodeCompleted { .. } | EventKind::NodeFailed { .. }) {
            // What was due of it is recorded by this: a later attempt is not to be ended by it.
            self.due.retain(|command| command.ends() != Some(unit));
        }
        match kind {
            EventKind::NodeStarted { attempt, repeatable, .. } => self.started(unit, *attempt, *repeatable),
            // Nothing of a call runs that asks people.
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
                self.nodes[unit.node as usize].asked = Some(AskedAt::new(time, question));
                self.set_phase(unit, Phase::Asking);
            }
            EventKind::ApprovalResolved { answer, .. } => self.resolved(unit.node, answer),
            _ => {}
        }
    }

    /// An operator paused the run that this is a step of, or lets it continue.
    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Takes in that the run was paused, or continues.
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
            // What it waited for may be gone with the change.
            EventKind::RunResumed { redefined: Some(_), .. } if !self.paused => self.announced = None,
            _ => {}
        }
    }

    fn started(&mut self, unit: Unit, attempt: u32, repeatable: bool) {
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

    fn set_repeatable(&mut self, unit: Unit, repeatable: bool) {
        if let Some(state) = self.unit_mut(unit) {
            state.repeatable = repeatable;
        }
    }

    fn complete(&mut self, node: NodeIndex, output: Encoded) {
        let state = &mut self.nodes[node as usize];
        (state.output, state.revised) = (Some(output), None);
        if self.spec.node(node).ends && self.ended_by.is_none() && !self.is_stopped(node) {
            (self.ended_by, self.stopped_from) = (Some(node), Some(0));
            self.set_phase(Unit::node(node), Phase::Done);
            return self.cancel_from(0, ENDED);
        }
        self.end(node, Phase::Done);
    }

    fn skip(&mut self, node: NodeIndex) {
        self.end(node, Phase::Skipped);
    }

    fn failed(&mut self, unit: Unit, error: &Arc<Failure>) {
        if let Some(state) = self.unit_mut(unit) {
            state.failures += 1;
            state.left_open = false;
        }
        if was_stopped(error) && error.message.ends_with(BEGUN_ONCE) {
            // Also of a node through its items and branches.
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
            // Whether it had its effect is not known, so whether it runs again is not ours to say.
            OnError::Fail if error.kind == FailureKind::Interrupted => self.set_phase(unit, Phase::Interrupted),
            OnError::Fail if self.spec.node(unit.node).has_rescue => {
                self.nodes[unit.node as usize].failure = Some(Arc::clone(error));
                self.end(unit.node, Phase::Failed);
            }
            OnError::Fail => {
                self.end(unit.node, Phase::Failed);
                self.failures.push((unit.node, Arc::clone(error)));
                if self.spec.stop == StopPolicy::FailFast {
                    let from = if self.spec.ordered { unit.node } else { 0 };
                    if self.stopped_from.is_none_or(|before| from < before) {
                        self.stopped_from = Some(from);
                        self.cancel_from(from, STOPPED);
                    }
                }
            }
        }
    }

    /// Whether a failure keeps a node from beginning.
    fn is_stopped(&self, node: NodeIndex) -> bool {
        self.stopped_from.is_some_and(|from| node >= from)
    }

    /// Stops everything that runs from a node on.
    fn cancel_from(&mut self, from: NodeIndex, reason: &'static str) {
        for at in from as usize..self.nodes.len() {
            let node = index(at);
            self.cancel_children(node, reason);
            let open = matches!(self.phase(Unit::node(node)), Phase::Running | Phase::Backoff { .. } | Phase::Asking);
            let owed = self.phase(Unit::node(node)) == Phase::Interrupted || self.is_left_open(Unit::node(node));
            if open || owed {
                self.due.push_back(Command::Cancel { unit: Unit::node(node), reason });
            }
        }
    }

    /// A node has ended, one way or another: those after it may be decided on.
    fn end(&mut self, node: NodeIndex, phase: Phase) {
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
        if self.spec.has_chances() {
            let spec = Arc::clone(&self.spec);
            for chance in spec.chances(node) {
                let state = &self.nodes[chance as usize];
                if state.open == 0 && state.unit.phase == Phase::Waiting {
                    self.decide(chance);
                }
            }
        }
    }

    /// The output of a node that has no effects, or why there is none.
    pub(crate) fn evaluated(&mut self, node: NodeIndex, output: Encoded) {
        self.complete(node, output);
    }

    /// A unit whose pause before the next attempt is over.
    pub(crate) fn wake(&mut self, unit: Unit) {
        if matches!(self.phase(unit), Phase::Backoff { .. }) {
            self.make_ready(unit);
        }
    }
}

fn index(at: usize) -> NodeIndex {
    NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX)
}
