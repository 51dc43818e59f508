//! The plan of an interpreted workflow, and the order of its effects. The order is decided by the
//! code of the library itself: its file `order.rs` is compiled here, with the types that it needs.

use std::rc::Rc;

use super::interpreted_code::Item;
use super::types::Ty;
use super::value::{Name, Value};

#[path = "../../../crates/core/src/workflow/order.rs"]
mod order;

mod policy {
    /// Effect of a failure on the run.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) enum OnError {
        Fail,
    }
}

mod spec {
    pub(super) use super::{After, NodeIndex, OrderReason, PlanNode};
}

use order::{Frontier, RequiredSteps, Role};

pub(super) type NodeIndex = u32;

/// A node that must end before another node begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct After {
    pub(super) node: NodeIndex,
    pub(super) why: OrderReason,
}

/// Reason why a node waits for another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderReason {
    Asked,
    Write,
    Above,
    Gate,
    Check,
}

impl OrderReason {
    /// Returns `true` if nodes below must not begin if the node above has failed.
    pub(super) fn holds_back(self) -> bool {
        matches!(self, Self::Gate | Self::Check)
    }
}

/// The steps above a node that it waits for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Looks {
    #[default]
    Values,
    Effects,
    Everything,
}

/// The effect of a call that the plan does not show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HiddenEffect {
    Reads,
    Writes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Input,
    Join,
    Gate,
    Other,
}

/// The body of a step, an item, a round or a branch.
#[derive(Clone)]
pub(super) enum StepBody {
    /// A closure, and the handles that it reads.
    Closure(Value, Value),
    /// A nested workflow, and the handles of its inputs.
    Inner(Rc<Plan>, Vec<NodeIndex>),
}

pub(super) struct PlanBranch {
    pub(super) body: StepBody,
    pub(super) callees: Vec<Rc<Item>>,
}

pub(super) enum Body {
    Input,
    Join,
    /// A value or a check, which does not wait.
    Pure(StepBody),
    Router {
        arms: Vec<Name>,
        pick: StepBody,
    },
    Gate(StepBody),
    Step(StepBody),
    Map {
        items: NodeIndex,
        body: StepBody,
        collects: bool,
    },
    Repeat {
        first: NodeIndex,
        until: Value,
        max: u32,
        body: StepBody,
    },
    Fallback(Vec<PlanBranch>),
}

pub(super) struct Policy {
    on_error: policy::OnError,
}

pub(super) struct PlanNode {
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) reads: Vec<NodeIndex>,
    pub(super) after: Vec<After>,
    pub(super) unless: Option<NodeIndex>,
    /// Router and arm that the node is in.
    pub(super) arm: Option<(NodeIndex, u32)>,
    policy: Policy,
    pub(super) callees: Vec<Rc<Item>>,
    /// Function whose call is the whole step.
    pub(super) direct: Option<Rc<Item>>,
    pub(super) writes: bool,
    pub(super) is_opaque: bool,
    pub(super) reads_effects: bool,
    pub(super) unordered: bool,
    pub(super) is_repeatable: bool,
    pub(super) concurrency: Option<u32>,
    pub(super) barrier: Option<OrderReason>,
    pub(super) body: Body,
    pub(super) ty: Ty,
}

impl PlanNode {
    fn guard(&self) -> Option<(NodeIndex, u32)> {
        self.arm
    }

    /// Returns all nodes that must end before this one begins.
    pub(super) fn awaited(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let after = self.after.iter().map(|after| after.node);
        let router = self.arm.map(|(router, _)| router);
        self.reads.iter().copied().chain(after).chain(router).chain(self.unless)
    }

    fn bodies(&self) -> Vec<&Rc<Plan>> {
        self.step_bodies()
            .into_iter()
            .filter_map(|body| match body {
                StepBody::Inner(plan, _) => Some(plan),
                StepBody::Closure(..) => None,
            })
            .collect()
    }

    fn step_bodies(&self) -> Vec<&StepBody> {
        match &self.body {
            Body::Map { body, .. } | Body::Repeat { body, .. } | Body::Step(body) => vec![body],
            Body::Fallback(branches) => branches.iter().map(|branch| &branch.body).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns `true` if calls in the step that the plan does not show wait for earlier steps.
    pub(super) fn has_turn(&self) -> bool {
        !self.writes && !self.unordered && (self.is_opaque || self.callees.len() > 1)
    }
}

pub(super) struct Plan {
    pub(super) nodes: Vec<PlanNode>,
    pub(super) output: NodeIndex,
    /// `true` if steps after a failure go on.
    pub(super) is_best_effort: bool,
}

impl Plan {
    pub(super) fn writes_or_asks(&self) -> bool {
        let asks = |node: &PlanNode| {
            node.kind == Kind::Gate
                || node.callees.iter().any(|callee| callee.tool.is_some_and(|tool| tool.asks))
        };
        self.nodes.iter().any(|node| node.writes || asks(node))
    }

    pub(super) fn effect(&self) -> Option<HiddenEffect> {
        match self.writes_or_asks() {
            true => Some(HiddenEffect::Writes),
            false => {
                let reads = self.nodes.iter().any(|node| node.reads_effects);
                reads.then_some(HiddenEffect::Reads)
            }
        }
    }

    fn barrier(&self) -> Option<OrderReason> {
        let all = || self.nodes.iter().filter_map(|node| node.barrier);
        all().find(|why| *why == OrderReason::Gate).or_else(|| all().next())
    }
}

fn plan_of(item: &Item) -> Option<&Rc<Plan>> {
    item.is_workflow.then(|| item.plan.get().expect("a called workflow was built before"))
}

fn writes(item: &Rc<Item>) -> bool {
    item.tool.is_some_and(|tool| tool.writes)
        || plan_of(item).is_some_and(|plan| plan.writes_or_asks())
}

/// Returns `true` if all effects of a function are declared.
fn is_declared(item: &Rc<Item>) -> bool {
    item.tool.is_some()
        || plan_of(item).is_some_and(|plan| !plan.nodes.iter().any(|node| node.is_opaque))
}

/// Returns the effect of a tool, or `None` if it depends only on its arguments.
pub(super) fn hidden_effect(item: &Item) -> Option<HiddenEffect> {
    let tool = item.tool?;
    match tool.writes || tool.asks {
        true => Some(HiddenEffect::Writes),
        false => tool.reads.then_some(HiddenEffect::Reads),
    }
}

fn reads_effects(item: &Rc<Item>) -> bool {
    match plan_of(item) {
        Some(plan) => plan.effect().is_some(),
        None => hidden_effect(item).is_some(),
    }
}

/// Settings of a node that the expansion writes.
#[derive(Clone, Default)]
pub(super) struct Settings {
    pub(super) is_direct: bool,
    pub(super) is_check: bool,
    pub(super) is_under_its_tools: bool,
    pub(super) looks: Looks,
    pub(super) writes: bool,
    pub(super) unordered: bool,
    pub(super) repeatable: Option<bool>,
    pub(super) concurrency: Option<u32>,
    pub(super) after: Vec<NodeIndex>,
}

/// A node before its place is known.
pub(super) struct NewNode {
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) reads: Vec<NodeIndex>,
    pub(super) arm: Option<(NodeIndex, u32)>,
    pub(super) unless: Option<NodeIndex>,
    pub(super) callees: Vec<Rc<Item>>,
    pub(super) body: Body,
    pub(super) ty: Ty,
}

/// The nodes of a plan that is being built.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) all: Vec<PlanNode>,
    order: order::Order,
}

/// The order at the start of an arm.
pub(super) struct Arm(Frontier);

impl Nodes {
    pub(super) fn open_arm(&mut self, router: NodeIndex) -> Arm {
        Arm(self.order.open_arm(router))
    }

    pub(super) fn close_arm(&mut self, arm: Arm) {
        self.order.close_arm(arm.0);
    }

    /// Adds a node, as the builder of the library does.
    pub(super) fn add(&mut self, new: NewNode, settings: &Settings) -> NodeIndex {
        let NewNode { path, kind, reads, arm, unless, callees, body, ty } = new;
        let first = callees.first().filter(|_| settings.is_direct);
        let is_asking = first.is_some_and(|item| item.tool.is_some_and(|tool| tool.asks));
        // A call that asks for its approval is recorded below the node.
        let policies: Vec<_> = match (settings.is_direct, settings.is_under_its_tools) {
            _ if is_asking => Vec::new(),
            (true, _) => first.and_then(|item| item.tool).into_iter().collect(),
            (false, true) => callees.iter().filter_map(|item| item.tool).collect(),
            (false, false) => Vec::new(),
        };
        let is_one = first.is_some_and(|first| {
            callees.iter().filter(|item| Rc::ptr_eq(item, first)).count() == 1
        });
        let direct = first.filter(|_| is_one && !is_asking).cloned();
        let is_once_and_sync =
            |item: &Rc<Item>| !item.is_async && item.tool.is_some_and(|tool| !tool.is_repeatable());
        let is_once = policies.iter().any(|tool| !tool.is_repeatable())
            || callees.iter().any(is_once_and_sync);
        let mut node = PlanNode {
            path,
            kind,
            reads,
            after: settings
                .after
                .iter()
                .map(|node| After { node: *node, why: OrderReason::Asked })
                .collect(),
            unless: unless.filter(|_| kind != Kind::Join),
            arm,
            policy: Policy { on_error: policy::OnError::Fail },
            direct,
            writes: settings.writes || callees.iter().any(writes),
            is_opaque: false,
            reads_effects: callees.iter().any(reads_effects),
            unordered: settings.unordered,
            is_repeatable: settings.repeatable.unwrap_or(!is_once),
            concurrency: settings.concurrency,
            barrier: match kind {
                Kind::Gate => Some(OrderReason::Gate),
                _ => settings.is_check.then_some(OrderReason::Check),
            },
            callees,
            body,
            ty,
        };
        let inner: Vec<Rc<Plan>> = node.bodies().into_iter().cloned().collect();
        node.writes |= inner.iter().any(|plan| plan.writes_or_asks());
        node.reads_effects |= inner.iter().any(|plan| plan.effect().is_some());
        node.is_opaque = is_opaque(&node, settings.is_direct)
            || inner.iter().any(|plan| plan.nodes.iter().any(|node| node.is_opaque));
        if node.barrier.is_none() && !node.unordered {
            let of_bodies: Vec<_> = inner.iter().filter_map(|plan| plan.barrier()).collect();
            node.barrier = match of_bodies.contains(&OrderReason::Gate) {
                true => Some(OrderReason::Gate),
                false => (!of_bodies.is_empty()).then_some(OrderReason::Check),
            };
        }
        if !matches!(kind, Kind::Input | Kind::Join) {
            let role = Role {
                writes: node.writes && kind != Kind::Gate,
                looks: match settings.looks {
                    Looks::Values => RequiredSteps::Values,
                    Looks::Effects => RequiredSteps::Effects,
                    Looks::Everything => RequiredSteps::Everything,
                },
                is_opaque: node.is_opaque,
                reads: node.reads_effects,
                barrier: node.barrier,
            };
            let edges = self.order.place(&self.all, &node, role, node.unordered);
            node.after.extend(edges);
        }
        self.all.push(node);
        (self.all.len() - 1) as NodeIndex
    }
}

/// Returns `true` if a node may make calls that the plan does not show.
fn is_opaque(node: &PlanNode, is_direct: bool) -> bool {
    match &node.body {
        Body::Step(StepBody::Closure(..))
        | Body::Map { body: StepBody::Closure(..), .. }
        | Body::Repeat { body: StepBody::Closure(..), .. } => {
            !(is_direct && node.callees.first().is_some_and(is_declared))
        }
        Body::Fallback(branches) => {
            let calls = branches
                .iter()
                .filter(|branch| matches!(branch.body, StepBody::Closure(..)))
                .count();
            node.callees.len() < calls || !node.callees.iter().all(is_declared)
        }
        _ => false,
    }
}
