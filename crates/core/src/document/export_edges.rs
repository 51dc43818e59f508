//! Export of a workflow to the forms `edges` and `steps`. A feature that the form does not have is
//! an error. The caller checks that reading the document gives the same workflow.

use agentflow_schema::diagnostic::Diagnostic;
use serde_json::{Map, Value, json};

use super::bound_server::is_address;
use super::document_export::{node_problem, of_node};
use super::edges_node::INPUT;
use super::export_codes as codes;
use crate::workflow::{
    Condition, Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodeKind, NodePolicy, OnError,
    Reference, ReferenceKind,
};

/// An edge of the document, with the router and the arm that it belongs to, and its target node.
struct ExportedEdge {
    json: Value,
    arm: Option<(String, usize)>,
    to: String,
}

/// Exports a graph to the form `edges`.
///
/// # Errors
/// The part of the graph that the form cannot express.
pub(super) fn written(graph: &Graph) -> Result<Value, Diagnostic> {
    let mut fields = Map::from_iter([
        ("workflow_id".to_owned(), json!(graph.name)),
        ("name".to_owned(), json!(graph.name)),
    ]);
    if !graph.description.is_empty() {
        fields.insert("description".to_owned(), json!(graph.description));
    }
    // 4 is the default of the form.
    if graph.concurrency != 4 {
        fields.insert("concurrency_limit".to_owned(), json!(graph.concurrency));
    }
    let begin = begin_of(graph)?;
    if let Some(permissions) = permissions(&begin.policy) {
        fields.insert("permissions".to_owned(), permissions);
    }
    let (mut nodes, mut lines) = (Vec::new(), Vec::new());
    let mut failures: Vec<(&str, &str)> = Vec::new();
    for node in own_nodes(graph, begin) {
        let context = context_of(graph, node);
        nodes.push(node_written(node, context, begin)?);
        for edge in &context.unwrap_or(node).edges {
            // Reading the document adds this edge to each node without other edges.
            if edge.from == begin.name {
                continue;
            }
            // Reading the document adds these edges for `on_error: skip_node`.
            if edge.failed
                && graph.node(&edge.from).is_some_and(|from| from.policy.on_error == OnError::Skip)
            {
                continue;
            }
            if edge.failed {
                failures.push((&edge.from, &node.name));
            } else {
                let mut line = line(graph, edge, &node.name)?;
                if let Some(group) = nodes.last().and_then(|node| node.get("join_group")) {
                    line.json["join_group"] = group.clone();
                }
                lines.push(line);
            }
        }
    }
    for (from, to) in failures {
        let failing = nodes.iter_mut().find(|node| node["node_id"] == from);
        let failing = failing
            .and_then(Value::as_object_mut)
            .ok_or_else(|| node_problem(from, codes::FAILURE_OF_OTHER_NODE))?;
        failing.insert("on_error".to_owned(), json!("route_to_node"));
        if failing.insert("on_error_node_id".to_owned(), json!(to)).is_some() {
            return Err(node_problem(from, codes::FAILURE_WITH_SEVERAL_TARGETS));
        }
    }
    fields.insert("nodes".to_owned(), Value::Array(nodes));
    fields.insert("edges".to_owned(), in_order(lines)?);
    Ok(Value::Object(fields))
}

/// Returns the node that reads the input.
fn begin_of(graph: &Graph) -> Result<&GraphNode, Diagnostic> {
    let reads_input = |node: &&GraphNode| matches!(&node.does, Some(GraphBody::Value(Mapping::From { node, .. })) if node == INPUT);
    match (graph.inputs().collect::<Vec<_>>().as_slice(), graph.nodes.iter().find(reads_input)) {
        ([input], Some(begin)) if input.name == INPUT => Ok(begin),
        _ => Err(Diagnostic::new(codes::INPUT_NOT_STATE)),
    }
}

/// Iterates over the nodes that the document contains. Reading the document adds the first node,
/// the last node and the nodes with the values for agents.
fn own_nodes<'g>(graph: &'g Graph, begin: &'g GraphNode) -> impl Iterator<Item = &'g GraphNode> {
    let is_context = |node: &GraphNode| {
        graph
            .nodes
            .iter()
            .any(|other| context_of(graph, other).is_some_and(|of| of.name == node.name))
    };
    graph.nodes.iter().filter(move |node| {
        let is_result = node.name == graph.output && !node.ends && is_state(node);
        node.kind != NodeKind::Input && node.name != begin.name && !is_result && !is_context(node)
    })
}

fn is_state(node: &GraphNode) -> bool {
    matches!(&node.does, Some(GraphBody::Value(value)) if *value == Mapping::state(""))
}

/// Returns the node with the value that a remote agent receives.
fn context_of<'g>(graph: &'g Graph, node: &GraphNode) -> Option<&'g GraphNode> {
    let Some(GraphBody::Call(call)) = &node.does else { return None };
    match node.edges.as_slice() {
        [edge] if call.name.starts_with("a2a.") => graph.node(&edge.from),
        _ => None,
    }
}

fn node_written(
    node: &GraphNode,
    context: Option<&GraphNode>,
    begin: &GraphNode,
) -> Result<Value, Diagnostic> {
    let name = &node.name;
    let mut fields =
        Map::from_iter([("node_id".to_owned(), json!(name)), ("label".to_owned(), json!(name))]);
    let mut say = |field: &str, value: Value| drop(fields.insert(field.to_owned(), value));
    let id = node.dependencies.first().map_or("d1", |of| of.dependency_id.as_str());
    let bound = |kind: &str, reference: Value| json!([{"dependency_id": id, "dependency_type": kind, "resolution_mode": "fixed", "fixed_ref": reference}]);
    let mut inputs = None;
    match &node.does {
        Some(GraphBody::Call(call)) => {
            match called(call, context).map_err(|problem| of_node(problem, name))? {
                Called::Tool { server, tool } => {
                    say("kind", json!("mcp"));
                    say(
                        "dependencies",
                        bound("mcp_tool", json!({"server_id": server, "tool_name": tool})),
                    );
                    inputs = Some(&call.with);
                }
                Called::Agent { agent, task } => {
                    say("kind", json!("a2a"));
                    say("task", json!(task));
                    say("dependencies", bound("a2a_agent", json!({whom(agent): agent})));
                    inputs = match context.and_then(|context| context.does.as_ref()) {
                        Some(GraphBody::Value(value)) => Some(value),
                        _ => None,
                    };
                }
            }
            let retry = &node.policy.retry;
            say(
                "retry_policy",
                json!({
                    "max_attempts": retry.max_attempts, "backoff_ms": retry.backoff_ms,
                    "backoff_multiplier": retry.backoff_multiplier, "retry_on": retry.retry_on,
                }),
            );
            let time =
                node.policy.timeout_ms.ok_or_else(|| node_problem(name, codes::NO_TIME_LIMIT))?;
            say("timeout_ms", json!(time));
        }
        Some(GraphBody::Value(Mapping::Cel(expression))) => {
            say("kind", json!("router"));
            say("condition_expr", json!(expression));
        }
        Some(GraphBody::Value(Mapping::Value(Value::Null))) => {
            let is_first = node.edges.iter().any(|edge| edge.from == begin.name);
            say("kind", json!(if is_first { "router" } else { "join" }));
            if !is_first {
                say("join_group", json!(name));
            }
        }
        Some(GraphBody::Route(routes)) => {
            say("kind", json!("router"));
            if let Some(expression) =
                routes.arms.iter().find_map(|arm| expression_of(arm.when.as_ref()?))
            {
                say("condition_expr", expression);
            }
        }
        _ if node.ends => say("kind", json!("terminal")),
        _ => return Err(node_problem(name, codes::NODE_NOT_EXPRESSIBLE)),
    }
    if let Some(inputs) = inputs
        && *inputs != Mapping::state("")
    {
        say(
            "input_mapping",
            keys_of(inputs).ok_or_else(|| node_problem(name, codes::READS_OTHER_VALUES))?,
        );
    }
    if !node.saves.is_empty() && !node.saves.contains_key("*") {
        let part =
            |at: &str| at.strip_prefix('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
        let parts = node.saves.iter().map(|(key, at)| Some((key.clone(), json!(part(at)?))));
        let parts: Option<Map<_, _>> = parts.collect();
        say(
            "output_mapping",
            Value::Object(parts.ok_or_else(|| node_problem(name, codes::SAVES_WHOLE_OUTPUT))?),
        );
    }
    if node.policy.on_error == OnError::Skip {
        say("on_error", json!("skip_node"));
    }
    if let Some(permissions) = permissions(&node.policy) {
        say("permissions", permissions);
    }
    Ok(Value::Object(fields))
}

/// Returns the field `permissions`, if a person must approve the start or some callers may not run
/// the node.
fn permissions(policy: &NodePolicy) -> Option<Value> {
    let mut fields = Map::new();
    if policy.approve.is_some() {
        fields.insert("require_approval".to_owned(), json!(true));
    }
    for (name, allowed) in
        [("allowed_roles", &policy.allowed_roles), ("allowed_users", &policy.allowed_users)]
    {
        if !allowed.is_empty() {
            fields.insert(name.to_owned(), json!(allowed));
        }
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// Returns the field for an agent: `endpoint` for an address, otherwise `agent_id`.
fn whom(agent: &str) -> &'static str {
    if is_address(agent) { "endpoint" } else { "agent_id" }
}

enum Called<'g> {
    Tool { server: String, tool: &'g str },
    Agent { agent: &'g str, task: String },
}

fn called<'g>(call: &'g Reference, context: Option<&GraphNode>) -> Result<Called<'g>, Diagnostic> {
    let of_callee = |code| Diagnostic::new(code).name("callee", &call.name);
    let not_remote = || of_callee(codes::CALL_NOT_REMOTE).text("kind", call.kind.as_str());
    if call.kind != ReferenceKind::Tool {
        return Err(not_remote());
    }
    if let (Some(agent), Some(context)) = (call.name.strip_prefix("a2a."), context) {
        let Mapping::Object(fields) = &call.with else {
            return Err(of_callee(codes::MESSAGE_WITHOUT_INPUT));
        };
        let Some(Mapping::Template(message)) = fields.get("message") else {
            return Err(of_callee(codes::MESSAGE_WITHOUT_INPUT));
        };
        let end = format!("\n\n{{{}}}", context.name);
        let task = message.as_str().strip_suffix(&end);
        let task = task.ok_or_else(|| of_callee(codes::MESSAGE_WITHOUT_INPUT))?;
        return Ok(Called::Agent { agent, task: task.replace("{{", "{").replace("}}", "}") });
    }
    let tool = call.name.strip_prefix("mcp.").ok_or_else(not_remote)?;
    // Server names can contain dots, so the name is taken from the output of the call if possible.
    let server = match &call.gives {
        Some(Mapping::Object(fields)) => match fields.get("server_id") {
            Some(Mapping::Value(Value::String(server))) => server.clone(),
            _ => String::new(),
        },
        _ => tool.split('.').next().unwrap_or_default().to_owned(),
    };
    let tool = tool.strip_prefix(&server).and_then(|tool| tool.strip_prefix('.'));
    let tool = tool.ok_or_else(|| of_callee(codes::TOOL_WITHOUT_SERVER))?;
    Ok(Called::Tool { server, tool })
}

/// Returns the mapping as an object from fields to keys of the state. Returns `None` if it contains
/// other values.
fn keys_of(mapping: &Mapping) -> Option<Value> {
    let Mapping::Object(fields) = mapping else { return None };
    let keys = fields.iter().map(|(name, value)| match value {
        Mapping::State { key, .. } => Some((name.clone(), json!(key))),
        _ => None,
    });
    keys.collect::<Option<Map<_, _>>>().map(Value::Object)
}

fn line(graph: &Graph, edge: &GraphEdge, to: &str) -> Result<ExportedEdge, Diagnostic> {
    let mut json = json!({"from_node_id": edge.from, "to_node_id": to});
    let mut arm = None;
    let conditional = |json: &mut Value, key: Option<String>| {
        json["edge_type"] = json!("conditional");
        if let Some(key) = key {
            json["condition_key"] = json!(key);
        }
    };
    let unknown = || node_problem(to, codes::EDGE_CONDITION).name("from", &edge.from);
    if let Some(name) = &edge.arm {
        let Some(GraphBody::Route(routes)) =
            graph.node(&edge.from).and_then(|node| node.does.as_ref())
        else {
            return Err(unknown());
        };
        let at = routes.arms.iter().position(|route| route.arm == *name).ok_or_else(unknown)?;
        arm = Some((edge.from.clone(), at));
        let when = routes.arms[at].when.as_ref().ok_or_else(unknown)?;
        conditional(&mut json, key_of(when, to).ok_or_else(unknown)?);
    } else if let Some(when) = &edge.when {
        conditional(&mut json, key_of(when, to).ok_or_else(unknown)?);
    } else {
        json["edge_type"] = json!("sequential");
    }
    Ok(ExportedEdge { json, arm, to: to.to_owned() })
}

/// Returns the expression that a condition compares.
fn expression_of(condition: &Condition) -> Option<Value> {
    match condition {
        Condition::Any(all) => match all.first()? {
            Condition::Equals(Mapping::Cel(expression), _) => Some(json!(expression)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the `condition_key` of an edge with this condition, which is `None` for an edge that is
/// named after its target.
fn key_of(condition: &Condition, to: &str) -> Option<Option<String>> {
    match condition {
        Condition::All(all) => match all.first()? {
            Condition::Exists(Mapping::State { key, .. }) => Some(Some(key.clone())),
            _ => None,
        },
        Condition::Any(all) => match all.as_slice() {
            [Condition::Equals(_, Mapping::Value(Value::String(text))), Condition::Equals(..)]
                if text == to =>
            {
                Some(None)
            }
            [Condition::Equals(_, Mapping::Value(Value::String(text))), _] => {
                Some(Some(text.clone()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Sorts the edges so that the order of the edges of each node, and of the arms of each router, is
/// preserved.
fn in_order(mut lines: Vec<ExportedEdge>) -> Result<Value, Diagnostic> {
    let mut written = Vec::new();
    while !lines.is_empty() {
        let is_next = |at: usize| {
            let line: &ExportedEdge = &lines[at];
            let before = |other: &ExportedEdge| match (&line.arm, &other.arm) {
                (Some((router, arm)), Some((of, other))) => router == of && other < arm,
                _ => false,
            };
            !lines[..at].iter().any(|other| other.to == line.to) && !lines.iter().any(before)
        };
        let at = (0..lines.len())
            .find(|at| is_next(*at))
            .ok_or_else(|| Diagnostic::new(codes::EDGE_ORDER))?;
        written.push(lines.remove(at).json);
    }
    Ok(Value::Array(written))
}

/// Exports a graph to the form `steps`.
///
/// # Errors
/// The part of the graph that the form cannot express.
pub(super) fn steps_written(graph: &Graph) -> Result<Value, Diagnostic> {
    let begin = begin_of(graph)?;
    let mut steps = Vec::new();
    for node in own_nodes(graph, begin) {
        let name = &node.name;
        let Some(GraphBody::Call(call)) = &node.does else {
            return Err(node_problem(name, codes::NO_REMOTE_CALL));
        };
        let called = called(call, context_of(graph, node));
        steps.push(match called.map_err(|problem| of_node(problem, name))? {
            Called::Tool { server, tool } => json!({
                "node_id": name, "kind": "mcp", "capability": server, "server_id": server, "tool_name": tool
            }),
            Called::Agent { agent, task } => json!({"node_id": name, "kind": "a2a", "task": task, whom(agent): agent}),
        });
    }
    let mut document = json!({"workflow_id": graph.name, "steps": steps});
    if !graph.description.is_empty() {
        document["description"] = json!(graph.description);
    }
    Ok(document)
}
