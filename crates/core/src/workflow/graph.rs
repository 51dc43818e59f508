//! `Graph`: a workflow as data, with nodes, edges, guards, policies and types. It can be inspected,
//! drawn, hashed and stored without running the workflow.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::Condition;
use super::decider::Decider;
use super::entry::{Begins, Entry, When};
use super::graph_body::{GraphBody, GraphEdge};
use super::graph_hash::{HashFunction, transitive_hash};
use super::input_schema::input_object_schema;
use super::node_dependency::ResolvedDependency;
use super::node_schema::NodeSchema;
use super::policy::{NodePolicy, StopPolicy};
use super::run_limits::RunLimits;
#[cfg(feature = "dynamic")]
use super::spec::ReferencedDefinition;
use super::spec::{Body, NodeKind, OrderReason, PlanNode, Spec};

/// A workflow described as data: its nodes, edges, policies and types, without the code of its
/// steps.
///
/// Its JSON form has a [version](Self::VERSION). [`to_mermaid`](Self::to_mermaid) and
/// [`to_dot`](Self::to_dot) draw the graph.
///
/// A graph whose nodes are data, each with a [`GraphBody`], can be executed. Register it with
/// `RuntimeBuilder::graph` (feature `dynamic`). Its nodes call tools, agents and workflows by name.
/// A node begins when the outputs that it reads are available and enough of its [edges](GraphEdge)
/// are taken.
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
    /// Version of the JSON form. Graphs made by this release have [`Graph::VERSION`].
    pub version: u32,
    /// Name of the workflow.
    pub name: String,
    /// Description of the workflow.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Name of the node that provides the workflow's output.
    pub output: String,
    /// Maximum number of steps that run at the same time.
    pub concurrency: usize,
    /// Reaction of the other nodes when a node has failed for good.
    pub stop_policy: StopPolicy,
    /// Decider that is consulted before each node that calls a tool, an agent or a workflow. The
    /// graph that is executed has a node `NAME.decision` for each consultation instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decider: Option<Decider>,
    /// Limits of each run. They are not part of the [hash](Self::hash), because a run records its
    /// own limits.
    #[serde(skip_serializing_if = "RunLimits::is_default")]
    pub limits: RunLimits,
    /// Nodes. In the graph of a workflow, each node comes after the nodes that it depends on. A
    /// graph that is written as data may list them in any order.
    pub nodes: Vec<GraphNode>,
}

/// A node of a [`Graph`].
///
/// ```
/// use agentflow::serde_json::json;
/// use agentflow::workflow::{Graph, GraphBody, GraphNode, Mapping};
///
/// let graph = Graph::new("echo", "said")
///     .with(GraphNode::input("text", json!({"type": "string"})))
///     .with(GraphNode::new("said", GraphBody::Value(Mapping::from("text"))).save("draft", ""));
/// assert_eq!(graph.nodes.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a node, such as {\"name\": \"page\", \"does\": {..}}")]
#[non_exhaustive]
#[doc(alias = "reads_keys")]
pub struct GraphNode {
    /// Name of the node, with the router arms that contain it: `outcome/Granted/merge`.
    pub name: String,
    /// Kind of the node. It can be omitted if `does` is present, because `does` determines the
    /// kind.
    #[serde(default = "step")]
    pub kind: NodeKind,
    /// Source text of the call, for display.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub calls: String,
    /// Kind of the function that the node calls: `tool`, `agent` or `workflow`. `None` for a plain
    /// function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callee: Option<String>,
    /// Nodes whose outputs it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// Nodes that must end before it begins, as requested with [`Node::after`](super::Node::after).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Nodes that must end before it begins because of the written order of a `#[workflow]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<OrderEdge>,
    /// Router arm that contains the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// Edges that lead to the node. A node in a router arm has a `guard` instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<GraphEdge>,
    /// Number of edges that must be taken before the node begins.
    #[serde(default, skip_serializing_if = "Begins::is_all")]
    pub begins: Begins,
    /// `true` if the workflow ends with this node's output and all other nodes are stopped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ends: bool,
    /// Behaviour of the node, if it is data and not code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub does: Option<GraphBody>,
    /// Parts of the output that are saved to the [state](crate::state) of the run, together with
    /// the record of the output. Each key has the JSON Pointer of its value in the output:
    /// `{"tone": "/tone", "user:name": "/author/name", "draft": ""}`. A part that does not exist is
    /// not saved. The key `*` saves each field of an object under its own name; an explicit key
    /// takes precedence over such a field. Two nodes that may run at the same time must not save
    /// the same key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub saves: BTreeMap<String, String>,
    /// Bindings of the node's dependencies, including all candidates of a pool. They are not part
    /// of the [hash](Graph::hash). If an agent chooses among the tools of servers, the fields
    /// `tool_used` and `server_id` of the node's output name the last tool that the agent called
    /// successfully.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<ResolvedDependency>,
    /// Name of the node that this node decides on. That node begins afterwards. The decision runs
    /// it, skips it or changes its arguments. See [`GraphBody::Decide`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decides: Option<String>,
    /// Name of the join of the arms above that return. The node runs only if none of these arms is
    /// taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
    /// Names of a router's arms, or of the branches of a race or a fallback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<String>,
    /// Workflow that runs for each item or round, if that is more than one step.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::graph_form::body"
    )]
    pub body: Option<Box<Graph>>,
    /// Workflows of the branches that have more than one step, by branch name.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "super::graph_form::bodies"
    )]
    pub branch_bodies: BTreeMap<String, Graph>,
    /// `true` if the node is declared to change something outside of the run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub writes: bool,
    /// Fingerprint of the source text of the node's code. Empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Definition hashes of the workflows that the node calls, by workflow name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workflows: BTreeMap<String, String>,
    /// Policy of the node: retries, time-outs, approval and the effect of a failure.
    #[serde(default)]
    pub policy: NodePolicy,
    /// Rust type of the output. `json` for a node that is data.
    #[serde(rename = "type", default = "json_type")]
    pub type_name: String,
    /// JSON Schema of the output.
    #[serde(default)]
    pub schema: NodeSchema,
    /// Source line of the node. 0 if unknown.
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
    /// Name of the earlier node.
    pub node: String,
    /// Reason why the node waits for the earlier one.
    pub reason: OrderReason,
}

/// The router arm that contains a node. The node runs only if the router takes this arm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Guard {
    /// Name of the router.
    pub router: String,
    /// Name of the arm.
    pub arm: String,
}

impl Graph {
    /// Version of the JSON form that this release writes.
    pub const VERSION: u32 = 1;

    pub(crate) fn from_plan(spec: &Spec) -> Self {
        Self::described(spec, Some(HashFunction::Sha256))
    }

    /// Describes a plan. With a hash function, includes the hashes of the workflows that nodes call.
    pub(super) fn described(spec: &Spec, workflows: Option<HashFunction>) -> Self {
        let name = |node: u32| spec.node(node).path.to_string();
        let after = |node: &PlanNode| node.after.clone().into_iter();
        let describe = |node: &PlanNode| GraphNode {
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
            // `after` has the order that the author requested, `order` the order that the builder
            // added.
            after: after(node)
                .filter(|after| after.why == OrderReason::Asked)
                .map(|after| name(after.node))
                .collect(),
            order: after(node)
                .filter(|after| after.why != OrderReason::Asked)
                .map(|after| OrderEdge { node: name(after.node), reason: after.why })
                .collect(),
            guard: node.guard().map(|(router, arm)| Guard {
                router: name(router),
                arm: arm_of(spec, router, arm),
            }),
            // A router arm is described by `guard` alone.
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
                .filter_map(|(branch, inner)| {
                    Some((branch?.to_owned(), Self::described(inner, workflows)))
                })
                .collect(),
            writes: node.writes,
            code: if node.code == 0 { String::new() } else { format!("{:016x}", node.code) },
            workflows: match workflows {
                Some(function) => called_by(node)
                    .iter()
                    .map(|called| (called.name.to_string(), transitive_hash(called, function)))
                    .collect(),
                None => BTreeMap::new(),
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

    /// Returns the node with this name.
    pub fn node(&self, name: &str) -> Option<&GraphNode> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Returns the nodes that can begin once the nodes in `ended` have ended. These are nodes that
    /// are not in `ended` and wait only for nodes in `ended`. Inputs count as ended. A node in a
    /// router arm is returned when its router has ended. A node with edges is returned when enough
    /// of the nodes at their other end have ended. Only a run knows the taken arm and the
    /// conditions of edges, so add skipped nodes to `ended`.
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
                // A node that is read and has an edge to this one counts among the edges only.
                && before.all(|name| has_ended(name) || node.edges.iter().any(|edge| edge.from == *name))
                && known
                    >= if node.begins.waits_for_all() { node.edges.len() } else { node.begins.needed(node.edges.len()) }
        };
        self.nodes.iter().filter(is_ready).collect()
    }

    /// Returns the inputs of the workflow, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &GraphNode> {
        self.nodes.iter().filter(|node| node.kind == NodeKind::Input)
    }

    /// Returns the JSON Schema of the input: an object with a property for each input.
    pub fn input_schema(&self) -> Value {
        input_object_schema(
            self.inputs().map(|input| (input.name.clone(), input.schema.to_value())),
        )
    }

    /// Returns the JSON Schema of the output.
    pub fn output_schema(&self) -> Value {
        self.node(&self.output).map_or(Value::Null, |node| node.schema.to_value())
    }

    /// Returns the graph as JSON, with all schemas.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl GraphNode {
    /// Returns the nested workflows with their branch names. The workflow of items or rounds has an
    /// empty name.
    #[doc(hidden)]
    pub fn bodies(&self) -> impl Iterator<Item = (&str, &Graph)> {
        let branches = self.branch_bodies.iter().map(|(name, body)| (name.as_str(), body));
        self.body.as_deref().into_iter().map(|body| ("", body)).chain(branches)
    }
}

/// Returns the name of a router's arm.
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

/// Returns the workflows that a node calls directly.
pub(super) fn called_by(node: &PlanNode) -> Vec<Arc<Spec>> {
    let called = node.callees.iter().filter_map(|callee| super::callee::workflow(*callee));
    #[cfg(feature = "dynamic")]
    let called = called.chain(node.references.iter().filter_map(|referenced| match referenced {
        ReferencedDefinition::Workflow(called) => Some(Arc::clone(called)),
        ReferencedDefinition::Tool(_)
        | ReferencedDefinition::Agent(_)
        | ReferencedDefinition::Unfetched(_) => None,
    }));
    called.collect()
}

#[cfg(feature = "dynamic")]
impl GraphNode {
    /// Returns the names of its callees, for display.
    pub(super) fn called(&self) -> String {
        let calls = self.does.as_ref().map(GraphBody::calls).unwrap_or_default();
        match (self.calls.is_empty(), calls) {
            (true, calls) => {
                calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", ")
            }
            (false, _) => self.calls.clone(),
        }
    }
}
