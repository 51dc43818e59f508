//! The form `agents`: agents, and the order in which they run. This module generates the graph;
//! `document_agent.rs` creates the agents.

use agentflow_schema::diagnostic::Diagnostic;
use agentflow_schema::text_tree::Tree;
use serde_json::{Value, json};

use super::DraftedDocument;
use super::document_codes;
use super::object_fields::{Fields, Problems};
use super::orchestration::{OrchestratedAgent, Orchestration};
use crate::workflow::{CONCURRENCY, Graph, GraphBody, GraphEdge, GraphNode, Mapping, Reference};

/// Name of the workflow's input.
pub(super) const MESSAGE: &str = "message";

/// Name of a round's input: the output of the previous round.
pub(super) const LAST: &str = "last";

pub(super) fn read(tree: &Tree, problems: &mut Problems) -> Option<DraftedDocument> {
    let mut fields = Fields::from_tree(tree, "a document of agents", problems)?;
    let name = fields.need_text("name", problems).map(|(name, _)| name);
    let description = fields.text("description", problems).and_then(Tree::text).unwrap_or_default();
    let decider = super::decider_of(&mut fields, problems);
    let limits = super::limits_of(&mut fields, problems);
    let items = fields.list("agents", problems);
    let orchestration = fields.need("orchestration");
    let card = fields.get("a2a");
    fields.end(problems);
    let members: Vec<OrchestratedAgent<'_>> =
        items.iter().filter_map(|item| OrchestratedAgent::read(item, problems)).collect();
    if let Some(card) = card {
        check_card(card, problems);
    }
    if items.is_empty() {
        problems.note(&tree.at, Diagnostic::new(document_codes::NO_AGENTS));
    }
    let order = Orchestration::read(orchestration?, &members, problems)?;
    let is_whole = members.len() == items.len();
    // With a part missing, the graph is only a draft, which is still checked for further problems.
    let (name, members) = (name?, order.members(&members));
    let mut graph = empty(name, description);
    let mut inner = Vec::new();
    match order {
        Orchestration::Sequential(_) => chain(&mut graph, &members, problems),
        Orchestration::Parallel(_) => {
            for member in &members {
                let with = member.asked(&[], false, problems);
                graph.nodes.push(member.node(with));
            }
            let all = Mapping::object(
                members.iter().map(|member| (member.name, Mapping::from(member.name))),
            );
            graph.nodes.push(GraphNode::new("answers", GraphBody::Value(all)));
            graph.output = "answers".to_owned();
        }
        // The first round has no previous output, so the repetition starts with `null`.
        Orchestration::Loop { most, .. } => {
            let round = format!("{name}.round");
            let mut of_round = empty(&round, "");
            of_round.nodes.push(GraphNode::input(LAST, json!(true)));
            chain(&mut of_round, &members, problems);
            inner.push(of_round);
            graph
                .nodes
                .push(GraphNode::new("before", GraphBody::Value(Mapping::Value(Value::Null))));
            let with = Mapping::object([
                (MESSAGE, Mapping::from(MESSAGE)),
                (LAST, Mapping::Item(String::new())),
            ]);
            let call = Reference::workflow(round, with);
            let repeat =
                GraphBody::Repeat { first: "before".to_owned(), call, until: None, max: most };
            graph.nodes.push(GraphNode::new("rounds", repeat));
            graph.output = "rounds".to_owned();
        }
    }
    for graph in inner.iter_mut().chain([&mut graph]) {
        graph.decider.clone_from(&decider);
    }
    graph.limits = limits;
    let parts =
        members.iter().map(|member| (member.name.to_owned(), member.tree.at.clone())).collect();
    let agents = members.iter().map(OrchestratedAgent::agent).collect();
    let card = card.map(Tree::to_json);
    Some(DraftedDocument { inner, agents, card, is_whole, ..DraftedDocument::new(graph, parts) })
}

fn empty(name: &str, description: &str) -> Graph {
    let mut graph = Graph::new(name, MESSAGE);
    graph.description = description.to_owned();
    graph.concurrency = CONCURRENCY;
    graph.nodes.push(GraphNode::input(MESSAGE, json!({"type": "string"})));
    graph
}

/// Adds the agents as a sequence. Each agent receives the answers of the agents before it.
fn chain(graph: &mut Graph, members: &[&OrchestratedAgent<'_>], problems: &mut Problems) {
    let in_round = graph.node(LAST).is_some();
    for (at, member) in members.iter().enumerate() {
        let with = member.asked(&members[..at], in_round, problems);
        let node = member.node(with);
        let before = at.checked_sub(1).and_then(|before| members.get(before));
        graph.nodes.push(
            before.into_iter().fold(node, |node, before| node.edge(GraphEdge::from(before.name))),
        );
        graph.output = member.name.to_owned();
    }
}

/// Checks the types in the agent card, which is published to A2A clients.
fn check_card(tree: &Tree, problems: &mut Problems) {
    let Some(mut fields) = Fields::from_tree(tree, "`a2a`", problems) else { return };
    fields.text("version", problems);
    let skills = fields.list("skills", problems);
    fields.end(problems);
    for skill in skills {
        let Some(mut fields) = Fields::from_tree(skill, "a skill", problems) else { continue };
        fields.need_text("id", problems);
        fields.text("name", problems);
        fields.text("description", problems);
        fields.texts("tags", problems);
        fields.end(problems);
    }
}
