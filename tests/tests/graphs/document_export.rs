//! Tests exports of documents. Each form is written from its graph and gives the same workflow. A
//! graph that the form cannot express is refused.

use agentflow::document::{Document, DocumentForm, to_yaml};
use agentflow::workflow::{Graph, GraphBody, GraphNode, Mapping};
use serde_json::{Value, json};

use crate::documents::{LETTERS, REVIEW, WF_001, read};

/// Returns a random document of nodes and edges without mistakes. Edges lead only from earlier to
/// later nodes.
fn random_edges(seed: u64) -> Value {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = rng.usize(1..7);
    let kinds: Vec<&str> = (0..count)
        .map(|_| ["mcp", "a2a", "router", "router", "join", "mcp"][rng.usize(..6)])
        .collect();
    let id = |at: usize| format!("n{at}");
    let mut nodes: Vec<Value> = Vec::new();
    let mut edges: Vec<Value> = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        // No edge leads to the first node, so it cannot be a join.
        let kind = if at == 0 && *kind == "join" { "mcp" } else { kind };
        let mut node = json!({"node_id": id(at), "kind": kind, "label": id(at)});
        match kind {
            "mcp" => {
                let server = ["a", "b.c"][rng.usize(..2)];
                node["dependencies"] = json!([{
                    "dependency_id": "d1", "dependency_type": "mcp_tool", "resolution_mode": "fixed",
                    "fixed_ref": {"server_id": server, "tool_name": "t.u"}
                }]);
            }
            "a2a" => {
                let task = ["do {it}", "do it\n\nnow"][rng.usize(..2)];
                node["task"] = json!(task);
                node["dependencies"] = json!([{
                    "dependency_id": "d1", "dependency_type": "a2a_agent", "resolution_mode": "fixed",
                    "fixed_ref": {"agent_id": "x"}
                }]);
            }
            "join" => node["join_group"] = json!(id(at)),
            "router" if rng.bool() => {
                let condition = ["state.kind", "state.n > 1 && 'a' in state.l"][rng.usize(..2)];
                node["condition_expr"] = json!(condition);
            }
            _ => {}
        }
        if matches!(kind, "mcp" | "a2a") {
            if rng.bool() {
                node["input_mapping"] = json!({"x": "k", "y z": "user:name"});
            }
            if rng.bool() {
                node["output_mapping"] =
                    json!({id(at): "output", format!("{}_by", id(at)): "a/b~c"});
            }
            if rng.bool() {
                node["retry_policy"] = json!({
                    "max_attempts": rng.u32(1..5), "backoff_ms": 7, "backoff_multiplier": 1.5, "retry_on": ["any"]
                });
            }
            if rng.bool() {
                node["timeout_ms"] = json!(rng.u32(1..100_000));
            }
        }
        if rng.u8(..4) == 0 {
            node["permissions"] = json!({"require_approval": true});
        }
        if rng.u8(..4) == 0 {
            node["on_error"] = json!("skip_node");
        }
        nodes.push(node);
    }
    for to in 1..count {
        for from in 0..to {
            // A join needs at least one incoming edge.
            if rng.bool() && !(kinds[to] == "join" && from == 0) {
                continue;
            }
            let mut edge =
                json!({"from_node_id": id(from), "to_node_id": id(to), "edge_type": "sequential"});
            if kinds[to] == "join" {
                edge["join_group"] = json!(id(to));
            }
            let chooses = nodes[from].get("condition_expr").is_some();
            if kinds[from] == "router" && rng.u8(..3) > 0 {
                edge["edge_type"] = json!("conditional");
                let key = [Some("k"), Some("true"), Some("false"), None]
                    [rng.usize(..if chooses { 4 } else { 3 })];
                if let Some(key) = key {
                    edge["condition_key"] = json!(key);
                }
            }
            edges.push(edge);
        }
    }
    if count > 1 && rng.bool() {
        nodes.push(json!({"node_id": "end", "kind": "terminal", "label": "end"}));
        edges.push(
            json!({"from_node_id": id(count - 1), "to_node_id": "end", "edge_type": "sequential"}),
        );
    }
    let mut document =
        json!({"workflow_id": "random", "name": "random", "nodes": nodes, "edges": edges});
    if rng.bool() {
        document["concurrency_limit"] = json!(2);
    }
    if rng.bool() {
        document["permissions"] = json!({"require_approval": true});
    }
    document
}

/// Removes default values and sorts the edges. Only the order of the edges of one node matters.
fn without_defaults(mut document: Value) -> Value {
    let chooses: Vec<Value> = document["edges"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|edge| edge["edge_type"] == "conditional")
        .map(|edge| edge["from_node_id"].clone())
        .collect();
    for node in document["nodes"].as_array_mut().unwrap() {
        // A router without a choice is exported as a join.
        if node["kind"] == "router"
            && node.get("condition_expr").is_none()
            && !chooses.contains(&node["node_id"])
        {
            node["kind"] = json!("join");
        }
        let fields = node.as_object_mut().unwrap();
        fields.retain(|name, value| match name.as_str() {
            "retry_policy" => {
                *value
                    != json!({
                        "max_attempts": 3, "backoff_ms": 500, "backoff_multiplier": 2.0,
                        "retry_on": ["timeout", "rate_limit"]
                    })
            }
            "timeout_ms" => *value != json!(30000),
            "label" | "join_group" => false,
            _ => true,
        });
    }
    let edges = document["edges"].as_array_mut().unwrap();
    // The exporter chooses the names of join groups.
    edges
        .iter_mut()
        .filter_map(Value::as_object_mut)
        .for_each(|edge| drop(edge.remove("join_group")));
    edges.sort_by_key(ToString::to_string);
    document
}

#[test]
fn a_random_document_of_edges_is_written_as_it_was_read() {
    let mut read_well = 0;
    for seed in 0..600 {
        let document = random_edges(seed);
        // A random document may have mistakes, such as an arm that can never be taken.
        let Ok(first) = Document::read("random.json", document.to_string()) else { continue };
        read_well += 1;
        let written = DocumentForm::Edges
            .export(first.graph())
            .unwrap_or_else(|error| panic!("{seed}: {error}\n{document}"));
        assert_eq!(without_defaults(written.clone()), without_defaults(document), "seed {seed}");
        let again = read(&to_yaml(&written));
        assert_eq!(again.graph().hash(), first.graph().hash(), "seed {seed}");
        // Exporting the graph form first gives the same document.
        let plan = read(&to_yaml(&first.export(DocumentForm::Graph).unwrap()));
        assert_eq!(plan.export(DocumentForm::Edges).unwrap(), written, "seed {seed}");
    }
    assert!(read_well > 300, "{read_well}");
}

#[test]
fn a_random_document_of_tools_is_written_as_it_was_read() {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut nodes = Vec::new();
        for at in 0..rng.usize(1..6) {
            let mut node = json!({"id": format!("n{at}"), "tool": "t"});
            if rng.bool() {
                let of =
                    if at > 0 { format!("{{n{}}}", rng.usize(..at)) } else { "{topic}".to_owned() };
                node["args_template"] =
                    json!({"a": of, "b": [1, "{{x}} {topic}"], "c": {"d": "{{"}});
            }
            if at > 0 && rng.bool() {
                node["depends_on"] = json!([format!("n{}", rng.usize(..at))]);
            }
            if rng.bool() {
                let limit = [0, 1, 5][rng.usize(..3)];
                node["retry_limit"] = json!(limit);
            }
            nodes.push(node);
        }
        let document = json!({"id": "random", "description": "what: \"it\" is", "nodes": nodes});
        let first = read(&to_yaml(&document));
        let written = DocumentForm::Tools
            .export(first.graph())
            .unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert_eq!(written, document, "seed {seed}");
    }
}

#[test]
fn a_document_of_steps_is_written_as_it_was_read() {
    let document = json!({"workflow_id": "w", "steps": [
        {"node_id": "a", "kind": "mcp", "capability": "s", "server_id": "s", "tool_name": "t"},
        {"node_id": "b", "kind": "a2a", "task": "do it", "agent_id": "x"},
        {"node_id": "context", "kind": "a2a", "task": "and again", "agent_id": "x"},
    ]});
    let first = read(&document.to_string());
    assert_eq!(DocumentForm::Steps.export(first.graph()).unwrap(), document);
}

#[test]
fn a_document_is_written_in_its_own_form_as_it_stands() {
    for text in [REVIEW, WF_001, LETTERS] {
        let document = read(text);
        let written = document.export(document.form()).unwrap();
        let again = read(&to_yaml(&written));
        assert_eq!(again.graph(), document.graph());
        assert_eq!(again.export(again.form()).unwrap(), written);
        assert_eq!(read(&written.to_string()).graph(), document.graph());
    }
    assert_eq!(read(REVIEW).export(DocumentForm::Edges).unwrap()["version"], 2);
}

#[test]
fn what_a_form_cannot_say_is_refused() {
    let refused =
        |document: &Document, form: DocumentForm| document.export(form).unwrap_err().to_string();
    let says = "the workflow `review` cannot be exported to the form `graph`: it describes the agent `review.note`, and a \
                document of this form only names agents; use the form `edges`";
    assert_eq!(refused(&read(REVIEW), DocumentForm::Graph), says);
    let agents = refused(&read(REVIEW), DocumentForm::Agents);
    assert!(agents.contains("and a document of this form consists of agents"), "{agents}");
    let tools = read("id: t\nnodes: [{id: a, tool: x}]");
    for (form, says) in [
        (DocumentForm::Edges, "a workflow of this form has one input, `input`"),
        (DocumentForm::Steps, "a workflow of this form has one input, `input`"),
        (
            DocumentForm::Agents,
            "the node `a`: it calls the tool `x`, and a document of this form consists of agents; use the form `graph`",
        ),
        (DocumentForm::Tree, "it has 0 inputs, and a tree has one, `input`; use the form `graph`"),
    ] {
        assert!(refused(&tools, form).contains(says), "{}", refused(&tools, form));
    }
    let value =
        Graph::new("g", "v").with(GraphNode::new("v", GraphBody::Value(Mapping::Value(json!(1)))));
    let two = value.clone().with(GraphNode::new("w", GraphBody::Value(Mapping::Value(json!(1)))));
    let error = DocumentForm::Tools.export(&two).unwrap_err().to_string();
    assert!(
        error.ends_with("the node `w`: it does not call a tool; use the form `graph`"),
        "{error}"
    );
    // Settings that the form would change are refused too.
    let mut slow = read("id: t\nnodes: [{id: a, tool: x}]").graph().clone();
    slow.concurrency = 1;
    slow.nodes[0].policy.timeout_ms = Some(5);
    let error = DocumentForm::Tools.export(&slow).unwrap_err().to_string();
    assert!(
        error.ends_with("the node `a`: the document would change it; use the form `graph`"),
        "{error}"
    );
}

#[test]
fn yaml_is_read_as_the_value_that_was_written() {
    for value in [
        json!({"a": [], "b": {}, "c": [[1, [2]], {"d": null}], "true": "no", "x y": "a: b\n\u{e9}\u{1f600}", "": -1.5}),
        json!({"nested": [{"a": {"b": [{"c": "d"}]}}]}),
    ] {
        // The form `tools` accepts any value in `args_template`.
        let document =
            json!({"id": "y", "nodes": [{"id": "a", "tool": "t", "args_template": {"v": value}}]});
        assert_eq!(read(&to_yaml(&document)).export(DocumentForm::Tools).unwrap(), document);
    }
}
