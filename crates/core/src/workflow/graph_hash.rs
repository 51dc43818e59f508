//! The hash of a workflow's definition: SHA-256 of the parts of its graph that determine how a run
//! is executed.
//!
//! Earlier builds used FNV-1a with 64 bits. Their hashes are in the journals of their runs, so
//! [`Spec::has_hash`] recognizes them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use super::graph::{Graph, GraphNode, called_by};
use super::spec::Spec;
use crate::definition::without_notes;

/// Number of hexadecimal digits of the hashes of earlier builds.
const EARLIER_DIGITS: usize = 16;

/// The function that hashes a definition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HashFunction {
    Sha256,
    /// FNV-1a, of earlier builds.
    Fnv,
}

/// Parts of a definition that its hash covers.
#[derive(Clone, Copy)]
struct HashedParts {
    /// Includes the workflows that nodes call.
    workflows: bool,
    /// Includes order edges and policies.
    rules: bool,
    function: HashFunction,
}

impl Graph {
    /// Returns the hash of the definition: SHA-256 as 64 hexadecimal digits. It covers the nodes
    /// (behaviour, calls, reads and order), their policies, the schemas of their outputs, and the
    /// workflows that they call. Lines, descriptions and formatting do not count. If two workflows
    /// have the same hash, each can resume the other's runs.
    pub fn hash(&self) -> String {
        let function = HashFunction::Sha256;
        self.hash_with(HashedParts { workflows: true, rules: true, function })
    }

    fn hash_with(&self, counts: HashedParts) -> String {
        let mut hash = Hasher::new(counts.function);
        if let Some(decider) = &self.decider {
            hash.text(&serde_json::to_string(decider).unwrap_or_default());
        }
        hash.text(&self.name);
        hash.text(&self.output);
        let mut schemas = HashMap::new();
        for node in &self.nodes {
            hash.part(self.node_hash(node, &mut schemas, counts));
        }
        hash.finish().to_text()
    }

    /// Returns a hash of the parts of a node that determine its output in another version of the
    /// workflow. Order edges and the policy do not count.
    pub(crate) fn shape(&self, node: &GraphNode) -> String {
        self.shape_with(node, true)
    }

    fn shape_with(&self, node: &GraphNode, workflows: bool) -> String {
        let function = HashFunction::Sha256;
        let counts = HashedParts { workflows, rules: false, function };
        self.node_hash(node, &mut HashMap::new(), counts).to_text()
    }

    /// Returns `true` if a node has the same shape in this version and in a newer one.
    pub(crate) fn has_same_shape(&self, newer: &Self, name: &str) -> bool {
        // Hashes of called workflows cannot be compared with those of earlier builds. A changed
        // workflow is noticed when its own run continues.
        let is_earlier =
            |node: &GraphNode| node.workflows.values().any(|called| called.len() == EARLIER_DIGITS);
        match (self.node(name), newer.node(name)) {
            (Some(old), Some(new)) => {
                let workflows = !is_earlier(old);
                self.shape_with(old, workflows) == newer.shape_with(new, workflows)
            }
            _ => false,
        }
    }

    fn node_hash(
        &self,
        node: &GraphNode,
        schemas: &mut HashMap<usize, HashValue>,
        counts: HashedParts,
    ) -> HashValue {
        let schema_hash = || {
            let mut schema = node.schema.to_value();
            without_notes(&mut schema);
            let mut hash = Hasher::new(counts.function);
            hash.text(&schema.to_string());
            hash.finish()
        };
        let schema = match node.schema.key() {
            // Many nodes share a type, so its schema is hashed once.
            Some(key) => *schemas.entry(key).or_insert_with(schema_hash),
            None => schema_hash(),
        };
        let mut hash = Hasher::new(counts.function);
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
        hash.part(schema);
        hash.finish()
    }
}

impl Spec {
    /// Returns the hash of the definition. It is computed on first use.
    pub(crate) fn hash(&self) -> &Arc<str> {
        self.hash.get_or_init(|| self.hash_by(HashFunction::Sha256).into())
    }

    /// Returns `true` if this is the hash of the definition, also if an earlier build computed it.
    pub(crate) fn has_hash(&self, recorded: &str) -> bool {
        match recorded.len() {
            EARLIER_DIGITS => self.hash_by(HashFunction::Fnv) == recorded,
            _ => **self.hash() == *recorded,
        }
    }

    fn hash_by(&self, function: HashFunction) -> String {
        let counts = HashedParts { workflows: true, rules: true, function };
        Graph::described(self, Some(function)).hash_with(counts)
    }

    /// Returns the hash without the hashes of called workflows. Their plans are not accessed,
    /// because they may call this workflow.
    pub(super) fn own_hash(&self) -> &Arc<str> {
        self.own_hash.get_or_init(|| self.own_hash_by(HashFunction::Sha256).into())
    }

    fn own_hash_by(&self, function: HashFunction) -> String {
        let counts = HashedParts { workflows: false, rules: true, function };
        Graph::described(self, None).hash_with(counts)
    }
}

/// Returns a hash of a workflow and of all workflows that it calls, directly or through others.
/// Each workflow adds only its own hash, so workflows may call each other.
pub(super) fn transitive_hash(of: &Arc<Spec>, function: HashFunction) -> String {
    let mut all: BTreeMap<Arc<str>, String> = BTreeMap::new();
    let mut open = vec![Arc::clone(of)];
    while let Some(spec) = open.pop() {
        if all.contains_key(&spec.name) {
            continue;
        }
        let own = match function {
            HashFunction::Sha256 => spec.own_hash().to_string(),
            HashFunction::Fnv => spec.own_hash_by(function),
        };
        all.insert(Arc::clone(&spec.name), own);
        // The hash of a workflow covers its nested workflows. They are searched for further calls
        // only.
        let mut specs = vec![spec];
        while let Some(spec) = specs.pop() {
            for node in &spec.nodes {
                open.extend(called_by(node));
                specs.extend(node.bodies().map(|(_, inner)| Arc::clone(inner)));
            }
        }
    }
    let mut hash = Hasher::new(function);
    for (name, own) in &all {
        hash.text(name);
        hash.text(own);
    }
    hash.finish().to_text()
}

/// Hashes the parts of a definition.
enum Hasher {
    Sha256(Box<hmac_sha256::Hash>),
    Fnv(u64),
}

impl Hasher {
    fn new(function: HashFunction) -> Self {
        match function {
            HashFunction::Sha256 => Self::Sha256(Box::new(hmac_sha256::Hash::new())),
            HashFunction::Fnv => Self::Fnv(0xcbf2_9ce4_8422_2325),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Fnv(hash) => {
                for byte in bytes {
                    *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
                }
            }
        }
    }

    fn text(&mut self, text: &str) {
        // The length keeps strings apart: `ab` and `c` hash differently from `a` and `bc`.
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn part(&mut self, hash: HashValue) {
        match hash {
            HashValue::Sha256(bytes) => self.bytes(&bytes),
            HashValue::Fnv(number) => self.number(number),
        }
    }

    fn finish(self) -> HashValue {
        match self {
            Self::Sha256(hash) => HashValue::Sha256(hash.finalize()),
            Self::Fnv(hash) => HashValue::Fnv(hash),
        }
    }
}

/// A hash of some parts of a definition.
#[derive(Clone, Copy)]
enum HashValue {
    Sha256([u8; 32]),
    Fnv(u64),
}

impl HashValue {
    fn to_text(self) -> String {
        match self {
            Self::Sha256(bytes) => {
                let mut text = String::with_capacity(64);
                for byte in bytes {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
            Self::Fnv(number) => format!("{number:016x}"),
        }
    }
}

#[cfg(all(test, feature = "dynamic"))]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workflow::reference_steps::Callee;

    fn inner(text: &str) -> Value {
        let asks = json!({"ask": {"text": text, "answer": {"type": "integer"}}});
        json!({"name": "inner", "output": "number", "nodes": [{"name": "number", "does": asks}]})
    }

    fn spec(mut graph: Value, called: Option<&Arc<Spec>>) -> Arc<Spec> {
        graph["version"] = Graph::VERSION.into();
        graph["concurrency"] = 16.into();
        let graph: Graph = serde_json::from_value(graph).unwrap();
        let resolve =
            |_, _: &str| called.map(|spec| Callee::Workflow(Arc::clone(spec))).ok_or(None);
        Arc::new(graph.to_spec(&resolve).unwrap_or_else(|problems| panic!("{problems:?}")))
    }

    #[test]
    fn the_hash_is_sha256_and_hashes_of_earlier_builds_are_recognized() {
        let called = spec(inner("which?"), None);
        let does = json!({"call": {"kind": "workflow", "name": "inner", "with": {"object": {}}}});
        let outer = json!({"name": "outer2", "output": "asked", "nodes": [{"name": "asked", "does": does}]});
        let calls = spec(outer.clone(), Some(&called));
        // The hashes that an earlier build printed for these graphs.
        for (spec, earlier) in [(&called, "741d4aa72fac6a8f"), (&calls, "165e36d2c7ea9620")] {
            assert_eq!(spec.hash().len(), 64);
            assert_eq!(Graph::from_plan(spec).hash(), **spec.hash());
            assert!(spec.has_hash(spec.hash()) && spec.has_hash(earlier), "{}", spec.name);
            assert!(!spec.has_hash("0000000000000000") && !spec.has_hash(""));
        }
        // A change of the called workflow changes both.
        let changed = spec(inner("which one?"), None);
        let calls = spec(outer, Some(&changed));
        assert!(!changed.has_hash("741d4aa72fac6a8f") && !calls.has_hash("165e36d2c7ea9620"));
    }
}
