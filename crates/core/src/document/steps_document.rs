//! The document form `steps`: calls to servers and agents in sequence. Names of servers and agents
//! are not resolved here.

use agentflow_schema::diagnostic::Diagnostic;
use std::collections::{BTreeSet, HashMap};

use agentflow_schema::text_tree::{Datum, Tree};
use serde_json::{Value, json};

use super::DraftedDocument;
use super::bound_server::is_address;
use super::document_agent::DocumentAgent;
use super::document_codes;
use super::edges_node::{INPUT, asked, shaped};
use super::edges_wiring::{free_name, free_name_from};
use super::object_fields::{Fields, Problems};
use crate::model::ModelSettings;
use crate::workflow::{
    Graph, GraphBody, GraphEdge, GraphNode, Mapping, Reference, ResolvedDependency,
};

pub(super) fn read(tree: &Tree, problems: &mut Problems) -> Option<DraftedDocument> {
    let mut fields = Fields::from_tree(tree, "a document of steps", problems)?.or_camel();
    let name = fields.need_text("workflow_id", problems).map(|(name, _)| name);
    let description = fields.text("description", problems).and_then(Tree::text).unwrap_or_default();
    let model = super::model_of(&mut fields, problems);
    let decider = super::decider_of(&mut fields, problems);
    let limits = super::limits_of(&mut fields, problems);
    let items = fields.list("steps", problems);
    fields.end(problems);
    if items.is_empty() {
        problems.note(&tree.at, Diagnostic::new(document_codes::NO_STEPS));
    }
    let mut seen = BTreeSet::new();
    let mut steps = Vec::new();
    for item in items {
        let step = DocumentStep::read(item, problems);
        let id = item
            .field("node_id")
            .or_else(|| item.field("nodeId"))
            .and_then(|field| field.value.text());
        if let Some(id) = id.filter(|id| *id == INPUT || !seen.insert(*id)) {
            let place = item.place_of(id).unwrap_or_else(|| item.at.clone());
            let code = match id == INPUT {
                true => document_codes::RESERVED_STEP_NAME,
                false => document_codes::DUPLICATE_STEP,
            };
            problems.note(&place, Diagnostic::new(code).name("step", id));
        }
        steps.extend(step);
    }
    if !problems.found.is_empty() {
        return None;
    }
    let workflow = name?;
    let mut graph = Graph::new(workflow, "");
    graph.description = description.to_owned();
    graph.decider = decider;
    graph.limits = limits;
    graph.nodes.push(GraphNode::input(INPUT, json!({"type": "object"})));
    // The names of additional nodes must differ from all steps, including later ones.
    let mut taken: BTreeSet<String> = steps.iter().map(|step| step.id.to_owned()).collect();
    let mut before = free_name("begin", &|name| !taken.contains(name));
    taken.insert(before.clone());
    let mut contexts = 0;
    graph.nodes.push(GraphNode::new(&before, GraphBody::Value(Mapping::from(INPUT))).save("*", ""));
    let (mut parts, mut agents) = (HashMap::new(), Vec::new());
    for step in &steps {
        parts.insert(step.id.to_owned(), step.tree.at.clone());
        let all = Mapping::state("");
        let call = match (step.whom, step.tool) {
            (StepTarget::Server(server), Some(tool)) => {
                Reference::tool(format!("mcp.{server}.{tool}"), all)
                    .giving(shaped(json!(tool), Some(server)))
            }
            (StepTarget::Server(server), None) => {
                let agent = format!("{workflow}.{}", step.id);
                parts.insert(agent.clone(), step.tree.at.clone());
                agents.push(DocumentAgent {
                    name: agent.as_str().into(),
                    model: model.map(Into::into),
                    instructions: step.text.to_owned(),
                    description: None,
                    tools: vec![format!("mcp.{server}").into()],
                    settings: ModelSettings::default(),
                });
                Reference::agent(agent, all).giving(shaped(Value::Null, Some(server)))
            }
            (StepTarget::Agent(agent), _) => {
                let shown = free_name_from(&mut contexts, "context", &|name| !taken.contains(name));
                let node = GraphNode::new(&shown, GraphBody::Value(all));
                graph.nodes.push(
                    node.edge(GraphEdge::from(std::mem::replace(&mut before, shown.clone()))),
                );
                asked(agent, step.text, &shown)
            }
        };
        // A step reads the whole state instead of the previous step, so the order needs an edge.
        let mut node = GraphNode::new(step.id, GraphBody::Call(call)).save(step.id, "");
        node.dependencies.push(step.binding());
        graph
            .nodes
            .push(node.edge(GraphEdge::from(std::mem::replace(&mut before, step.id.to_owned()))));
    }
    graph.output = before;
    Some(DraftedDocument { agents, ..DraftedDocument::new(graph, parts) })
}

/// A step of the document.
struct DocumentStep<'t> {
    tree: &'t Tree,
    id: &'t str,
    whom: StepTarget<'t>,
    tool: Option<&'t str>,
    text: &'t str,
}

#[derive(Clone, Copy)]
enum StepTarget<'t> {
    Server(&'t str),
    Agent(&'t str),
}

impl<'t> DocumentStep<'t> {
    fn read(tree: &'t Tree, problems: &mut Problems) -> Option<Self> {
        const TEXTS: [&str; 6] =
            ["capability", "task", "server_id", "tool_name", "agent_id", "endpoint"];
        let mut fields = Fields::from_tree(tree, "a step", problems)?.or_camel();
        let id = fields.need_text("node_id", problems).map(|(id, _)| id);
        let kind = match fields.need("kind") {
            Some(_) => fields.word("kind", &["mcp", "a2a"], problems),
            None => None,
        };
        // Fields of the other kind are accepted by the reader, so that the message can name their
        // kind.
        let (own, others): (&str, &[&'static str]) = match kind {
            Some("a2a") => ("task", &["capability", "server_id", "tool_name"]),
            _ => ("capability", &["task", "agent_id", "endpoint"]),
        };
        let mut text = |name: &'static str, problems: &mut Problems| {
            fields.text(name, problems).and_then(|tree| Some((tree.text()?, tree)))
        };
        let all = TEXTS.map(|name| (name, text(name, problems)));
        let of = |wanted: &str| {
            all.iter().find(|(name, _)| *name == wanted).and_then(|(_, found)| *found)
        };
        fields.end(problems);
        let kind = kind?;
        for (name, (_, at)) in others.iter().filter_map(|name| Some((name, of(name)?))) {
            problems.note(
                &at.at,
                Diagnostic::new(document_codes::FIELD_OF_OTHER_STEP)
                    .name("kind", kind)
                    .name("field", name)
                    .name("expected", own),
            );
        }
        let Some((text, at)) = of(own).filter(|(text, _)| !text.trim().is_empty()) else {
            // A value of a different type has already been reported.
            if tree.field(own).is_none_or(|field| {
                field.value.text().is_some() || field.value.datum == Datum::Null
            }) {
                problems.note(
                    &tree.at,
                    Diagnostic::new(document_codes::MISSING_STEP_TEXT)
                        .name("kind", kind)
                        .name("field", own),
                );
            }
            return None;
        };
        let (given, what) =
            if kind == "a2a" { ("agent_id", "an agent") } else { ("server_id", "a server") };
        let whom = match (of(given), of("endpoint")) {
            (Some((name, _)), _) => name,
            (None, Some((endpoint, at))) => match is_address(endpoint) {
                true => endpoint,
                false => {
                    problems.note(
                        &at.at,
                        Diagnostic::new(document_codes::INVALID_ENDPOINT)
                            .name("endpoint", endpoint),
                    );
                    return None;
                }
            },
            (None, None) if is_name(text) => text,
            (None, None) => {
                problems.note(
                    &at.at,
                    Diagnostic::new(document_codes::STEP_TARGET_IS_A_TEXT)
                        .name("field", own)
                        .text("target", what)
                        .name("missing", given),
                );
                return None;
            }
        };
        let whom = if kind == "a2a" { StepTarget::Agent(whom) } else { StepTarget::Server(whom) };
        Some(Self { tree, id: id?, whom, tool: of("tool_name").map(|(tool, _)| tool), text })
    }

    /// Returns the binding of the step. Its only dependency has the name of the step.
    fn binding(&self) -> ResolvedDependency {
        let mut binding = ResolvedDependency::new(self.id);
        binding.tool_name = self.tool.map(ToOwned::to_owned);
        match self.whom {
            StepTarget::Server(server) => binding.server_id = Some(server.to_owned()),
            StepTarget::Agent(address) if is_address(address) => {
                binding.endpoint = Some(address.to_owned());
            }
            StepTarget::Agent(agent) => binding.agent_id = Some(agent.to_owned()),
        }
        binding
    }
}

/// Returns `true` if a string can be the name of a server or an agent.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.'))
}
