//! Export of a workflow to the form `tree`: the properties of the whole workflow, and its inner
//! workflows, which become parts at the place of their calls. `export_tree_walk.rs` finds
//! the parts of a graph.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use agentflow_schema::diagnostic::Diagnostic;
use serde_json::{Value, json};

use super::document_export::{node_problem, of_node};
use super::export_codes as codes;
use super::export_tree_labels::{
    has_only, is_label, is_plain_call, label, labelled, row_named, same_label,
};
use super::export_tree_values::{INPUT, described, policy_over, value};
use super::export_tree_walk::{Part, convert_nodes};
use crate::workflow::{
    CONCURRENCY, Graph, GraphNode, Mapping, NodeKind, NodeSchema, Reference, ReferenceKind,
    StopPolicy,
};

/// Maximum nesting depth of parts. Documents that are nested deeper cannot be read.
pub(super) const MOST_DEPTH: usize = 64;

/// Exports a graph with its inner workflows.
///
/// # Errors
/// The part of the graph that the form cannot express.
pub(super) fn written(graph: &Graph, inner: &[Graph]) -> Result<Value, Diagnostic> {
    let inner = Inner::new(graph, inner)?;
    let Part { json: mut root, .. } = whole(graph, &inner)?;
    inner.are_written()?;
    let schema = schema_of(graph);
    if schema != NodeSchema::default() {
        // The existing `input` belongs to a part that is a separate workflow, so the schema of the
        // whole needs another level.
        if root.get("input").is_some() {
            root = json!({"sequence": [root]});
        }
        root["input"] = schema.to_value();
    }
    let mut document = json!({"name": graph.name, "topology": root});
    if !graph.description.is_empty() {
        document["description"] = json!(graph.description);
    }
    Ok(document)
}

/// Exports a workflow as a part.
fn whole(graph: &Graph, inner: &Inner<'_>) -> Result<Part, Diagnostic> {
    let inputs: Vec<&GraphNode> = graph.inputs().collect();
    match inputs.as_slice() {
        [input] if input.name == INPUT => {}
        [input] => {
            return Err(Diagnostic::new(codes::INPUT_NAME).name("input", &input.name));
        }
        _ => return Err(Diagnostic::new(codes::INPUT_COUNT).number("count", inputs.len())),
    }
    if graph.concurrency != CONCURRENCY {
        return Err(Diagnostic::new(codes::CONCURRENCY)
            .number("concurrency", graph.concurrency)
            .number("expected", CONCURRENCY));
    }
    if graph.stop_policy != StopPolicy::default() {
        return Err(Diagnostic::new(codes::STOP_POLICY));
    }
    let nodes: Vec<&GraphNode> =
        graph.nodes.iter().filter(|node| node.kind != NodeKind::Input).collect();
    nodes.iter().try_for_each(|node| check(node))?;
    convert_nodes(&nodes, &graph.output, inner)
}

pub(super) fn schema_of(graph: &Graph) -> NodeSchema {
    graph.inputs().next().map(|input| input.schema.clone()).unwrap_or_default()
}

/// Reports features that no part can have.
fn check(node: &GraphNode) -> Result<(), Diagnostic> {
    let name = &node.name;
    if node.ends {
        return Err(node_problem(name, codes::ENDS_RUN));
    }
    if let Some(edge) = node.edges.iter().find(|edge| edge.failed || edge.when.is_some()) {
        let code = if edge.failed { codes::FOLLOWS_FAILURE } else { codes::FOLLOWS_CONDITION };
        return Err(node_problem(name, code).name("from", &edge.from));
    }
    Ok(())
}

/// The inner workflows of the exported workflow.
pub(super) struct Inner<'g> {
    graphs: HashMap<&'g str, (&'g str, &'g Graph)>,
    /// The labels of the exported inner workflows, each with the number of workflows that were
    /// exported before it.
    written: RefCell<HashMap<String, usize>>,
    level: Cell<usize>,
}

impl<'g> Inner<'g> {
    fn new(graph: &'g Graph, inner: &'g [Graph]) -> Result<Self, Diagnostic> {
        let mut graphs = HashMap::new();
        for of in inner {
            let name = of.name.as_str();
            let of_inner = |code| Diagnostic::new(code).name("inner", name);
            let label = name.strip_prefix(&*graph.name).and_then(|rest| rest.strip_prefix('.'));
            let label = label.filter(|label| is_label(label)).ok_or_else(|| {
                of_inner(codes::INNER_WORKFLOW_NAME).text("workflow", &graph.name)
            })?;
            if graphs.insert(name, (label, of)).is_some() {
                return Err(of_inner(codes::INNER_WORKFLOW_TWICE));
            }
            if !of.description.is_empty() {
                return Err(of_inner(codes::INNER_WITH_DESCRIPTION));
            }
        }
        Ok(Self { graphs, written: RefCell::default(), level: Cell::new(0) })
    }

    /// Returns the inner workflow that a call refers to, if any.
    pub(super) fn called(&self, call: &Reference) -> Option<Called<'g>> {
        let (label, graph) =
            self.graphs.get(&*call.name).filter(|_| call.kind == ReferenceKind::Workflow)?;
        Some(Called { label, graph })
    }

    /// Exports an inner workflow as a part. Each is exported once, since reading the document
    /// creates one workflow per part.
    ///
    /// # Errors
    /// If a part cannot express the workflow, or if it is called twice.
    pub(super) fn part(&self, called: &Called<'g>) -> Result<Part, Diagnostic> {
        let name = called.graph.name.as_str();
        let number = self.written.borrow().len();
        if self.written.borrow_mut().insert(called.label.to_owned(), number).is_some() {
            return Err(Diagnostic::new(codes::CALLED_TWICE).name("inner", name));
        }
        self.level.set(self.level.get() + 1);
        let part = match self.level.get() > MOST_DEPTH {
            true => Err(too_deep()),
            false => whole(called.graph, self),
        };
        self.level.set(self.level.get() - 1);
        part.map_err(|problem| {
            let call = Diagnostic::new(codes::CALL_OF_INNER_WORKFLOW).name("inner", name);
            call.nested("problem", &problem)
        })
    }

    /// Returns `true` if the name of the workflow follows from the label of its part: the label,
    /// with a number if it was used already.
    fn is_named_after(&self, called: &Called<'_>, label: &str) -> bool {
        let written = self.written.borrow();
        let number = written.get(called.label).copied().unwrap_or_default();
        let is_taken = |name: &String| written.get(name).is_some_and(|other| *other < number);
        let names =
            (1..).map(|at| if at == 1 { label.to_owned() } else { format!("{label}_{at}") });
        names.into_iter().find(|name| !is_taken(name)).is_some_and(|name| name == called.label)
    }

    fn are_written(&self) -> Result<(), Diagnostic> {
        // A workflow that is not called anywhere cannot be a part of a tree.
        let written = self.written.borrow();
        let unwritten = self.graphs.iter().filter(|(_, (label, _))| !written.contains_key(*label));
        match unwritten.map(|(name, _)| name).min() {
            Some(name) => {
                Err(Diagnostic::new(codes::INNER_WORKFLOW_NOT_CALLED).name("inner", name))
            }
            None => Ok(()),
        }
    }
}

/// An inner workflow.
pub(super) struct Called<'g> {
    /// Label of its part.
    pub(super) label: &'g str,
    pub(super) graph: &'g Graph,
}

pub(super) fn too_deep() -> Diagnostic {
    Diagnostic::new(codes::TOO_DEEP).number("most", MOST_DEPTH)
}

/// Exports the call in a loop, a map, a race, a fallback or a tap, which receives the value
/// unchanged: a call by name, or a part that is a separate workflow.
///
/// # Errors
/// The part of the call that the form cannot express.
pub(super) fn body(
    call: &Reference,
    given: &Mapping,
    inner: &Inner<'_>,
) -> Result<Part, Diagnostic> {
    let (kind, name) = (call.kind.as_str(), &call.name);
    let of_callee = |code| Diagnostic::new(code).name("callee", name);
    if call.gives.is_some() {
        return Err(of_callee(codes::CALL_CHANGES_OUTPUT));
    }
    let as_input = Mapping::object([(INPUT, given.clone())]);
    if let Some(called) = inner.called(call) {
        if call.with != as_input || schema_of(called.graph) != NodeSchema::default() {
            return Err(of_callee(codes::CALL_WITH_OTHER_VALUE));
        }
        let Part { json, depth } = inner.part(&called)?;
        // A call without options would be read as a call by name, and not as a separate workflow.
        let json = if is_plain_call(&json) { json!({"sequence": [json]}) } else { json };
        let is_named = inner.is_named_after(&called, &label(&json));
        let json = if is_named { json } else { labelled(json, called.label, false)? };
        return Ok(Part { json, depth: depth + 1 });
    }
    if call.with == *given {
        return Ok(Part { json: json!({kind: name}), depth: 0 });
    }
    let is_part = call.kind == ReferenceKind::Workflow && call.with == as_input;
    let code = if is_part { codes::INNER_WORKFLOW_MISSING } else { codes::CALL_WITH_OTHER_VALUE };
    Err(of_callee(code))
}

/// Exports a part that is a separate workflow because it has options that its nodes do not have.
/// Returns `None` for any other call.
///
/// # Errors
/// The part of the call that the form cannot express.
pub(super) fn own_workflow(
    node: &GraphNode,
    call: &Reference,
    given: &str,
    inner: &Inner<'_>,
) -> Result<Option<Part>, Diagnostic> {
    let (Some(called), Mapping::Object(inputs)) = (inner.called(call), &call.with) else {
        return Ok(None);
    };
    let Some(with) = inputs.get(INPUT).filter(|_| inputs.len() == 1 && call.gives.is_none()) else {
        return Ok(None);
    };
    let name = &node.name;
    let of_node = |problem: Diagnostic| of_node(problem, name);
    let of_callee = |code| node_problem(name, code).name("callee", &call.name);
    let Part { mut json, depth } = inner.part(&called).map_err(of_node)?;
    let input = schema_of(called.graph);
    let has_input = input != NodeSchema::default();
    // The node and the workflow are both named after the part, each with a number if the name was
    // used already.
    let wanted =
        same_label(name, called.label).ok_or_else(|| of_callee(codes::PART_NAMED_OTHERWISE))?;
    let is_bare = label(&json) == wanted
        && !["save", "policy", "output", "input"].iter().any(|of| json.get(of).is_some())
        && (has_input || json.get("with").is_none());
    let is_row = ["parallel", "route"].iter().any(|of| json.get(of).is_some());
    let is_itself = has_only(&json, &["sequence"]) || is_bare && (has_input || is_row);
    if !is_itself {
        json = json!({"sequence": [json]});
    }
    if *with != Mapping::from(given) {
        if has_input || !is_itself || !is_plain_call(&json) {
            return Err(of_callee(codes::CALL_WITH_OTHER_VALUE));
        }
        json["with"] = value(with, given).map_err(of_node)?;
    }
    let Value::Object(fields) = &mut json else { return Ok(None) };
    let mut policy = node.policy.clone();
    policy_over(&mut policy, given).map_err(of_node)?;
    described(node, &policy, fields)?;
    if has_input {
        fields.insert("input".to_owned(), input.to_value());
    }
    if !["save", "policy", "output", "input"].iter().any(|of| fields.contains_key(*of)) {
        // Without an option, the part would be merged into the surrounding workflow.
        fields.insert("policy".to_owned(), json!({}));
    }
    Ok(Some(Part { json: row_named(json, wanted)?, depth: depth + 1 }))
}
