//! `Graph`: the description of a workflow, with nodes, edges, guards, policies and types. It is available without
//! running anything and can be stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::Condition;
use super::decider::Decider;
use super::entry::{Begins, Entry, When};
use super::graph_body::{GraphBody, GraphEdge};
use super::input_schema::input_object_schema;
use super::node_dependency::ResolvedDependency;
use super::node_schema::NodeSchema;
use super::policy::{NodePolicy, StopPolicy};
use super::run_limits::RunLimits;
#[cfg(feature = "dynamic")]
use super::spec::Referenced;
use super::spec::{Body, NodeKind, NodeSpec, OrderReason, Spec};
use crate::definition::without_notes;

/// A workflow described: what it consists of, without what its steps do.
///
/// As JSON it carries a [version](Self::VERSION). [`to_mermaid`](Self::to_mermaid) and [`to_dot`](Self::to_dot) draw
/// it.
///
/// A graph whose nodes are data, each with a [`GraphBody`], is a workflow by itself: a runtime that is given it with
/// `RuntimeBuilder::graph` (feature `dynamic`) executes it like any other. Its nodes call tools, agents and workflows by
/// their names; each begins when what it reads is there and enough of its [edges](GraphEdge) are taken.
///
/// ```
/// # #[cfg(feature = "dynamic")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// use agentflow::prelude::*;
/// use agentflow::workflow::{Condition, Graph, GraphBody, GraphEdge, GraphNode, Mapping, Reference};
/// use serde_json::json;
///
/// /// Count the words of a text.
/// #[tool(effects = "none")]
/// fn count_words(text: String) -> usize {
///     text.split_whitespace().count()
/// }
///
/// let count = Reference::tool("count_words", Mapping::object([("text", Mapping::from("text"))]));
/// let is_empty = Condition::Equals(Mapping::from("words"), Mapping::Value(json!(0)));
/// let graph = Graph::new("measure", "said")
///     .with(GraphNode::input("text", json!({"type": "string"})))
///     .with(GraphNode::new("words", GraphBody::Call(count)))
///     .with(
///         GraphNode::new("nothing", GraphBody::Value(Mapping::Value(json!("nothing"))))
///             .edge(GraphEdge::from("words").when(is_empty)),
///     )
///     .with(GraphNode::new("said", GraphBody::Value(Mapping::List(vec![
///         Mapping::from("words"),
///         Mapping::From { node: "nothing".to_owned(), at: String::new(), or: Some(json!(null)) },
///     ]))));
///
/// let runtime = Runtime::builder().graph(graph).build();
/// let output = runtime.start_named("measure", json!({"text": "two words"})).await?.result().await?;
/// assert_eq!(output.as_str(), "[2,null]");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "dynamic"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Graph {
    /// The version of the form, [`Graph::VERSION`] when made by this release.
    pub version: u32,
    /// The workflow's name.
    pub name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The node whose output is the workflow's.
    pub output: String,
    /// The most steps at once.
    pub concurrency: usize,
    /// What the other nodes do when one has failed for good.
    pub stop_policy: StopPolicy,
    /// Who is asked before each node that calls something; a graph that is executed has a node for each question instead,
    /// `NAME.decision`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decider: Option<Decider>,
    /// What bounds each run of it. It is not part of the [hash](Self::hash), since a run records its own.
    #[serde(skip_serializing_if = "RunLimits::is_default")]
    pub limits: RunLimits,
    /// The nodes, each after all it depends on.
    pub nodes: Vec<GraphNode>,
}

/// A node of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a node, such as {\"name\": \"page\", \"does\": {..}}")]
#[non_exhaustive]
#[doc(alias = "reads_keys")]
pub struct GraphNode {
    /// Its name, with the arms it is in: `outcome/Granted/merge`.
    pub name: String,
    /// What it is. Of a node that is data, `does` says so and this may be left out.
    #[serde(default = "step")]
    pub kind: NodeKind,
    /// What it calls, as written.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub calls: String,
    /// What the called function is beside a function: `tool`, `agent` or `workflow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callee: Option<String>,
    /// The nodes whose outputs it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// The nodes that must have ended before it begins, as [`Node::after`](super::Node::after) asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The nodes that must have ended before it begins since they are written above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<OrderEdge>,
    /// The arm it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// The edges that lead to it, of a node that is in no arm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<GraphEdge>,
    /// How many of its edges must be taken.
    #[serde(default, skip_serializing_if = "Begins::is_all")]
    pub begins: Begins,
    /// Whether the workflow ends with its output, and all else is stopped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ends: bool,
    /// What it does, where that is data and not code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub does: Option<GraphBody>,
    /// What of its output is saved to the [state](crate::state) of the run, in the record of the output: each key with the
    /// JSON Pointer of its value in the output, `{"tone": "/tone", "user:name": "/author/name", "draft": ""}`. A part that is
    /// not there is left out. The key `*` saves the fields of an object, each under its own name; a key that is named
    /// counts more. Two nodes that may run at the same time and name one key are
    /// refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub saves: BTreeMap<String, String>,
    /// The bindings of its dependencies, with all candidates of a pool. They are not part of the [hash](Graph::hash). If an agent chooses among the tools of servers, `tool_used` and `server_id` of the node's output name the
    /// last tool that it called successfully.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<ResolvedDependency>,
    /// The node that it decides on: that one begins after it, and runs, is skipped, or is given other arguments as it
    /// says. See [`GraphBody::Decide`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decides: Option<String>,
    /// The join of the arms that return above it: it runs only when none of them is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
    /// The arms of a router, the branches of a race or a fallback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<String>,
    /// What each of its items or rounds consists of, when that is more than one step.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::graph_form::body")]
    pub body: Option<Box<Graph>>,
    /// What its branches consist of, by their names, where that is more than one step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "super::graph_form::bodies")]
    pub branch_bodies: BTreeMap<String, Graph>,
    /// Whether it changes something outside of the run, as far as that is declared.
    #[serde(default, skip_serializing_if = "is_false")]
    pub writes: bool,
    /// The fingerprint of the source text of what it does; empty when that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// The hashes of the workflows that it calls, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workflows: BTreeMap<String, String>,
    /// What is done when it fails, takes long, or needs a person's word.
    #[serde(default)]
    pub policy: NodePolicy,
    /// The Rust type of its output; `json` when that is data.
    #[serde(rename = "type", default = "json_type")]
    pub type_name: String,
    /// The JSON Schema of its output.
    #[serde(default)]
    pub schema: NodeSchema,
    /// The line of the source it is written on; 0 when that is not known.
    #[serde(default)]
    pub line: u32,
}

fn step() -> NodeKind {
    NodeKind::Step
}

pub(super) fn json_type() -> String {
    "json".to_owned()
}

fn is_false(value: &bool) -> bool {
    !value
}

/// An edge between nodes whose written order is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OrderEdge {
    /// The node above.
    pub node: String,
    /// Why it is waited for.
    pub reason: OrderReason,
}

/// The condition under which a node runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Guard {
    /// The router.
    pub router: String,
    /// The arm that it must take.
    pub arm: String,
}

impl Graph {
    /// The version of the form that this release makes.
    pub const VERSION: u32 = 1;

    pub(crate) fn of(spec: &Spec) -> Self {
        Self::described(spec, true)
    }

    fn described(spec: &Spec, workflows: bool) -> Self {
        let name = |node: u32| spec.node(node).path.to_string();
        let after = |node: &NodeSpec| node.after.clone().into_iter();
        let describe = |node: &NodeSpec| GraphNode {
            name: node.path.to_string(),
            kind: node.kind,
            calls: node.call.to_string(),
            callee: node
                .callee
                .iter()
                .chain(&node.callees)
                .find_map(|callee| super::callee::word(*callee))
                .or_else(|| Some(node.does.as_ref()?.callees().next()?.0.as_str()))
                .map(ToOwned::to_owned),
            reads: node.reads.iter().map(|read| name(*read)).collect(),
            after: after(node).filter(|after| after.why == OrderReason::Asked).map(|after| name(after.node)).collect(),
            order: after(node)
                .filter(|after| after.why != OrderReason::Asked)
                .map(|after| OrderEdge { node: name(after.node), reason: after.why })
                .collect(),
            guard: node.guard().map(|(router, arm)| Guard { router: name(router), arm: arm_of(spec, router, arm) }),
            edges: match node.guard() {
                Some(_) => Vec::new(),
                None => node.entries.iter().map(|entry| edge_of(spec, entry)).collect(),
            },
            begins: node.begins,
            ends: node.ends,
            does: node.does.as_deref().cloned(),
            saves: node.saves.clone(),
            dependencies: node.dependencies.clone(),
            decides: node.decides.clone(),
            unless: node.unless.map(name),
            body: node.inner.as_deref().map(|inner| Box::new(Self::described(inner, workflows))),
            branch_bodies: node
                .bodies()
                .filter_map(|(branch, inner)| Some((branch?.to_owned(), Self::described(inner, workflows))))
                .collect(),
            writes: node.writes,
            code: if node.code == 0 { String::new() } else { format!("{:016x}", node.code) },
            workflows: match workflows {
                true => called_by(node).iter().map(|called| (called.name.to_string(), closure_hash(called))).collect(),
                false => BTreeMap::new(),
            },
            branches: match &node.body {
                Body::Router { arms, .. } => arms.iter().map(ToString::to_string).collect(),
                Body::Race(branches) | Body::Fallback(branches) => {
                    branches.iter().map(|branch| branch.name.to_string()).collect()
                }
                _ => Vec::new(),
            },
            policy: node.policy.clone(),
            type_name: node.type_name.to_string(),
            schema: node.schema.clone(),
            line: node.line,
        };
        Self {
            version: Self::VERSION,
            name: spec.name.to_string(),
            description: spec.description.to_string(),
            output: spec.node(spec.output).path.to_string(),
            concurrency: spec.concurrency,
            stop_policy: spec.stop,
            decider: None,
            limits: spec.limits,
            nodes: spec.nodes.iter().map(describe).collect(),
        }
    }

    /// The node of a name.
    pub fn node(&self, name: &str) -> Option<&GraphNode> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Returns the nodes that can begin once these have ended: each is not among them and waits for none but them. Inputs
    /// count as ended. A node that is in an arm, or that edges lead to, is returned when its router has ended or enough
    /// of its edges are known; the taken arm and the conditions of edges are known in a run only, so list a skipped node
    /// as ended.
    #[doc(alias = "get_ready_nodes")]
    pub fn ready_nodes<S: AsRef<str>>(&self, ended: &[S]) -> Vec<&GraphNode> {
        let has_ended = |name: &str| {
            ended.iter().any(|ended| ended.as_ref() == name)
                || self.node(name).is_some_and(|node| node.kind == NodeKind::Input)
        };
        let is_ready = |node: &&GraphNode| {
            let order = node.order.iter().map(|edge| &edge.node);
            let router = node.guard.iter().map(|guard| &guard.router);
            let mut before = node.reads.iter().chain(&node.after).chain(order).chain(router);
            let known = node.edges.iter().filter(|edge| has_ended(&edge.from)).count();
            !has_ended(&node.name)
                && before.all(|name| has_ended(name) || node.edges.iter().any(|edge| edge.from == *name))
                && known
                    >= if node.begins.waits_for_all() { node.edges.len() } else { node.begins.needed(node.edges.len()) }
        };
        self.nodes.iter().filter(is_ready).collect()
    }

    /// The inputs of the workflow, in their order.
    pub fn inputs(&self) -> impl Iterator<Item = &GraphNode> {
        self.nodes.iter().filter(|node| node.kind == NodeKind::Input)
    }

    /// The JSON Schema of the input: an object with a property for each input.
    pub fn input_schema(&self) -> Value {
        input_object_schema(self.inputs().map(|input| (input.name.clone(), input.schema.to_value())))
    }

    /// The JSON Schema of the output.
    pub fn output_schema(&self) -> Value {
        self.node(&self.output).map_or(Value::Null, |node| node.schema.to_value())
    }

    /// The hash of the definition: of what nodes there are, what they do, call, read and wait for, their policies, the
    /// schemas of what they yield, and the workflows that they call. Lines, descriptions and formatting do not count.
    /// Two workflows of one hash can resume each other's runs.
    pub fn hash(&self) -> String {
        self.hash_with(Counts { workflows: true, rules: true })
    }

    fn hash_with(&self, counts: Counts) -> String {
        let mut hash = Fnv::new();
        if let Some(decider) = &self.decider {
            hash.text(&serde_json::to_string(decider).unwrap_or_default());
        }
        hash.text(&self.name);
        hash.text(&self.output);
        let mut schemas = HashMap::new();
        for node in &self.nodes {
            hash.number(self.shape_with(node, &mut schemas, counts));
        }
        format!("{:016x}", hash.0)
    }

    /// What makes a node's output the same in another version of the workflow, as a number: all but when it begins and
    /// what is done when it fails.
    pub(crate) fn shape(&self, node: &GraphNode) -> u64 {
        self.shape_with(node, &mut HashMap::new(), Counts { workflows: true, rules: false })
    }

    fn shape_with(&self, node: &GraphNode, schemas: &mut HashMap<usize, u64>, counts: Counts) -> u64 {
        let schema_hash = || {
            let mut schema = node.schema.to_value();
            without_notes(&mut schema);
            let mut hash = Fnv::new();
            hash.text(&schema.to_string());
            hash.0
        };
        let schema = match node.schema.key() {
            // Many nodes have one type: its schema is made once.
            Some(key) => *schemas.entry(key).or_insert_with(schema_hash),
            None => schema_hash(),
        };
        let mut hash = Fnv::new();
        hash.text(&node.name);
        hash.text(&format!("{:?}", node.kind));
        hash.text(&node.calls);
        hash.text(&node.code);
        for list in [&node.reads, &node.branches] {
            hash.number(list.len() as u64);
            list.iter().for_each(|name| hash.text(name));
        }
        if counts.rules {
            hash.number(node.after.len() as u64);
            node.after.iter().for_each(|name| hash.text(name));
            hash.number(node.order.len() as u64);
            for edge in &node.order {
                hash.text(&edge.node);
                hash.text(edge.reason.as_str());
            }
            hash.text(&serde_json::to_string(&node.policy).unwrap_or_default());
        }
        if let Some(guard) = &node.guard {
            hash.text(&guard.router);
            hash.text(&guard.arm);
        }
        if !node.edges.is_empty() || node.ends || node.does.is_some() {
            let data = (&node.edges, node.begins, node.ends, &node.does);
            hash.text(&serde_json::to_string(&data).unwrap_or_default());
        }
        if !node.saves.is_empty() {
            hash.text(&serde_json::to_string(&node.saves).unwrap_or_default());
        }
        if let Some(decides) = &node.decides {
            hash.text(decides);
        }
        hash.text(node.unless.as_deref().unwrap_or_default());
        for (branch, body) in node.bodies() {
            hash.text(branch);
            hash.text(&body.hash_with(counts));
        }
        if counts.workflows {
            for (name, called) in &node.workflows {
                hash.text(name);
                hash.text(called);
            }
        }
        hash.number(schema);
        hash.0
    }

    /// The graph as JSON, with all schemas.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// What counts when two versions of a workflow are compared.
#[derive(Clone, Copy)]
struct Counts {
    /// The workflows that its nodes call.
    workflows: bool,
    /// When nodes begin, and their policies.
    rules: bool,
}

impl Spec {
    /// The hash of its definition; computed when it is first asked for.
    pub(crate) fn hash(&self) -> &Arc<str> {
        self.hash.get_or_init(|| Graph::of(self).hash().into())
    }

    /// The hash without those of the workflows that it calls. Nothing of them is looked at: they may call this one.
    pub(super) fn own_hash(&self) -> &Arc<str> {
        self.own_hash
            .get_or_init(|| Graph::described(self, false).hash_with(Counts { workflows: false, rules: true }).into())
    }
}

impl GraphNode {
    /// What it consists of, where that is more than one step: its branches by their names, else by an empty name.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = (&str, &Graph)> {
        let branches = self.branch_bodies.iter().map(|(name, body)| (name.as_str(), body));
        self.body.as_deref().into_iter().map(|body| ("", body)).chain(branches)
    }
}

/// The name of a router's arm.
fn arm_of(spec: &Spec, router: u32, arm: u32) -> String {
    match &spec.node(router).body {
        Body::Router { arms, .. } => arms[arm as usize].to_string(),
        _ => String::new(),
    }
}

fn edge_of(spec: &Spec, entry: &Entry) -> GraphEdge {
    let edge = GraphEdge::from(spec.node(entry.from).path.to_string());
    match &entry.when {
        When::Done => edge,
        When::Failed => edge.failed(),
        When::Arm(arm) => edge.arm(arm_of(spec, entry.from, *arm)),
        When::Holds(condition) => edge.when(Condition::clone(&condition.condition)),
    }
}

/// The workflows that a node calls, by themselves.
fn called_by(node: &NodeSpec) -> Vec<Arc<Spec>> {
    let called = node.callees.iter().filter_map(|callee| super::callee::workflow(*callee));
    #[cfg(feature = "dynamic")]
    let called = called.chain(node.references.iter().filter_map(|referenced| match referenced {
        Referenced::Workflow(called) => Some(Arc::clone(called)),
        Referenced::Tool(_) | Referenced::Agent(_) | Referenced::Unfetched(_) => None,
    }));
    called.collect()
}

/// The hash of a workflow with all that it calls, also by way of others. Each counts by itself alone, so that workflows
/// may call each other.
fn closure_hash(of: &Arc<Spec>) -> String {
    let mut all: BTreeMap<Arc<str>, String> = BTreeMap::new();
    let mut open = vec![Arc::clone(of)];
    while let Some(spec) = open.pop() {
        if all.contains_key(&spec.name) {
            continue;
        }
        all.insert(Arc::clone(&spec.name), spec.own_hash().to_string());
        let mut specs = vec![spec];
        while let Some(spec) = specs.pop() {
            for node in &spec.nodes {
                open.extend(called_by(node));
                specs.extend(node.bodies().map(|(_, inner)| Arc::clone(inner)));
            }
        }
    }
    let mut hash = Fnv::new();
    for (name, own) in &all {
        hash.text(name);
        hash.text(own);
    }
    format!("{:016x}", hash.0)
}

/// FNV-1a with 64 bits: stable for ever and between machines, which is all that is asked of it. Offset and prime are
/// those of the published algorithm.
struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
}
