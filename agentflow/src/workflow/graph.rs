//! `Graph`: the description of a workflow, with nodes, edges, guards, policies and types. It is available without
//! running anything and can be stored.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::input_schema::input_object_schema;
use super::policy::{NodePolicy, StopPolicy};
use super::spec::{Body, NodeKind, NodeSpec, OrderReason, Spec};

/// A workflow described: what it consists of, without what its steps do.
///
/// As JSON it carries a [version](Self::VERSION). [`to_mermaid`](Self::to_mermaid) and [`to_dot`](Self::to_dot) draw
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Graph {
    /// The version of the form, [`Graph::VERSION`] when made by this release.
    pub version: u32,
    /// The workflow's name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The node whose output is the workflow's.
    pub output: String,
    /// The most steps at once.
    pub concurrency: usize,
    /// What the other nodes do when one has failed for good.
    #[serde(default)]
    pub stop_policy: StopPolicy,
    /// The nodes, each after all it depends on.
    pub nodes: Vec<GraphNode>,
}

/// A node of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphNode {
    /// Its name, with the arms it is in: `outcome/Granted/merge`.
    pub name: String,
    /// What it is.
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
    /// The join of the arms that return above it: it runs only when none of them is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
    /// The arms of a router, the branches of a race or a fallback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<String>,
    /// What each of its items or rounds consists of, when that is more than one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<Graph>>,
    /// What its branches consist of, by their names, where that is more than one step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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
    /// The Rust type of its output.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The JSON Schema of its output.
    pub schema: NodeSchema,
    /// The line of the source it is written on; 0 when that is not known.
    #[serde(default)]
    pub line: u32,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// An edge between nodes whose written order is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OrderEdge {
    /// The node above.
    pub node: String,
    /// Why it is waited for.
    pub reason: OrderReason,
}

/// The condition under which a node runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Guard {
    /// The router.
    pub router: String,
    /// The arm that it must take.
    pub arm: String,
}

/// The JSON Schema of a node's output; made when it is first looked at.
#[derive(Clone)]
pub struct NodeSchema(Schema);

#[derive(Clone)]
enum Schema {
    Made(fn() -> Value),
    Known(Value),
}

impl NodeSchema {
    /// The schema.
    pub fn to_value(&self) -> Value {
        match &self.0 {
            Schema::Made(make) => make(),
            Schema::Known(schema) => schema.clone(),
        }
    }
}

impl PartialEq for NodeSchema {
    fn eq(&self, other: &Self) -> bool {
        self.to_value() == other.to_value()
    }
}

impl fmt::Debug for NodeSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl Serialize for NodeSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NodeSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Schema::Known(Value::deserialize(deserializer)?)))
    }
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
            calls: node.call.to_owned(),
            callee: node
                .callee
                .iter()
                .chain(&node.callees)
                .find_map(|callee| super::callee::word(*callee))
                .map(ToOwned::to_owned),
            reads: node.reads.iter().map(|read| name(*read)).collect(),
            after: after(node).filter(|after| after.why == OrderReason::Asked).map(|after| name(after.node)).collect(),
            order: after(node)
                .filter(|after| after.why != OrderReason::Asked)
                .map(|after| OrderEdge { node: name(after.node), reason: after.why })
                .collect(),
            guard: node.guard.map(|(router, arm)| {
                let of = spec.node(router);
                let arm = match &of.body {
                    Body::Router { arms, .. } => arms[arm as usize].to_string(),
                    _ => String::new(),
                };
                Guard { router: of.path.to_string(), arm }
            }),
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
            type_name: node.type_name.to_owned(),
            schema: NodeSchema(Schema::Made(node.schema)),
            line: node.line,
        };
        Self {
            version: Self::VERSION,
            name: spec.name.to_string(),
            description: spec.description.to_string(),
            output: spec.node(spec.output).path.to_string(),
            concurrency: spec.concurrency,
            stop_policy: spec.stop,
            nodes: spec.nodes.iter().map(describe).collect(),
        }
    }

    /// The node of a name.
    pub fn node(&self, name: &str) -> Option<&GraphNode> {
        self.nodes.iter().find(|node| node.name == name)
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
        let schema = match &node.schema.0 {
            // Many nodes have one type: its schema is made once.
            Schema::Made(make) => *schemas.entry(*make as usize).or_insert_with(schema_hash),
            Schema::Known(_) => schema_hash(),
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
    fn own_hash(&self) -> &Arc<str> {
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

/// The workflows that a node calls, by themselves.
fn called_by(node: &NodeSpec) -> Vec<Arc<Spec>> {
    node.callees.iter().filter_map(|callee| super::callee::workflow(*callee)).collect()
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

/// Takes titles and descriptions out of a schema, where they are keywords: a property may be called so.
fn without_notes(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    keywords.remove("title");
    keywords.remove("description");
    for (keyword, value) in keywords.iter_mut() {
        match (keyword.as_str(), value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Value::Object(schemas),
            ) => schemas.values_mut().for_each(without_notes),
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(without_notes);
            }
            (
                "items"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contentSchema",
                schema,
            ) => without_notes(schema),
            _ => {}
        }
    }
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
