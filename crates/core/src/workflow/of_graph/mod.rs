//! Builds the plan of a [`Graph`] whose nodes are data. Checks the whole graph and collects every
//! problem. The runtime resolves names, and `reference_steps.rs` makes the calls.
//! `node_bodies.rs` makes the bodies of the nodes.

mod node_bodies;

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use agentflow_schema::schema::{Assignable, is_assignable_as_stated};
use agentflow_schema::schema_check::SchemaCheck;
use agentflow_schema::text::nearest;
use serde_json::{Value, json};

use super::condition::{BoundCondition, Condition};
use super::constants::value_misfit;
use super::decision_of_graph::Asked;
use super::decision_step::decision_schema;
use super::entry::{Begins, Entry, When};
use super::facts::{Facts, NarrowedSchemas};
use super::graph::{Graph, GraphNode};
use super::graph_body::{GraphBody, GraphEdge, Reference, ReferenceKind};
use super::graph_codes;
use super::graph_order::ordered;
use super::mapping::{IsNode, Mapping, Names};
use super::mapping::{Schemas, list_of, one_of, schema_of};
use super::names;
use super::node_problems::{problems_of_nodes, problems_of_plan};
use super::node_schema::{NodeSchema, ValueCheck};
use super::reference_steps::Callee;
use super::skipped_nodes::record_why_needed;
use super::spec::{After, CalleeFacts, NodeIndex, NodeKind, OrderReason, PlanNode, Spec};
use crate::dry_run::DryCall;
use crate::path::StepPath;
use crate::run::Approval;
use crate::tool::answer_schema::closed;
use crate::value::NodeValue;

/// A callee that cannot be resolved: the problem, or `None` if it is not reported, because names are
/// not checked or the problem is reported elsewhere.
pub(crate) type Unresolved = Option<Diagnostic>;

/// Resolves the callee of a reference from its kind and name.
pub(crate) type Resolve<'a> = &'a dyn Fn(ReferenceKind, &str) -> Result<Callee, Unresolved>;

impl Graph {
    /// Builds the plan of the graph.
    ///
    /// # Errors
    /// All problems.
    pub(crate) fn to_spec(&self, resolve: Resolve<'_>) -> Result<Spec, Vec<Diagnostic>> {
        self.checked(resolve, false)
    }

    /// Checks the graph and builds its plan. A draft lacks the nodes that could not be read, so its
    /// nodes are not checked together.
    pub(super) fn checked(
        &self,
        resolve: Resolve<'_>,
        is_draft: bool,
    ) -> Result<Spec, Vec<Diagnostic>> {
        // Consultations of the graph's decider become nodes, so that the checks below see them.
        let (graph, added) = self.with_decisions();
        let graph = &*graph;
        let mut loading = GraphLoader::new(graph, &added, resolve);
        let order = ordered(graph, &mut loading.problems);
        loading.is_connected = loading.problems.is_empty();
        loading.order.clone_from(&order);
        loading.names = Arc::new(
            order.iter().enumerate().map(|(at, node)| (node.name.clone(), index(at))).collect(),
        );
        let nodes: Vec<PlanNode> = order.iter().map(|node| loading.node(node)).collect();
        loading.check_bare_keys();
        let (is_whole, is_connected) = (loading.is_whole, loading.is_connected);
        let (mut schemas, mut calls) = (loading.schemas, loading.calls);
        let derived = order.iter().map(|node| CalleeFacts {
            schema: schemas.remove(node.name.as_str()).unwrap_or(Value::Bool(true)),
            calls: calls.remove(node.name.as_str()).unwrap_or_default(),
        });
        let derived: Vec<CalleeFacts> = derived.collect();
        let mut problems = loading.problems;
        if graph.version > Self::VERSION {
            problems.push(
                Diagnostic::new(graph_codes::NEWER_VERSION)
                    .text("version", graph.version)
                    .text("supported", Self::VERSION),
            );
        }
        if graph.concurrency == 0 {
            problems.push(Diagnostic::new(graph_codes::NO_CONCURRENCY).at_pointer("/concurrency"));
        }
        problems.extend(problems_of_nodes(&nodes));
        let output = nodes.iter().position(|node| *node.path.names() == *graph.output);
        if output.is_none() {
            let near = Suggestion::similar(nearest(
                &graph.output,
                graph.nodes.iter().map(|node| node.name.as_str()),
            ));
            problems.push(
                Diagnostic::new(graph_codes::UNKNOWN_OUTPUT)
                    .name("output", &graph.output)
                    .suggest(near),
            );
        }
        // An unknown callee does not change when nodes begin, so the graph need not be whole for
        // this check.
        if let (true, Some(output)) = (is_connected && !is_draft, output) {
            problems.extend(problems_of_plan(&nodes, index(output)));
        }
        match (problems.is_empty() && is_whole, output) {
            (true, Some(output)) => {
                let (name, description) =
                    (graph.name.as_str().into(), graph.description.as_str().into());
                let limits = (graph.concurrency, graph.stop_policy, graph.limits);
                record_why_needed(&nodes, index(output));
                let mut spec = Spec::new(name, description, nodes, index(output), limits, false);
                spec.derived = derived;
                Ok(spec)
            }
            _ => Err(problems),
        }
    }
}

/// State of building the plan of a graph. Nodes are added in dependency order, so the nodes above
/// are known when a node is checked.
pub(super) struct GraphLoader<'a> {
    pub(super) graph: &'a Graph,
    pub(super) resolve: Resolve<'a>,
    order: Vec<&'a GraphNode>,
    pub(super) names: Names,
    /// Schemas of the outputs of the nodes that were checked.
    pub(super) schemas: HashMap<&'a str, Value>,
    /// Schemas that facts known at the current node narrow down.
    narrow: NarrowedSchemas,
    pub(super) facts: Facts<'a>,
    /// Calls of the nodes that were checked, by node.
    calls: HashMap<&'a str, Vec<DryCall>>,
    /// Argument problems by callee and schema of the arguments. Cached because many nodes make the
    /// same call.
    misfits: HashMap<(ReferenceKind, String, String), Vec<Diagnostic>>,
    pub(super) problems: Vec<Diagnostic>,
    /// State keys that nodes are known to save.
    pub(super) known_keys: BTreeSet<String>,
    /// `true` if nodes save fields with unknown names.
    pub(super) saves_any_key: bool,
    /// Bare names in templates that are state keys, each with its node.
    pub(super) bare_keys: Vec<(&'a str, String)>,
    /// Nodes that a decider decides on and that were not checked yet.
    pub(super) asked: HashMap<&'a str, Asked>,
    /// Nodes that decide, by the name of the node that they decide on.
    pub(super) deciders: HashMap<&'a str, &'a GraphNode>,
    /// Names of the deciding nodes that were added for the graph's decider.
    added: &'a HashSet<String>,
    /// Nodes whose failure is handled by an edge.
    rescued: HashSet<&'a str>,
    /// `false` if a callee is unknown and was not reported. A plan is not built then.
    pub(super) is_whole: bool,
    /// `true` if all nodes that are read or followed exist, so that it is known when each node
    /// begins.
    pub(super) is_connected: bool,
}

impl<'a> GraphLoader<'a> {
    fn new(graph: &'a Graph, added: &'a HashSet<String>, resolve: Resolve<'a>) -> Self {
        let mut problems = Vec::new();
        let deciders = graph.deciders(&mut problems);
        Self {
            graph,
            resolve,
            order: Vec::new(),
            names: Names::default(),
            schemas: HashMap::new(),
            narrow: NarrowedSchemas::new(),
            facts: Facts::default(),
            calls: HashMap::new(),
            misfits: HashMap::new(),
            problems,
            known_keys: BTreeSet::new(),
            saves_any_key: false,
            bare_keys: Vec::new(),
            asked: HashMap::new(),
            deciders,
            added,
            rescued: graph
                .nodes
                .iter()
                .flat_map(|node| &node.edges)
                .filter(|edge| edge.failed)
                .map(|edge| edge.from.as_str())
                .collect(),
            is_whole: true,
            is_connected: true,
        }
    }

    pub(super) fn outputs(&self) -> Schemas<'_> {
        Schemas { all: &self.schemas, narrow: &self.narrow }
    }

    fn node(&mut self, node: &'a GraphNode) -> PlanNode {
        let name = &node.name;
        self.problems.extend(names::check_node_path(name));
        if node.all_before(&|name| self.names.contains_key(name)).contains(&name.as_str()) {
            self.is_connected = false;
            self.problems.push(Diagnostic::new(graph_codes::WAITS_FOR_ITSELF).name("node", name));
        }
        self.check_decides(node);
        let known = self.problems.len();
        let mut policy = node.policy.clone();
        let entries = self.entries(node);
        let needed = node.begins.needed(entries.len());
        if node.begins != Begins::All && (needed == 0 || needed > entries.len()) {
            self.is_connected = false;
            self.problems.push(
                Diagnostic::new(graph_codes::IMPOSSIBLE_START)
                    .name("node", name)
                    .text("needed", needed)
                    .text("edges", entries.len()),
            );
        }
        let names = Arc::clone(&self.names);
        let is_node: IsNode<'_> = &|name| names.contains_key(name);
        let own = node.reads_by_name(is_node);
        let read_by_it: Vec<&str> = own.iter().map(|(read, _)| *read).collect();
        let late = |read: NodeIndex| {
            !node.begins.waits_for_all() && entries.iter().any(|entry| entry.from == read)
        };
        let (mut reads, mut after) = (Vec::new(), Vec::new());
        let given = node.reads.iter().map(|read| (read.as_str(), false));
        // The condition of an edge is evaluated only after all nodes that it reads have ended.
        let of_edges = node
            .edges
            .iter()
            .flat_map(|edge| edge.when.iter().flat_map(|when| when.reads(is_node)));
        for (read, may_miss) in given.chain(own).chain(of_edges.map(|(read, _)| (read, true))) {
            let Some(at) = self.named(name, read) else { continue };
            let optional = After { node: at, why: OrderReason::Optional };
            // An edge that is not waited for has an optional output.
            match may_miss || late(at) {
                false if !reads.contains(&at) => reads.push(at),
                true if !late(at) && !after.contains(&optional) => after.push(optional),
                _ => {}
            }
        }
        after.retain(|after| {
            !reads.contains(&after.node) && !waits_for(&entries, node.begins, after.node)
        });
        let asked = node.after.iter().map(|name| (name, OrderReason::Asked));
        // Order edges to optional outputs were derived from the reads above.
        let ordered = node.order.iter().filter(|edge| edge.reason != OrderReason::Optional);
        for (before, why) in asked.chain(ordered.map(|edge| (&edge.node, edge.reason))) {
            if let Some(node) = self.named(name, before) {
                after.push(After { node, why });
            }
        }
        // Drop the schemas of the last node first. Schemas that are shared with them would be
        // copied when facts are added.
        self.narrow = NarrowedSchemas::new();
        self.check_edges(node);
        let needed = reads
            .iter()
            .filter_map(|read| self.order.get(*read as usize))
            .map(|read| read.name.as_str());
        let (names, order) = (&self.names, &self.order);
        let of = |name: &str| order.get(*names.get(name)? as usize).copied();
        self.facts.note(&of, node, needed);
        self.narrow = self.facts.narrow(name, read_by_it, |of| self.schemas.get(of));
        self.check_state(node);
        if self.added.contains(name) {
            // An added deciding node has the edges of the node that it decides on. That node
            // reports their problems.
            self.problems.truncate(known);
        }
        let (kind, body, callees) = self.body(node);
        self.check_reads(node);
        self.derive(node, &callees);
        self.check_saves(node);
        self.known_keys
            .extend(callees.iter().filter_map(Callee::saved_key).map(|key| key.to_string()));
        self.calls.insert(&node.name, callees.iter().map(Callee::dry_call).collect());
        // The policy of the tool applies to the node, and to each item and round. A call that asks
        // a person has its own record and applies its policy itself.
        let asking = callees.iter().any(Callee::asks);
        let direct = matches!(
            node.does,
            Some(
                GraphBody::Call(_)
                    | GraphBody::Map { .. }
                    | GraphBody::Repeat { .. }
                    | GraphBody::Decide(_)
            )
        );
        let mut question = None;
        match callees.as_slice() {
            [callee] if asking && kind == NodeKind::Step => {
                question = callee.question_of_call(&mut policy);
            }
            [_] if asking => {}
            [callee] if !matches!(kind, NodeKind::Race | NodeKind::Fallback) => {
                callee.take_over(&mut policy);
            }
            // Branches share one policy, and their progress is not recorded. So the node can be
            // repeated only if every branch can.
            all if all.iter().any(|callee| !callee.is_repeatable()) => {
                policy.repeatable.get_or_insert(false);
            }
            _ => {}
        }
        let decided = self.decided(node);
        let question_text = self.question_text(node);
        PlanNode {
            path: StepPath::from_names(name.as_str().into()),
            kind,
            call: node.called().into(),
            line: node.line,
            reads,
            after,
            entries,
            begins: node.begins,
            ends: node.ends,
            has_rescue: self.rescued.contains(name.as_str()),
            unless: None,
            policy,
            type_name: node.type_name.clone().into(),
            schema: node.schema.clone(),
            callee: callees.first().filter(|_| direct && !asking).and_then(Callee::function),
            called: callees.first().filter(|_| direct && !asking).and_then(Callee::definition),
            question,
            question_text,
            question_about: self.question_about(node),
            callees: callees.iter().filter_map(Callee::function).collect(),
            writes: callees.iter().any(Callee::writes),
            is_opaque: false,
            reads_effects: false,
            unordered: false,
            barrier: None,
            code: 0,
            body,
            inner: None,
            sees_state: node.sees_state(is_node),
            saves: node.saves.clone(),
            dependencies: node.dependencies.clone(),
            decides: node.decides.clone(),
            decided,
            does: node.does.clone().map(Arc::new),
            references: callees.iter().filter_map(Callee::referenced).collect(),
        }
    }

    /// Returns the index of a node by its name. Reports an unknown name as a problem of `node`.
    fn named(&mut self, node: &str, name: &str) -> Option<NodeIndex> {
        let found = self.names.get(name).copied();
        if found.is_none() {
            self.is_connected = false;
            let names = || self.graph.nodes.iter().map(|node| node.name.as_str());
            let is_key = self.graph.nodes.iter().any(|node| node.saves.contains_key(name));
            let near = match name
                .split_once(['.', '/'])
                .filter(|(of, _)| names().any(|name| name == *of))
            {
                Some((of, part)) => {
                    let part = part.replace('.', "/");
                    Some(Suggestion::advice(format!(
                        "a part of an output is read as `{{\"from\": \"{of}\", \"at\": \"/{part}\"}}`"
                    )))
                }
                None if is_key => {
                    Some(Suggestion::advice(format!("the key of the state is `state.{name}`")))
                }
                None => Suggestion::similar(nearest(name, names())),
            };
            self.problems.push(
                Diagnostic::new(graph_codes::UNKNOWN_NODE)
                    .name("node", node)
                    .name("name", name)
                    .suggest(near),
            );
        }
        found
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&'a GraphNode> {
        self.order.get(*self.names.get(name)? as usize).copied()
    }

    fn entries(&mut self, node: &GraphNode) -> Vec<Entry> {
        let guard = node.guard.iter().map(|guard| GraphEdge::from(&guard.router).arm(&guard.arm));
        let edges: Vec<GraphEdge> = guard.chain(node.edges.iter().cloned()).collect();
        edges.iter().filter_map(|edge| self.entry(&node.name, edge)).collect()
    }

    fn entry(&mut self, node: &str, edge: &GraphEdge) -> Option<Entry> {
        let from = self.named(node, &edge.from)?;
        let ways = [edge.arm.is_some(), edge.failed, edge.when.is_some()];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            self.is_connected = false;
            self.problems.push(
                Diagnostic::new(graph_codes::EDGE_WITH_TWO_WAYS)
                    .name("from", &edge.from)
                    .name("node", node),
            );
        }
        let when = match edge {
            GraphEdge { arm: Some(arm), .. } => When::Arm(self.arm(node, &edge.from, arm)?),
            GraphEdge { failed: true, .. } => When::Failed,
            GraphEdge { when: Some(condition), .. } => When::Holds(self.bound(condition)),
            _ => When::Done,
        };
        Some(Entry { from, when })
    }

    fn arm(&mut self, node: &str, router: &str, arm: &str) -> Option<u32> {
        let of = self.by_name(router)?;
        let Some(GraphBody::Route(routes)) = &of.does else {
            self.is_connected = false;
            self.problems.push(
                Diagnostic::new(graph_codes::ARM_OF_NO_ROUTER)
                    .name("router", router)
                    .name("node", node),
            );
            return None;
        };
        let found = routes.arms.iter().position(|of| of.arm == arm);
        if found.is_none() {
            self.is_connected = false;
            let near =
                Suggestion::similar(nearest(arm, routes.arms.iter().map(|of| of.arm.as_str())));
            self.problems.push(
                Diagnostic::new(graph_codes::UNKNOWN_ARM)
                    .name("router", router)
                    .name("arm", arm)
                    .name("node", node)
                    .suggest(near),
            );
        }
        found.map(index)
    }

    pub(super) fn bound(&self, condition: &Condition) -> BoundCondition {
        BoundCondition::new(condition, Arc::clone(&self.names))
    }

    /// Derives the schema of a node's output. A declared schema takes precedence over the schema
    /// that follows from the node's behaviour.
    fn derive(&mut self, node: &'a GraphNode, callees: &[Callee]) {
        let of = |mapping: &Mapping| schema_of(mapping, self.outputs(), &Value::Bool(true));
        let calls = node.does.as_ref().map(GraphBody::calls).unwrap_or_default();
        let given = |(call, callee): (&Reference, &Callee)| match &call.gives {
            Some(gives) => schema_of(gives, self.outputs(), &callee.output_schema()),
            None => callee.output_schema(),
        };
        let output = || calls.iter().zip(callees).next().map_or(Value::Bool(true), given);
        let derived = match &node.does {
            None | Some(GraphBody::Route(_)) => Value::Bool(true),
            Some(GraphBody::Call(_)) => output(),
            Some(GraphBody::Value(value)) => of(value),
            Some(GraphBody::Transform(_)) => json!({"type": "object"}),
            Some(GraphBody::Decide(_)) => decision_schema(),
            Some(GraphBody::Ask(question)) => question
                .answer
                .as_ref()
                .map_or_else(|| closed(Approval::schema()), NodeSchema::to_value),
            Some(GraphBody::Map { .. }) => list_of(&output()),
            Some(GraphBody::Race(_) | GraphBody::Fallback(_)) => {
                one_of(calls.iter().zip(callees).map(given).collect())
            }
            // There is at least one round, so this is the output of the last round.
            Some(GraphBody::Repeat { .. }) => output(),
        };
        let declared = node.schema.to_value();
        let schema = if declared == Value::Bool(true) {
            derived
        } else {
            // The schema of an input or a question was compiled with the body of the node.
            let is_read = matches!(node.does, None | Some(GraphBody::Ask(_)));
            if is_read || matches!(self.fits(&node.name, &node.schema), ValueCheck::Schema(_)) {
                let what = "its output, by its `schema`,";
                self.fits_schema(&node.name, what, &derived, &declared);
                self.constants_fit(node, what, &declared);
            }
            declared
        };
        self.schemas.insert(&node.name, schema);
    }

    /// Reports a value of schema `given` that does not fit `expected`, if the schemas show this.
    pub(super) fn fits_schema(&mut self, node: &str, what: &str, given: &Value, expected: &Value) {
        if let Assignable::No(places) = is_assignable_as_stated(given, expected) {
            for place in &places {
                self.problems.push(value_misfit(node, what, &place.path, place));
            }
        }
    }

    pub(super) fn fits(&mut self, node: &str, schema: &NodeSchema) -> ValueCheck {
        match SchemaCheck::new(&schema.to_value()) {
            Ok(check) => ValueCheck::Schema(check),
            Err(problem) => {
                let found = Diagnostic::new(graph_codes::INVALID_SCHEMA).name("node", node);
                self.problems.push(found.nested("problem", &problem));
                ValueCheck::Type(|_| Ok(()))
            }
        }
    }
}

/// Returns true if the edges of a node make it wait for another node.
fn waits_for(entries: &[Entry], begins: Begins, node: NodeIndex) -> bool {
    begins.waits_for_all() && entries.iter().any(|entry| entry.from == node)
}

fn index(at: usize) -> NodeIndex {
    NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX)
}
