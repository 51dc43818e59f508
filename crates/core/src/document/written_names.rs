//! Collects the names that a document refers to, with their positions, also in documents with
//! mistakes. Mistakes are ignored, and names are not resolved.

use agentflow_schema::diagnostic::{DiagnosticSubject, SubjectKind};
use std::ops::Range;

use agentflow_schema::text_tree::{Datum, Tree};

use super::DocumentForm;
use super::steps_document::is_name;
use super::tree_document::{TOPOLOGY, has_parts};
use crate::workflow::ReferenceKind;

/// A reference by name in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameReference {
    /// Kind of the named item. `None` for an entry in an agent's list of tools, which can be a
    /// toolset.
    pub(crate) kind: Option<ReferenceKind>,
    pub(crate) name: String,
    /// The referring item, if it has a name.
    pub(crate) by: Option<DiagnosticSubject>,
    pub(crate) at: Range<usize>,
    /// Position of the field `server_id` or `capability`, if two fields form the name.
    pub(crate) server_at: Option<Range<usize>>,
}

impl NameReference {
    fn from_value(
        kind: Option<ReferenceKind>,
        value: &Tree,
        by: Option<DiagnosticSubject>,
    ) -> Option<Self> {
        let name = value.text().filter(|name| !name.trim().is_empty())?;
        Some(Self { kind, name: name.to_owned(), by, at: value.at.clone(), server_at: None })
    }
}

/// Kind and name of an item that others can call.
pub(crate) type Described = (ReferenceKind, String);

/// Returns the items that a document describes for others: its workflow and its agents, if they
/// have names.
pub(super) fn described_by(tree: &Tree) -> Vec<Described> {
    let workflow = text(tree, &OWN).map(|name| (ReferenceKind::Workflow, name.to_owned()));
    let agents = items(tree, "agents").iter().filter_map(|agent| text(agent, &["name"]));
    workflow.into_iter().chain(agents.map(|name| (ReferenceKind::Agent, name.to_owned()))).collect()
}

/// Fields that can contain the name of the workflow.
const OWN: [&str; 4] = ["workflow_id", "workflowId", "id", "name"];

const KINDS: [ReferenceKind; 3] =
    [ReferenceKind::Tool, ReferenceKind::Agent, ReferenceKind::Workflow];

/// Returns the names in a document of a form.
pub(super) fn references(form: DocumentForm, tree: &Tree) -> Vec<NameReference> {
    let mut names: Vec<NameReference> = decider(tree).into_iter().collect();
    match form {
        DocumentForm::Tools => {
            let nodes = items(tree, "nodes").iter();
            names.extend(
                nodes.filter_map(|node| {
                    called(node, "tool", ReferenceKind::Tool, by(node, &["id"]))
                }),
            );
        }
        DocumentForm::Agents => {
            for agent in items(tree, "agents") {
                let by = text(agent, &["name"]);
                let by = by.map(|name| DiagnosticSubject::new(SubjectKind::Agent, name));
                names.extend(
                    items(agent, "tools")
                        .iter()
                        .filter_map(|tool| NameReference::from_value(None, tool, by.clone())),
                );
            }
        }
        DocumentForm::Edges => {
            for node in items(tree, "nodes") {
                for dependency in items(node, "dependencies") {
                    let pool = ["pool_refs", "poolRefs"]
                        .into_iter()
                        .flat_map(|list| items(dependency, list));
                    let references =
                        value(dependency, &["fixed_ref", "fixedRef"]).into_iter().chain(pool);
                    names.extend(
                        references.filter_map(|reference| of_server(reference, by(node, &NODE_ID))),
                    );
                }
            }
        }
        DocumentForm::Steps => {
            let calls =
                items(tree, "steps").iter().filter(|step| text(step, &["kind"]) == Some("mcp"));
            names.extend(calls.filter_map(|step| of_server(step, by(step, &NODE_ID))));
        }
        DocumentForm::Tree => {
            value(tree, &TOPOLOGY).into_iter().for_each(|root| of_part(root, &mut names));
        }
        DocumentForm::Graph => {
            for node in items(tree, "nodes") {
                value(node, &["does"])
                    .into_iter()
                    .for_each(|does| of_body(does, by(node, &["name"]).as_ref(), &mut names));
            }
        }
    }
    names
}

const NODE_ID: [&str; 2] = ["node_id", "nodeId"];

fn items<'t>(tree: &'t Tree, list: &str) -> &'t [Tree] {
    tree.field(list).map(|field| field.value.items()).unwrap_or_default()
}

fn value<'t>(tree: &'t Tree, names: &[&str]) -> Option<&'t Tree> {
    names.iter().find_map(|name| tree.field(name)).map(|field| &field.value)
}

fn text<'t>(tree: &'t Tree, names: &[&str]) -> Option<&'t str> {
    value(tree, names)?.text()
}

/// Returns the description of a node, with its name.
fn by(node: &Tree, names: &[&str]) -> Option<DiagnosticSubject> {
    text(node, names).map(DiagnosticSubject::node)
}

fn called(
    tree: &Tree,
    field: &str,
    kind: ReferenceKind,
    by: Option<DiagnosticSubject>,
) -> Option<NameReference> {
    NameReference::from_value(Some(kind), &tree.field(field)?.value, by)
}

fn kind_of(tree: &Tree) -> Option<ReferenceKind> {
    let word = text(tree, &["kind"])?;
    KINDS.into_iter().find(|kind| kind.as_str() == word)
}

fn decider(tree: &Tree) -> Option<NameReference> {
    let decider = value(tree, &["decider"])?;
    let (kind, name) = match decider.text() {
        Some(_) => (ReferenceKind::Agent, decider),
        None => (kind_of(decider)?, value(decider, &["name"])?),
    };
    NameReference::from_value(
        Some(kind),
        name,
        Some(DiagnosticSubject::new(SubjectKind::Decider, name.text()?)),
    )
}

/// Fields that can contain the name of a server.
const SERVER: [&str; 3] = ["server_id", "serverId", "capability"];

/// Returns the position of the field that names a server.
pub(super) fn place_of_server(tree: &Tree, server: &str) -> Option<Range<usize>> {
    match &tree.datum {
        Datum::List(items) => items.iter().find_map(|item| place_of_server(item, server)),
        Datum::Object(fields) => {
            let own = value(tree, &SERVER).filter(|value| value.text() == Some(server));
            own.map(|value| value.at.clone())
                .or_else(|| fields.iter().find_map(|field| place_of_server(&field.value, server)))
        }
        _ => None,
    }
}

/// Returns a reference to the tool of a server, or to the whole server if no tool is named.
fn of_server(tree: &Tree, by: Option<DiagnosticSubject>) -> Option<NameReference> {
    let server_field = value(tree, &SERVER)?;
    let server = server_field.text().filter(|server| is_name(server))?;
    let server_at = Some(server_field.at.clone());
    let Some(tool) = value(tree, &["tool_name", "toolName"]) else {
        let whole = NameReference::from_value(None, server_field, by)?;
        return Some(NameReference { name: format!("mcp.{server}"), server_at, ..whole });
    };
    let tool = NameReference::from_value(Some(ReferenceKind::Tool), tool, by)?;
    Some(NameReference { name: format!("mcp.{server}.{}", tool.name), server_at, ..tool })
}

/// Collects the calls in a part of a tree.
fn of_part(tree: &Tree, names: &mut Vec<NameReference>) {
    match &tree.datum {
        Datum::List(items) => items.iter().for_each(|item| of_part(item, names)),
        Datum::Object(fields) => {
            names.extend(KINDS.iter().filter_map(|kind| {
                let word = kind.as_str();
                called(tree, word, *kind, by(tree, &["as", word]))
            }));
            let within = fields.iter().filter(|field| has_parts(&field.name));
            within.for_each(|field| of_part(&field.value, names));
        }
        _ => {}
    }
}

/// Collects the references in the body of a graph's node.
fn of_body(tree: &Tree, by: Option<&DiagnosticSubject>, names: &mut Vec<NameReference>) {
    const WITHIN: [&str; 5] = ["call", "map", "repeat", "race", "fallback"];
    match &tree.datum {
        Datum::List(items) => items.iter().for_each(|item| of_body(item, by, names)),
        Datum::Object(fields) => {
            names.extend(kind_of(tree).and_then(|kind| called(tree, "name", kind, by.cloned())));
            let within = fields.iter().filter(|field| WITHIN.contains(&field.name.as_str()));
            within.for_each(|field| of_body(&field.value, by, names));
        }
        _ => {}
    }
}
