//! A graph that is being made: its nodes so far, and names that none of them has. It decides nothing.

use std::collections::{BTreeSet, HashMap};

use super::drafting::INPUT;
use crate::workflow::{Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodeSchema};

/// Names that are given once each. It asks no name twice whether it is free.
#[derive(Default)]
pub(super) struct FreeNames {
    taken: BTreeSet<String>,
    /// The number that each name had last.
    numbers: HashMap<String, u32>,
}

impl FreeNames {
    /// A name that nothing has: this one, or with a number behind it.
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

/// A graph that is being made.
pub(super) struct GraphInWork {
    nodes: Vec<GraphNode>,
    /// The names of nodes, and those that mean something else in templates and conditions.
    names: FreeNames,
}

/// A place in a graph: the node whose output is the value there, and the edges that lead to a node which stands there.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) given: String,
    pub(super) edges: Vec<GraphEdge>,
}

impl Place {
    /// Behind a node.
    pub(super) fn behind(node: impl Into<String>) -> Self {
        Self { given: node.into(), edges: Vec::new() }
    }

    pub(super) fn value(&self) -> Mapping {
        Mapping::from(&self.given)
    }
}

impl GraphInWork {
    pub(super) fn new(input: NodeSchema) -> Self {
        let taken = [INPUT, "item", "nodes", "state"].map(ToOwned::to_owned);
        let names = FreeNames { taken: taken.into(), ..FreeNames::default() };
        Self { nodes: vec![GraphNode::input(INPUT, input)], names }
    }

    /// A name that no node has: this one, or with a number behind it.
    pub(super) fn name(&mut self, label: &str) -> String {
        self.names.name(label)
    }

    /// Adds a node at a place; behind it is its output.
    pub(super) fn add(&mut self, at: &Place, mut node: GraphNode) -> Place {
        // One that does not read what is given waits for it all the same.
        let reads = node.reads_by_name(&|name| name == at.given).iter().any(|(read, _)| *read == at.given);
        let is_behind = node.edges.iter().chain(&at.edges).any(|edge| edge.from == at.given);
        if at.given != INPUT && !reads && !is_behind {
            node.edges.push(GraphEdge::from(&at.given));
        }
        node.edges.extend(at.edges.iter().cloned());
        let name = node.name.clone();
        self.nodes.push(node);
        Place::behind(name)
    }

    /// The node that has the value at a place, and that nothing else leads to.
    pub(super) fn node_at(&mut self, at: Place, label: &str) -> String {
        if at.edges.is_empty() {
            return at.given;
        }
        let name = self.name(label);
        let node = GraphNode::new(name, GraphBody::Value(at.value()));
        self.add(&at, node).given
    }

    /// The graph, whose output is the value at a place.
    pub(super) fn graph(mut self, name: &str, end: Place) -> Graph {
        let end = match end.given == INPUT {
            // An input is not computed, so it cannot be the output.
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
