//! Export of a workflow to the form `tools`. A feature that the form does not have is an error. The
//! caller checks that reading the document gives the same workflow.

use agentflow_schema::diagnostic::Diagnostic;
use serde_json::{Map, Value, json};

use super::document_export::{node_problem, of_node};
use super::export_codes as codes;
use crate::workflow::{Graph, GraphBody, GraphNode, Mapping, NodeKind, ReferenceKind};

/// Exports a graph.
///
/// # Errors
/// The part of the graph that the form cannot express.
pub(super) fn written(graph: &Graph) -> Result<Value, Diagnostic> {
    let mut nodes = Vec::new();
    for node in graph.nodes.iter().filter(|node| node.kind != NodeKind::Input) {
        // The object of the last outputs is added when the document is read.
        if node.name == graph.output && matches!(node.does, Some(GraphBody::Value(_))) {
            continue;
        }
        nodes.push(call(node)?);
    }
    let mut document = json!({"id": graph.name, "nodes": nodes});
    if !graph.description.is_empty() {
        document["description"] = json!(graph.description);
    }
    Ok(document)
}

fn call(node: &GraphNode) -> Result<Value, Diagnostic> {
    let name = &node.name;
    let Some(GraphBody::Call(call)) = &node.does else {
        return Err(node_problem(name, codes::NO_TOOL_CALL));
    };
    if call.kind != ReferenceKind::Tool {
        return Err(node_problem(name, codes::CALL_OF_OTHER_KIND)
            .text("kind", call.kind.as_str())
            .name("callee", &call.name));
    }
    let arguments = value(&call.with).map_err(|problem| of_node(problem, name))?;
    let mut written = json!({"id": name, "tool": call.name});
    if arguments != json!({}) {
        written["args_template"] = arguments;
    }
    let mut depends: Vec<&str> = Vec::new();
    for edge in &node.edges {
        if edge.failed || edge.arm.is_some() || edge.when.is_some() {
            return Err(node_problem(name, codes::UNCONDITIONAL_EDGES).name("from", &edge.from));
        }
        depends.push(&edge.from);
    }
    if !depends.is_empty() {
        written["depends_on"] = json!(depends);
    }
    match node.policy.retry.max_attempts.saturating_sub(1) {
        // Two retries are the default of the form.
        2 => {}
        retries => written["retry_limit"] = json!(retries),
    }
    Ok(written)
}

/// Exports a mapping as a value with templates.
///
/// # Errors
/// The part of the mapping that is not a template.
fn value(mapping: &Mapping) -> Result<Value, Diagnostic> {
    Ok(match mapping {
        Mapping::Template(template) => json!(template.as_str()),
        Mapping::Value(value) => constant(value),
        Mapping::Object(fields) => {
            let fields = fields.iter().map(|(name, of)| Ok((name.clone(), value(of)?)));
            Value::Object(fields.collect::<Result<Map<_, _>, Diagnostic>>()?)
        }
        Mapping::List(items) => Value::Array(items.iter().map(value).collect::<Result<_, _>>()?),
        other => {
            let value = Value::from(other.clone());
            return Err(Diagnostic::new(codes::NOT_A_TEMPLATE).source("value", value));
        }
    })
}

/// Exports a constant. Braces in its strings are doubled, since they would be placeholders
/// otherwise.
fn constant(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(text.replace('{', "{{").replace('}', "}}")),
        Value::Array(items) => items.iter().map(constant).collect(),
        other => other.clone(),
    }
}
