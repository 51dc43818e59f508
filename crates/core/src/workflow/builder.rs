//! `Builder`: adds nodes to a typed workflow. `#[workflow]` expands to it, and it can be used
//! directly.
//!
//! The builder reports errors that the type system cannot find: invalid names and handles of other
//! builders.

use agentflow_schema::diagnostic::Diagnostic;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::bodies::{encode, item_step_of, load, step_of, until_of};
use super::called_tools::CalledTools;
use super::decision_step::Ask;
use super::entry::{Begins, Entry};
use super::graph_codes;
use super::names;
use super::node::{Branch, Node};
use super::node_handle::{Handle, RawHandle, Reads};
use super::node_problems::{problems_of_nodes, problems_of_plan};
use super::node_schema::{NodeSchema, ValueCheck};
use super::order::{Order, Role};
use super::policy::StopPolicy;
use super::run_limits::RunLimits;
use super::skipped_nodes::record_why_needed;
use super::spec::{
    After, Body, Branch as SpecBranch, ItemStep, NodeIndex, NodeKind, OrderReason, PlanNode, Spec,
    Until,
};
use super::step_error::{StepError, StepFailure};
use crate::context::Context;
use crate::error::FailureKind;
use crate::event::ApprovalRequest;
use crate::path::StepPath;
use crate::value::{Encoded, NodeValue};

/// The name of an output's Rust type, and its schema.
pub(super) type TypeOf = (Cow<'static, str>, NodeSchema);

/// A handle to a router node. Created by [`Builder::route`] and [`Builder::route_all`].
#[derive(Clone, Copy, Debug)]
pub struct Router {
    node: NodeIndex,
    builder: u32,
}

impl Router {
    pub(super) const fn raw(self) -> RawHandle {
        RawHandle { node: self.node, builder: self.builder, optional: false }
    }
}

/// Adds nodes to a workflow. Passed to the function given to
/// [`Workflow::build`](super::Workflow::build).
#[derive(Debug)]
pub struct Builder {
    pub(super) id: u32,
    pub(super) nodes: Vec<PlanNode>,
    pub(super) names: HashSet<String>,
    pub(super) prefix: String,
    /// Router and arm that new nodes are in.
    guard: Option<(NodeIndex, u32)>,
    /// Join of returning arms. New nodes run only if none of these arms was taken.
    unless: Option<NodeIndex>,
    /// Written order of effects, for a `#[workflow]`.
    pub(super) order: Option<Order>,
    /// Name of the workflow, extended by the name of the node inside a body.
    pub(super) name: Arc<str>,
    pub(super) description: Arc<str>,
    pub(super) concurrency: usize,
    pub(super) limits: RunLimits,
    pub(super) stop: StopPolicy,
    pub(super) problems: Vec<Diagnostic>,
    /// Node that asks for the approval of the whole workflow. All other nodes wait for it.
    pub(super) first: Option<NodeIndex>,
    /// Decider for the steps that are added.
    pub(super) decider: Option<Ask>,
}

impl std::fmt::Debug for PlanNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeSpec")
            .field("path", &self.path)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new(name: Arc<str>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            nodes: Vec::new(),
            names: HashSet::new(),
            prefix: String::new(),
            guard: None,
            unless: None,
            order: None,
            name,
            description: "".into(),
            concurrency: super::CONCURRENCY,
            limits: RunLimits::default(),
            stop: StopPolicy::default(),
            problems: Vec::new(),
            first: None,
            decider: None,
        }
    }

    pub(super) fn input<T: NodeValue>(&mut self, name: &'static str) -> Handle<T> {
        let fits: fn(&Encoded) -> _ = |value| T::decode(value).map(drop);
        self.push::<T>(
            Node::new(name),
            NodeKind::Input,
            Vec::new(),
            Body::Input { fits: ValueCheck::Type(fits) },
        )
    }

    /// Adds a step. It starts as soon as the outputs that it reads are available, concurrently with
    /// other steps.
    pub fn node<R, O, E, B, F>(&mut self, node: impl Into<Node>, reads: R, body: B) -> Handle<O>
    where
        R: Reads<Values: Send>,
        O: NodeValue,
        E: StepFailure,
        B: Fn(Context, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.push::<O>(
            node.into(),
            NodeKind::Step,
            reads.handles(),
            Body::Step(step_of(reads, body)),
        )
    }

    /// Adds a value: a computation without side effects. It is computed once. In a run with a store
    /// it is recorded, so that all readers see the same value, also after a crash.
    pub fn value<R, O, E, B>(&mut self, node: impl Into<Node>, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: NodeValue,
        E: StepFailure,
        B: Fn(R::Values) -> Result<O, E> + Send + Sync + 'static,
    {
        let pure: super::spec::Pure = Arc::new(move |outputs, _| {
            encode(&body(load(&reads, outputs)?).map_err(StepError::from_error)?)
        });
        self.push::<O>(node.into(), NodeKind::Value, reads.handles(), Body::Pure(pure))
    }

    /// Adds a router. `pick` returns the index of the arm to take. Add the nodes of each arm with
    /// [`arm`](Self::arm), and combine the outputs with [`join`](Self::join).
    pub fn route<R, E, B, A>(&mut self, node: impl Into<Node>, arms: A, reads: R, pick: B) -> Router
    where
        R: Reads,
        E: StepFailure,
        B: Fn(R::Values) -> Result<usize, E> + Send + Sync + 'static,
        A: IntoIterator,
        A::Item: Into<Arc<str>>,
    {
        let arms: Vec<Arc<str>> = arms.into_iter().map(Into::into).collect();
        let names = arms.clone();
        let pick: super::spec::Pure = Arc::new(move |outputs, _| {
            let at = pick(load(&reads, outputs)?).map_err(StepError::from_error)?;
            let Some(arm) = names.get(at) else {
                return Err(StepError::new(
                    FailureKind::Value,
                    format!("the router has {} arms and chose {at}", names.len()),
                ));
            };
            #[derive(serde::Serialize)]
            struct Chosen<'a> {
                arm: &'a str,
            }
            Encoded::new(&Chosen { arm })
                .map_err(|error| StepError::value("the chosen arm", &error))
        });
        self.router(node.into(), arms, reads.handles(), (pick, false))
    }

    pub(super) fn router(
        &mut self,
        node: Node,
        arms: Vec<Arc<str>>,
        reads: Vec<RawHandle>,
        (pick, several): (super::spec::Pure, bool),
    ) -> Router {
        let mut seen = HashSet::new();
        for arm in arms.iter().filter(|arm| !seen.insert(Arc::clone(arm))) {
            self.problems.push(
                Diagnostic::new(graph_codes::DUPLICATE_ARM)
                    .name("router", &node.name)
                    .name("arm", arm),
            );
        }
        let handle =
            self.push::<Value>(node, NodeKind::Router, reads, Body::Router { pick, arms, several });
        Router { node: handle.node, builder: handle.builder }
    }

    /// Adds the nodes of a router's arm. They run only if the arm is taken.
    pub fn arm<O>(
        &mut self,
        router: Router,
        arm: usize,
        nodes: impl FnOnce(&mut Self) -> Handle<O>,
    ) -> Handle<O> {
        if self.is_foreign(router) {
            return nodes(self);
        }
        let of = &self.nodes[router.node as usize];
        let Body::Router { arms, .. } = &of.body else {
            unreachable!("a `Router` is made by `route`")
        };
        let name = match arms.get(arm) {
            Some(name) => Arc::clone(name),
            None => {
                self.problems.push(
                    Diagnostic::new(graph_codes::UNKNOWN_ARM_NUMBER)
                        .name("router", &of.path)
                        .text("arm", arm),
                );
                "?".into()
            }
        };
        let prefix = format!("{}/{name}/", of.path);
        let first = self.nodes.len();
        let outer = (std::mem::replace(&mut self.prefix, prefix), self.guard);
        self.guard = Some((router.node, u32::try_from(arm).unwrap_or(u32::MAX)));
        let order = self.order.as_mut().map(|order| order.open_arm(router.node));
        let mut end = nodes(self);
        if (end.node as usize) < first && end.builder == self.id {
            end = self.outer_output_in_arm(end);
        }
        if let (Some(order), Some(before)) = (&mut self.order, order) {
            order.close_arm(before);
        }
        (self.prefix, self.guard) = outer;
        end
    }

    /// Adds a node that represents an outer node's output inside the arm. It has an output only if
    /// the arm is taken.
    fn outer_output_in_arm<O>(&mut self, end: Handle<O>) -> Handle<O> {
        let of = &self.nodes[end.node as usize];
        let described = (of.type_name.clone(), of.schema.clone());
        let at = self.add(
            Node::new(names::YIELD),
            NodeKind::Join,
            vec![end.raw()],
            Body::Join,
            described,
        );
        end.moved(at)
    }

    /// Adds nodes that run only if none of the returning arms that the join combines was taken.
    pub(super) fn unless<O>(
        &mut self,
        join: RawHandle,
        nodes: impl FnOnce(&mut Self) -> Handle<O>,
    ) -> Handle<O> {
        let outer = self.unless.replace(join.node);
        let end = nodes(self);
        self.unless = outer;
        end
    }

    /// Adds the join of all returning arms so far. It is below the router of the last one.
    pub(super) fn returned<O: NodeValue>(
        &mut self,
        router: Router,
        ends: &[Handle<O>],
    ) -> RawHandle {
        let of = match self.is_foreign(router) {
            true => "?".to_owned(),
            false => self.nodes[router.node as usize].path.to_string(),
        };
        self.joined(format!("{of}/{}", names::RETURN), ends).raw()
    }

    /// Adds a join whose name gets no prefix.
    pub(super) fn joined<O: NodeValue>(&mut self, name: String, ends: &[Handle<O>]) -> Handle<O> {
        let ends = ends.iter().map(Handle::raw).collect();
        let outer = std::mem::take(&mut self.prefix);
        let handle = self.push::<O>(Node::new(name), NodeKind::Join, ends, Body::Join);
        self.prefix = outer;
        handle
    }

    /// Returns the index of an arm of a router.
    pub(super) fn arm_named(&mut self, router: Router, name: &str) -> usize {
        if router.builder != self.id {
            return 0;
        }
        let of = &self.nodes[router.node as usize];
        let Body::Router { arms, .. } = &of.body else { return 0 };
        let found = arms.iter().position(|arm| **arm == *name);
        found.unwrap_or_else(|| {
            self.problems.push(
                Diagnostic::new(graph_codes::UNKNOWN_ARM_NAME)
                    .name("router", &of.path)
                    .name("arm", name),
            );
            0
        })
    }

    /// Returns `true`, and reports the problem, if the router belongs to another builder.
    fn is_foreign(&mut self, router: Router) -> bool {
        let foreign = router.builder != self.id;
        if foreign {
            self.problems.push(Diagnostic::new(graph_codes::ROUTER_OF_ANOTHER_WORKFLOW));
        }
        foreign
    }

    /// Adds a join and returns its handle. Its output is the output of the arm that is taken.
    pub fn join<O: NodeValue>(
        &mut self,
        router: Router,
        arms: impl IntoIterator<Item = Handle<O>>,
    ) -> Handle<O> {
        let of = match self.is_foreign(router) {
            true => "?".to_owned(),
            false => self.nodes[router.node as usize].path.to_string(),
        };
        let ends: Vec<Handle<O>> = arms.into_iter().collect();
        self.joined(format!("{of}/{}", names::END), &ends)
    }

    /// Adds a question to a person. `ask` returns its text and the value that it shows. The output
    /// is the answer, of any type; [`Approval`](crate::Approval) is the usual one.
    /// [`Node::timeout`] limits the wait, and [`Node::on_timeout`] sets the outcome if no answer
    /// arrives in time.
    pub fn gate<R, P, A, E, B>(&mut self, node: impl Into<Node>, reads: R, ask: B) -> Handle<A>
    where
        R: Reads,
        P: NodeValue,
        A: NodeValue,
        E: StepFailure,
        B: Fn(R::Values) -> Result<(String, P), E> + Send + Sync + 'static,
    {
        let question: super::spec::Question = Arc::new(move |outputs| {
            let (message, payload) = ask(load(&reads, outputs)?).map_err(StepError::from_error)?;
            let answer = Encoded::new(&A::schema())
                .map_err(|error| StepError::value("the answer's schema", &error))?;
            Ok(ApprovalRequest::new(message, encode(&payload)?, answer))
        });
        self.push::<A>(
            node.into(),
            NodeKind::Gate,
            reads.handles(),
            Body::Gate { question, fits: ValueCheck::Type(|answer| A::decode(answer).map(drop)) },
        )
    }

    /// Adds a step for each item of a list. The outputs have the order of the items. Each item is a
    /// separate step in the journal, such as `NAME[3]`, and the policy of the node applies to each.
    pub fn map<I, R, O, E, B, F>(
        &mut self,
        node: impl Into<Node>,
        items: Handle<Vec<I>>,
        reads: R,
        body: B,
    ) -> Handle<Vec<O>>
    where
        I: NodeValue,
        R: Reads<Values: Send>,
        O: NodeValue,
        Vec<O>: NodeValue,
        E: StepFailure,
        B: Fn(Context, I, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        let step = item_step_of(reads, "an item of the list", body);
        self.each(node.into(), NodeKind::Map, items.raw(), reads.handles(), step)
    }

    /// Adds a step for each item of a list. The output is a list for [`NodeKind::Map`] only.
    pub(super) fn each<O: NodeValue>(
        &mut self,
        mut node: Node,
        kind: NodeKind,
        items: RawHandle,
        reads: Vec<RawHandle>,
        step: ItemStep,
    ) -> Handle<O> {
        let collects = kind == NodeKind::Map;
        if !collects {
            node.policy.concurrency = Some(1);
        }
        let all = std::iter::once(items).chain(reads).collect();
        self.push::<O>(node, kind, all, Body::Map { items: items.node, step, collects })
    }

    /// Adds branches that run concurrently. The first success gives the output; the others are
    /// cancelled and their results dropped. If all fail, the node fails.
    pub fn race<O: NodeValue>(
        &mut self,
        node: impl Into<Node>,
        branches: impl IntoIterator<Item = Branch<O>>,
    ) -> Handle<O> {
        self.branches(node.into(), NodeKind::Race, branches, Body::Race)
    }

    /// Adds branches that are tried in order. The first success gives the output. If all fail, the
    /// node fails with the messages of all branches.
    pub fn fallback<O: NodeValue>(
        &mut self,
        node: impl Into<Node>,
        branches: impl IntoIterator<Item = Branch<O>>,
    ) -> Handle<O> {
        self.branches(node.into(), NodeKind::Fallback, branches, Body::Fallback)
    }

    fn branches<O: NodeValue>(
        &mut self,
        node: Node,
        kind: NodeKind,
        branches: impl IntoIterator<Item = Branch<O>>,
        body: fn(Vec<SpecBranch>) -> Body,
    ) -> Handle<O> {
        let mut reads = Vec::new();
        let mut of_spec: Vec<SpecBranch> = Vec::new();
        let mut callees = Vec::new();
        for branch in branches {
            reads.extend(branch.reads);
            // Calls in a branch are recorded below it, each with its own policy.
            callees.extend(branch.callees);
            self.problems.extend(names::check_branch_name(&node.name, &branch.name));
            let mut name = branch.name.clone();
            let mut repeat = 2;
            while of_spec.iter().any(|other| *other.name == *name) {
                // A number in brackets would be parsed as an item of the other branch.
                name = format!("{}_{repeat}", branch.name);
                repeat += 1;
            }
            of_spec.push(SpecBranch { name: name.into(), step: branch.step, inner: branch.inner });
        }
        if of_spec.is_empty() {
            self.problems.push(Diagnostic::new(graph_codes::NO_BRANCHES).name("node", &node.name));
        }
        self.push::<O>(node.calling(callees), kind, reads, body(of_spec))
    }

    /// Adds a step that is repeated with its own output as input. It ends when `until` returns
    /// `true`, when a round calls [`Context::exit_loop`](crate::Context::exit_loop), or after `max`
    /// rounds. The output is the output of the last round.
    pub fn repeat<R, T, E, B, F>(
        &mut self,
        node: impl Into<Node>,
        first: Handle<T>,
        reads: R,
        max: u32,
        until: impl Fn(&T) -> bool + Send + Sync + 'static,
        body: B,
    ) -> Handle<T>
    where
        R: Reads<Values: Send>,
        T: NodeValue,
        E: StepFailure,
        B: Fn(Context, T, R::Values) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let step = item_step_of(reads, "the last output", body);
        let until = until_of(until);
        self.repeated(node.into(), first, reads.handles(), (max, until), step)
    }

    /// Adds a repetition of a step that was already created.
    pub(super) fn repeated<T: NodeValue>(
        &mut self,
        node: Node,
        first: Handle<T>,
        reads: Vec<RawHandle>,
        (max, until): (u32, Until),
        step: ItemStep,
    ) -> Handle<T> {
        if max == 0 {
            self.problems.push(Diagnostic::new(graph_codes::NO_ROUNDS).name("node", &node.name));
        }
        let all = std::iter::once(first.raw()).chain(reads).collect();
        let body = Body::Repeat { first: first.node, step, until: Some(until), max };
        self.push::<T>(node, NodeKind::Repeat, all, body)
    }

    /// Adds a node with a Rust type as output.
    pub(super) fn push<T: NodeValue>(
        &mut self,
        node: Node,
        kind: NodeKind,
        reads: Vec<RawHandle>,
        body: Body,
    ) -> Handle<T> {
        let at = self.add(
            node,
            kind,
            reads,
            body,
            (std::any::type_name::<T>().into(), NodeSchema::for_type::<T>()),
        );
        Handle::new(at.node, at.builder)
    }

    /// Adds a node: resolves its edges, applies the policies of its tools and adds its order edges.
    pub(super) fn add(
        &mut self,
        mut node: Node,
        kind: NodeKind,
        reads: Vec<RawHandle>,
        body: Body,
        (type_name, schema): TypeOf,
    ) -> RawHandle {
        let decided = self.decision_before(&mut node, kind, &reads);
        let name = format!("{}{}", self.prefix, node.name);
        self.problems.extend(names::check_node_path(&name));
        self.problems.extend(names::check_output_type(&name, &type_name));
        if !self.names.insert(name.clone()) {
            self.problems.push(Diagnostic::new(graph_codes::DUPLICATE_NODE).name("node", &name));
        }
        if reads.iter().chain(&node.after).any(|handle| handle.builder != self.id) {
            self.problems
                .push(Diagnostic::new(graph_codes::READ_OF_ANOTHER_WORKFLOW).name("node", &name));
        }
        let mut bound = self.bind(&name, kind, &node, &reads);
        if let Some((router, arm)) = self.guard {
            if !bound.entries.is_empty() || node.begins != Begins::All {
                self.problems
                    .push(Diagnostic::new(graph_codes::EDGES_IN_AN_ARM).name("node", &name));
            }
            bound.entries = vec![Entry::of_arm(router, arm)];
        }
        let tools = CalledTools::of_node(&node);
        let (asked, mut policy) = (node.policy.repeatable, node.policy);
        let call = if node.text.is_empty() { node.call } else { node.text };
        self.problems.extend(tools.problem(&name, &node.callees, &policy));
        let question = tools.apply(&mut policy, kind, call);
        // A synchronous call cannot wait until its start is committed, so the start of the node
        // counts as the start of the call.
        let is_once = tools.is_once()
            || node.callees.iter().any(|callee| super::callee::is_once_and_sync(*callee));
        if is_once && asked.is_none() {
            policy.repeatable = Some(false);
        }
        let mut made = PlanNode {
            path: StepPath::from_names(name.into()),
            kind,
            call: node.call.into(),
            line: node.line,
            reads: bound.reads,
            after: asked_after(&node.after).chain(bound.after).collect(),
            entries: bound.entries,
            begins: node.begins,
            ends: node.ends,
            has_rescue: false,
            unless: self.unless.filter(|_| kind != NodeKind::Join),
            policy,
            type_name,
            schema,
            callee: tools.callee,
            called: tools.callee.and_then(super::callee::tool_definition),
            question,
            question_text: None,
            question_about: None,
            writes: node.writes || node.callees.iter().any(|callee| super::callee::writes(*callee)),
            is_opaque: false,
            reads_effects: node.callees.iter().any(|callee| super::callee::reads_effects(*callee)),
            unordered: node.unordered,
            barrier: match kind {
                NodeKind::Gate => Some(OrderReason::Gate),
                _ => node.checks.then_some(OrderReason::Check),
            },
            callees: node.callees,
            code: node.code,
            body,
            inner: node.inner,
            does: None,
            sees_state: false,
            saves: BTreeMap::new(),
            dependencies: Vec::new(),
            decides: None,
            decided,
            #[cfg(feature = "dynamic")]
            references: Vec::new(),
        };
        // Effects of the calls in nested bodies count as effects of the node.
        made.writes = made.writes || made.bodies().any(|(_, inner)| inner.writes_or_asks());
        made.reads_effects =
            made.reads_effects || made.bodies().any(|(_, inner)| inner.effect().is_some());
        made.is_opaque = self.order.is_some() && super::callee::is_opaque(&made, node.direct);
        if made.barrier.is_none() {
            let bodies = made.bodies().filter(|_| !node.unordered);
            let of_bodies: Vec<_> = bodies.filter_map(|(_, inner)| inner.barrier()).collect();
            made.barrier = match of_bodies.contains(&OrderReason::Gate) {
                true => Some(OrderReason::Gate),
                false => (!of_bodies.is_empty()).then_some(OrderReason::Check),
            };
        }
        // In a `#[workflow]` the written order already puts every node after the approval.
        if let Some(first) = self.first
            && self.order.is_none()
            && self.guard.is_none()
            && !matches!(kind, NodeKind::Input | NodeKind::Join)
        {
            made.after.push(After { node: first, why: OrderReason::Check });
        }
        if let Some(order) = &mut self.order
            && !matches!(kind, NodeKind::Input | NodeKind::Join)
        {
            let writes = made.writes && kind != NodeKind::Gate;
            let role = Role {
                writes,
                looks: node.looks,
                is_opaque: made.is_opaque,
                reads: made.reads_effects,
                barrier: made.barrier,
            };
            let edges = order.place(&self.nodes, &made, role, node.unordered);
            made.after.extend(edges);
        }
        let at = NodeIndex::try_from(self.nodes.len()).unwrap_or(NodeIndex::MAX);
        self.nodes.push(made);
        RawHandle { node: at, builder: self.id, optional: false }
    }

    /// Enables the written order of effects for the nodes that follow.
    pub(super) fn keep_order(&mut self) {
        self.order.get_or_insert_default();
    }

    /// Checks the nodes and creates the plan.
    pub(super) fn finish(
        mut self,
        name: Arc<str>,
        output: RawHandle,
    ) -> Result<Spec, Vec<Diagnostic>> {
        if output.builder != self.id {
            self.problems.push(Diagnostic::new(graph_codes::OUTPUT_OF_ANOTHER_WORKFLOW));
        }
        if output.optional {
            self.problems.push(Diagnostic::new(graph_codes::OPTIONAL_OUTPUT));
        }
        let type_of = |node: &PlanNode| node.type_name.clone();
        if let Some(of_output) = self.nodes.get(output.node as usize).map(type_of) {
            let others = self.nodes.iter().filter(|node| node.ends && node.type_name != of_output);
            let problem = |node: &PlanNode| {
                let (path, of) = (&node.path, &node.type_name);
                let found = Diagnostic::new(graph_codes::END_OF_ANOTHER_TYPE).name("node", path);
                found.name("found", of).name("expected", &of_output)
            };
            self.problems.extend(others.map(problem));
        }
        self.problems.extend(problems_of_nodes(&self.nodes));
        if self.problems.is_empty() {
            self.problems = problems_of_plan(&self.nodes, output.node);
        }
        match self.problems.is_empty() {
            true => {
                let limits = (self.concurrency, self.stop, self.limits);
                record_why_needed(&self.nodes, output.node);
                Ok(Spec::new(
                    name,
                    self.description,
                    self.nodes,
                    output.node,
                    limits,
                    self.order.is_some(),
                ))
            }
            false => Err(self.problems),
        }
    }
}

fn asked_after(handles: &[RawHandle]) -> impl Iterator<Item = After> + '_ {
    handles.iter().map(|after| After { node: after.node, why: OrderReason::Asked })
}
