//! The document form `tools`: tool calls with dependencies. Names of tools are not resolved here.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::collections::{BTreeSet, HashMap};

use agentflow_schema::text::nearest;
use agentflow_schema::text_tree::Tree;

use super::DraftedDocument;
use super::document_codes;
use super::object_fields::{Fields, Problems};
use super::template_text::mapping;
use crate::workflow::{
    CONCURRENCY, Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodePolicy, Reference,
    RetryPolicy,
};

/// Default number of retries of a node.
const RETRIES: u32 = 2;

/// Name of the output node if there are several last nodes.
const OUTPUT: &str = "outputs";

pub(super) fn read(tree: &Tree, problems: &mut Problems) -> Option<DraftedDocument> {
    let mut fields = Fields::from_tree(tree, "a document of tools", problems)?;
    let name = fields.need_text("id", problems).map(|(name, _)| name);
    let description = fields.text("description", problems).and_then(Tree::text).unwrap_or_default();
    let decider = super::decider_of(&mut fields, problems);
    let limits = super::limits_of(&mut fields, problems);
    let items = fields.list("nodes", problems);
    fields.end(problems);
    let calls: Vec<CallNode<'_>> =
        items.iter().filter_map(|item| CallNode::read(item, problems)).collect();
    // Ids of nodes with mistakes are included, since other nodes may depend on them.
    let ids: BTreeSet<&str> =
        items.iter().filter_map(|item| item.field("id")?.value.text()).collect();
    if items.is_empty() && problems.found.is_empty() {
        problems.note(&tree.at, Diagnostic::new(document_codes::NO_NODES_OF_TOOLS));
        return None;
    }
    let mut parts = HashMap::new();
    let mut inputs: Vec<&str> = Vec::new();
    for call in &calls {
        parts.entry(call.id.to_owned()).or_insert_with(|| call.tree.at.clone());
        for (dependency, at) in call.depends_on.iter().filter(|(name, _)| !ids.contains(name)) {
            let near = Suggestion::similar(nearest(dependency, ids.iter().copied()));
            problems.note(
                &at.at,
                Diagnostic::new(document_codes::UNKNOWN_DEPENDENCY)
                    .name("node", call.id)
                    .name("dependency", dependency)
                    .suggest(near),
            );
        }
        inputs.extend(call.roots.iter().map(String::as_str).filter(|root| !ids.contains(root)));
    }
    inputs.sort_unstable();
    inputs.dedup();
    let needed: BTreeSet<&str> = calls
        .iter()
        .flat_map(|call| {
            call.depends_on
                .iter()
                .map(|(name, _)| *name)
                .chain(call.roots.iter().map(String::as_str))
        })
        .collect();
    let last: Vec<&str> =
        calls.iter().map(|call| call.id).filter(|id| !needed.contains(id)).collect();
    // In a cycle, no node is the last one. Only the cycle is reported then, and not a missing
    // output.
    let output =
        last.first().copied().or_else(|| calls.first().map(|call| call.id)).unwrap_or(OUTPUT);
    let mut graph = Graph::new(name?, output);
    graph.description = description.to_owned();
    graph.decider = decider;
    graph.limits = limits;
    graph.concurrency = CONCURRENCY;
    graph.nodes = inputs
        .iter()
        .map(|input| GraphNode::input(*input, serde_json::Value::Bool(true)))
        .collect();
    graph.nodes.extend(calls.iter().map(CallNode::node));
    if last.len() > 1 {
        let all = Mapping::object(last.iter().map(|id| (*id, Mapping::from(*id))));
        graph.nodes.push(GraphNode::new(OUTPUT, GraphBody::Value(all)));
        graph.output = OUTPUT.to_owned();
    }
    Some(DraftedDocument {
        is_whole: calls.len() == items.len(),
        ..DraftedDocument::new(graph, parts)
    })
}

/// A node of the document.
struct CallNode<'t> {
    tree: &'t Tree,
    id: &'t str,
    tool: &'t str,
    with: Mapping,
    /// First names of the placeholders.
    roots: Vec<String>,
    depends_on: Vec<(&'t str, &'t Tree)>,
    retries: u32,
}

impl<'t> CallNode<'t> {
    fn read(tree: &'t Tree, problems: &mut Problems) -> Option<Self> {
        let mut fields = Fields::from_tree(tree, "a node", problems)?;
        let id = fields.need_text("id", problems).map(|(id, _)| id);
        let tool = fields.need_text("tool", problems).map(|(tool, _)| tool);
        let mut roots = Vec::new();
        let with = match fields.get("args_template") {
            // `args_template` must be an object, since its fields are the arguments.
            Some(arguments)
                if Fields::from_tree(arguments, "`args_template`", problems).is_some() =>
            {
                mapping(arguments, &mut roots, problems)
            }
            _ => Mapping::Object(Default::default()),
        };
        let depends_on = fields.texts("depends_on", problems);
        let retries = fields.read("retry_limit", problems).unwrap_or(RETRIES);
        fields.end(problems);
        Some(Self {
            tree,
            id: id?,
            tool: tool.unwrap_or_default(),
            with,
            roots,
            depends_on,
            retries,
        })
    }

    fn node(&self) -> GraphNode {
        let node =
            GraphNode::new(self.id, GraphBody::Call(Reference::tool(self.tool, self.with.clone())));
        let policy = NodePolicy::default().retry_policy(RetryPolicy::retries(self.retries));
        // The output is saved in the state, for people and other nodes.
        let node = node.policy(policy).save(self.id, "");
        self.depends_on
            .iter()
            .fold(node, |node, (dependency, _)| node.edge(GraphEdge::from(*dependency)))
    }
}
