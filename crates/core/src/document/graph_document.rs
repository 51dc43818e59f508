//! The form `graph`: the graph in the format of
//! [`Graph::to_json`](crate::workflow::Graph::to_json). Names of tools, agents and workflows are
//! not resolved here.

use agentflow_schema::diagnostic::Diagnostic;
use std::collections::HashMap;

use agentflow_schema::text_tree::{Datum, Tree};

use super::DraftedDocument;
use super::document_codes;
use super::object_fields::{Fields, Problems, read as read_value};
use super::schema_keywords::check_keywords;
use crate::workflow::{CONCURRENCY, Graph, GraphNode};

pub(super) fn read(tree: &Tree, problems: &mut Problems) -> Option<DraftedDocument> {
    let mut fields = Fields::from_tree(tree, "a graph", problems)?;
    let version = fields.read("version", problems).unwrap_or(Graph::VERSION);
    let name = fields.need_text("name", problems).map(|(name, _)| name);
    let description = fields.text("description", problems).and_then(Tree::text);
    let output = fields.need_text("output", problems).map(|(output, _)| output);
    let concurrency = fields.read("concurrency", problems).unwrap_or(CONCURRENCY);
    let stop_policy = fields.read("stop_policy", problems).unwrap_or_default();
    let decider = super::decider_of(&mut fields, problems);
    let limits = super::limits_of(&mut fields, problems);
    let items = fields.list("nodes", problems);
    fields.end(problems);
    let mut parts = HashMap::new();
    let mut nodes = Vec::new();
    for item in items {
        let Datum::Object(_) = &item.datum else {
            problems.note(
                &item.at,
                Diagnostic::new(document_codes::NODE_NOT_AN_OBJECT).text("found", item.what()),
            );
            continue;
        };
        let asked = item.field("does").and_then(|does| does.value.field("ask"));
        let answer = asked.and_then(|ask| ask.value.field("answer"));
        item.field("schema")
            .into_iter()
            .chain(answer)
            .for_each(|schema| check_keywords(&schema.value, problems));
        let node: Option<GraphNode> = read_value(item, problems);
        if let Some(node) = node {
            parts.entry(node.name.clone()).or_insert_with(|| item.at.clone());
            nodes.push(node);
        }
    }
    let is_whole = nodes.len() == items.len();
    let graph = Graph {
        version,
        name: name?.to_owned(),
        description: description.unwrap_or_default().to_owned(),
        output: output?.to_owned(),
        concurrency,
        stop_policy,
        decider,
        limits,
        nodes,
    };
    Some(DraftedDocument { is_whole, ..DraftedDocument::new(graph, parts) })
}
