//! Builder methods of graphs whose nodes are data. They check nothing: the runtime checks a graph
//! when it is registered.

use std::collections::BTreeMap;

use super::decider::Decider;
use super::entry::Begins;
use super::graph::{Graph, GraphNode, json_type};
use super::graph_body::{GraphBody, GraphEdge};
use super::node_schema::NodeSchema;
use super::policy::{NodePolicy, StopPolicy};
use super::run_limits::RunLimits;
use super::spec::NodeKind;

impl Graph {
    /// Creates a graph without nodes. `output` names the node that will provide the output.
    pub fn new(name: impl Into<String>, output: impl Into<String>) -> Self {
        Self {
            version: Self::VERSION,
            name: name.into(),
            description: String::new(),
            output: output.into(),
            concurrency: super::CONCURRENCY,
            stop_policy: StopPolicy::default(),
            decider: None,
            limits: RunLimits::default(),
            nodes: Vec::new(),
        }
    }

    /// Consults a decider before each node that calls something. The node then runs, is skipped, or
    /// gets other arguments, as described in [`Builder::decider`](super::Builder::decider). The
    /// decider gets a [`NextNode`](super::NextNode).
    #[must_use]
    pub fn decider(mut self, decider: Decider) -> Self {
        self.decider = Some(decider);
        self
    }

    /// Sets the limits of each run.
    #[must_use]
    pub fn limits(mut self, limits: RunLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a node.
    #[must_use]
    pub fn with(mut self, node: GraphNode) -> Self {
        self.nodes.push(node);
        self
    }
}

impl GraphNode {
    /// Creates an input of the workflow. Its values must fit the JSON Schema.
    pub fn input(name: impl Into<String>, schema: impl Into<NodeSchema>) -> Self {
        Self { kind: NodeKind::Input, schema: schema.into(), ..Self::bare(name.into()) }
    }

    /// Creates a node whose behaviour is data.
    pub fn new(name: impl Into<String>, does: GraphBody) -> Self {
        Self { kind: kind_of(&does), does: Some(does), ..Self::bare(name.into()) }
    }

    fn bare(name: String) -> Self {
        Self {
            name,
            kind: NodeKind::Step,
            calls: String::new(),
            callee: None,
            reads: Vec::new(),
            after: Vec::new(),
            order: Vec::new(),
            guard: None,
            edges: Vec::new(),
            begins: Begins::All,
            ends: false,
            does: None,
            saves: BTreeMap::new(),
            dependencies: Vec::new(),
            decides: None,
            unless: None,
            branches: Vec::new(),
            body: None,
            branch_bodies: BTreeMap::new(),
            writes: false,
            code: String::new(),
            workflows: BTreeMap::new(),
            policy: NodePolicy::default(),
            type_name: json_type(),
            schema: NodeSchema::default(),
            line: 0,
        }
    }

    /// Adds an edge that leads to the node.
    #[must_use]
    pub fn edge(mut self, edge: GraphEdge) -> Self {
        self.edges.push(edge);
        self
    }

    /// Sets the number of edges that must be taken before the node begins. Default: all.
    #[must_use]
    pub fn begins(mut self, begins: Begins) -> Self {
        self.begins = begins;
        self
    }

    /// Ends the workflow with the output of this node, and stops all other nodes.
    #[must_use]
    pub fn ends(mut self) -> Self {
        self.ends = true;
        self
    }

    /// Sets the policy: retries, time-outs, approval and the effect of a failure.
    #[must_use]
    pub fn policy(mut self, policy: NodePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Saves the part of the output at a JSON Pointer to the state of the run. See
    /// [`GraphNode::saves`].
    #[must_use]
    pub fn save(mut self, key: impl Into<String>, at: impl Into<String>) -> Self {
        self.saves.insert(key.into(), at.into());
        self
    }

    /// Sets the JSON Schema of the output.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<NodeSchema>) -> Self {
        self.schema = schema.into();
        self
    }
}

/// Returns the kind of a node with this behaviour.
fn kind_of(does: &GraphBody) -> NodeKind {
    match does {
        GraphBody::Call(_) | GraphBody::Transform(_) | GraphBody::Decide(_) => NodeKind::Step,
        GraphBody::Value(_) => NodeKind::Value,
        GraphBody::Route(_) => NodeKind::Router,
        GraphBody::Ask(_) => NodeKind::Gate,
        GraphBody::Map { .. } => NodeKind::Map,
        GraphBody::Race(_) => NodeKind::Race,
        GraphBody::Fallback(_) => NodeKind::Fallback,
        GraphBody::Repeat { .. } => NodeKind::Repeat,
    }
}
