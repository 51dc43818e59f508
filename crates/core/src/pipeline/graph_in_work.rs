//! [`GraphDraft`]: a graph under construction, with its nodes and unused names.

use std::collections::{BTreeSet, HashMap};

use super::drafting::INPUT;
use crate::workflow::{Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodeSchema};

/// Generates unique names. Finding a name takes constant time, also if many parts have the same
/// label.
#[derive(Default)]
pub(super) struct FreeNames {
    taken: BTreeSet<String>,
    /// Last number that was appended to each name.
    numbers: HashMap<String, u32>,
}

impl FreeNames {
    /// Returns an unused name: the wanted name, or the name with a number.
    pub(super) fn name(&mut self, wanted: &str) -> String {
        let number = self.numbers.entry(wanted.to_owned()).or_default();
        loop {
            *number += 1;
            let name = if *number == 1 { wanted.to_owned() } else { format!("{wanted}_{number}") };
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// A graph under construction.
pub(super) struct GraphDraft {
    nodes: Vec<GraphNode>,
    /// Names of the nodes, and reserved words of templates and conditions.
    names: FreeNames,
}

/// A position in a graph: the node whose output is the value at this position, and further edges to
/// the next node.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) given: String,
    pub(super) edges: Vec<GraphEdge>,
}

impl Place {
    /// Returns the position after a node.
    pub(super) fn behind(node: impl Into<String>) -> Self {
        Self { given: node.into(), edges: Vec::new() }
    }

    pub(super) fn value(&self) -> Mapping {
        Mapping::from(&self.given)
    }
}

impl GraphDraft {
    pub(super) fn new(input: NodeSchema) -> Self {
        let taken = [INPUT, "item", "nodes", "state"].map(ToOwned::to_owned);
        let names = FreeNames { taken: taken.into(), ..FreeNames::default() };
        Self { nodes: vec![GraphNode::input(INPUT, input)], names }
    }

    /// Returns an unused node name: the label, or the label with a number.
    pub(super) fn name(&mut self, label: &str) -> String {
        self.names.name(label)
    }

    /// Adds a node at a position. Returns the position after it.
    pub(super) fn add(&mut self, at: &Place, mut node: GraphNode) -> Place {
        // Nodes that do not read the value need an explicit edge, to keep the order of the parts.
        let reads =
            node.reads_by_name(&|name| name == at.given).iter().any(|(read, _)| *read == at.given);
        let is_behind = node.edges.iter().chain(&at.edges).any(|edge| edge.from == at.given);
        if at.given != INPUT && !reads && !is_behind {
            node.edges.push(GraphEdge::from(&at.given));
        }
        node.edges.extend(at.edges.iter().cloned());
        let name = node.name.clone();
        self.nodes.push(node);
        Place::behind(name)
    }

    /// Returns a node whose output is the value at a position and which has all of its edges. Adds
    /// such a node if needed.
    pub(super) fn node_at(&mut self, at: Place, label: &str) -> String {
        if at.edges.is_empty() {
            return at.given;
        }
        let name = self.name(label);
        let node = GraphNode::new(name, GraphBody::Value(at.value()));
        self.add(&at, node).given
    }

    /// Returns the graph. Its output is the value at `end`.
    pub(super) fn graph(mut self, name: &str, end: Place) -> Graph {
        let end = match end.given == INPUT {
            // An input is not a computed node, so it cannot be the output.
            true => {
                let name = self.name("output");
                let node = GraphNode::new(name, GraphBody::Value(end.value()));
                self.add(&end, node).given
            }
            false => self.node_at(end, "output"),
        };
        self.nodes.into_iter().fold(Graph::new(name, end), Graph::with)
    }
}
