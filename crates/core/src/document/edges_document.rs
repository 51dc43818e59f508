//! The form `edges`: nodes and edges that exchange data through the state of the run. This module
//! reads the document; `edges_wiring.rs` generates the graph.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::collections::{BTreeMap, BTreeSet};

use agentflow_schema::text::nearest;
use agentflow_schema::text_tree::Tree;

use super::document_codes;
use super::edges_node::{EdgesNode, INPUT, Permissions, SharedNodeSettings};
use super::edges_pool::PoolWorkflow;
use super::edges_wiring::Wiring;
use super::object_fields::{Fields, Problems};
use super::{DraftedDocument, PartRanges};
use crate::workflow::Graph;

/// Default number of concurrent nodes.
const CONCURRENCY: usize = 4;

/// `condition_key` of an edge that is taken if its node has failed.
pub(super) const ERROR: &str = "error";

pub(super) fn read(tree: &Tree, problems: &mut Problems) -> Option<DraftedDocument> {
    let mut fields = Fields::from_tree(tree, "a document of nodes and edges", problems)?.or_camel();
    let name = fields.need_text("workflow_id", problems).map(|(name, _)| name);
    for kept in ["name", "created_at", "updated_at"] {
        fields.text(kept, problems);
    }
    fields.read::<u64>("version", problems);
    let description = fields.text("description", problems).and_then(Tree::text).unwrap_or_default();
    let model = super::model_of(&mut fields, problems);
    let concurrency = fields.read("concurrency_limit", problems).unwrap_or(CONCURRENCY);
    let decider = super::decider_of(&mut fields, problems);
    let limits = super::limits_of(&mut fields, problems);
    let permissions = fields.get("permissions");
    let items = fields.list("nodes", problems);
    let lines = fields.list("edges", problems);
    fields.end(problems);
    let permissions =
        permissions.map(|tree| Permissions::read(tree, "acl_scope", problems)).unwrap_or_default();
    let servers = permissions.servers.clone();
    let common = SharedNodeSettings { workflow: name.unwrap_or_default(), model, servers };
    if items.is_empty() {
        problems.note(&tree.at, Diagnostic::new(document_codes::NO_NODES_OF_EDGES));
    }
    let nodes: Vec<EdgesNode<'_>> =
        items.iter().filter_map(|item| EdgesNode::read(item, &common, problems)).collect();
    let known = Known::from_items(items, problems);
    let edges: Vec<Edge<'_>> =
        lines.iter().filter_map(|line| Edge::read(line, &known, problems)).collect();
    known.check(&edges, problems);
    let mut wiring = Wiring::new(&nodes, &known, &edges);
    wiring.check_edges(problems);
    wiring.check_joins(problems);
    wiring.check_routers(problems);
    wiring.route_failures(problems);
    wiring.check_cycles(problems);
    // The wiring is only complete without mistakes, so no graph is generated otherwise.
    if !problems.found.is_empty() {
        return None;
    }
    let mut graph = Graph::new(name?, "");
    graph.description = description.to_owned();
    graph.concurrency = concurrency;
    graph.decider = decider;
    graph.limits = limits;
    wiring.into_graph(&mut graph, &permissions);
    let mut parts: PartRanges =
        nodes.iter().map(|node| (node.id.to_owned(), node.tree.at.clone())).collect();
    let agents: Vec<_> = nodes.iter().flat_map(|node| node.agents.clone()).collect();
    let mut seen = BTreeSet::new();
    for node in &nodes {
        // Agents that the nodes' models use are named after their nodes, so two nodes can collide.
        for agent in &node.agents {
            if !seen.insert(&agent.name) {
                let found = Diagnostic::new(document_codes::AGENT_OF_NODE_EXISTS)
                    .name("agent", &agent.name);
                problems.note(&node.tree.at, found);
            }
            parts.entry(agent.name.to_string()).or_insert_with(|| node.tree.at.clone());
        }
        for (at, candidate) in node.candidates.iter().enumerate() {
            parts
                .entry(PoolWorkflow::call_name(node.id, at))
                .or_insert_with(|| candidate.at.clone());
        }
        if let Some(inner) = &node.inner {
            let calls = inner
                .nodes
                .iter()
                .map(|of| of.name.clone())
                .filter(|name| name.starts_with(node.id));
            for name in calls.chain([inner.name.clone()]) {
                parts.entry(name).or_insert_with(|| node.tree.at.clone());
            }
        }
    }
    let inner = nodes.iter().filter_map(|node| node.inner.clone()).collect();
    Some(DraftedDocument { agents, inner, ..DraftedDocument::new(graph, parts) })
}

/// The ids of all nodes, including nodes with mistakes, with their kinds.
pub(super) struct Known<'t>(BTreeMap<&'t str, (&'t Tree, Option<&'t str>)>);

impl<'t> Known<'t> {
    fn from_items(items: &'t [Tree], problems: &mut Problems) -> Self {
        let mut known = BTreeMap::new();
        for item in items {
            let text = |names: [&str; 2]| {
                names.into_iter().find_map(|name| item.field(name)?.value.text())
            };
            let Some(id) = text(["node_id", "nodeId"]) else { continue };
            if id == INPUT {
                let place = item.place_of(id).unwrap_or_else(|| item.at.clone());
                problems.note(
                    &place,
                    Diagnostic::new(document_codes::RESERVED_NODE_NAME).name("name", INPUT),
                );
            }
            if known.insert(id, (item, text(["kind", "kind"]))).is_some() {
                let place = item.place_of(id).unwrap_or_else(|| item.at.clone());
                problems
                    .note(&place, Diagnostic::new(document_codes::DUPLICATE_NODE).name("node", id));
            }
        }
        Self(known)
    }

    pub(super) fn find(
        &self,
        id: &'t str,
        at: &Tree,
        what: &str,
        problems: &mut Problems,
    ) -> Option<&'t str> {
        if self.0.contains_key(id) {
            return Some(id);
        }
        let near = Suggestion::similar(nearest(id, self.0.keys().copied()));
        problems.note(
            &at.at,
            Diagnostic::new(document_codes::UNKNOWN_NODE)
                .text("reference", what)
                .name("node", id)
                .suggest(near),
        );
        None
    }

    pub(super) fn kind(&self, id: &str) -> Option<&'t str> {
        self.0.get(id)?.1
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &'t str> {
        self.0.keys().copied()
    }

    /// Reports edges with the same id.
    fn check(&self, edges: &[Edge<'_>], problems: &mut Problems) {
        let mut ids = BTreeSet::new();
        for (id, at) in edges.iter().filter_map(|edge| edge.id) {
            if !ids.insert(id) {
                problems.note(
                    &at.at,
                    Diagnostic::new(document_codes::DUPLICATE_EDGE_ID).name("edge", id),
                );
            }
        }
    }
}

/// An edge of the document.
pub(super) struct Edge<'t> {
    pub(super) tree: &'t Tree,
    id: Option<(&'t str, &'t Tree)>,
    pub(super) from: &'t str,
    pub(super) to: &'t str,
    pub(super) is_conditional: bool,
    pub(super) key: Option<(&'t str, &'t Tree)>,
    pub(super) join_group: Option<(&'t str, &'t Tree)>,
}

impl<'t> Edge<'t> {
    fn read(tree: &'t Tree, known: &Known<'t>, problems: &mut Problems) -> Option<Self> {
        const KINDS: [&str; 3] = ["sequential", "conditional", "parallel"];
        let mut fields = Fields::from_tree(tree, "an edge", problems)?.or_camel();
        let id = fields.text("edge_id", problems).and_then(|at| Some((at.text()?, at)));
        let from = fields.need_text("from_node_id", problems);
        let to = fields.need_text("to_node_id", problems);
        let kind = fields.word("edge_type", &KINDS, problems);
        let key = fields.text("condition_key", problems).and_then(|at| Some((at.text()?, at)));
        let join_group = fields.text("join_group", problems).and_then(|at| Some((at.text()?, at)));
        fields.end(problems);
        let from = from.and_then(|(id, at)| known.find(id, at, "the edge comes from", problems));
        let to = to.and_then(|(id, at)| known.find(id, at, "the edge leads to", problems));
        let (from, to) = (from?, to?);
        let is_conditional = kind.map_or(key.is_some(), |kind| kind == "conditional");
        if let Some((_, at)) = key.filter(|_| !is_conditional) {
            problems.note(&at.at, Diagnostic::new(document_codes::CONDITION_KEY_OF_OTHER_EDGE));
        }
        if from == to {
            problems
                .note(&tree.at, Diagnostic::new(document_codes::EDGE_TO_ITSELF).name("from", from));
        }
        Some(Self { tree, id, from, to, is_conditional, key, join_group })
    }

    pub(super) fn is_of_failure(&self) -> bool {
        self.is_conditional && self.key.is_some_and(|(key, _)| key == ERROR)
    }
}
