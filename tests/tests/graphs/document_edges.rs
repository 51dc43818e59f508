//! Tests documents of nodes and edges, and documents of steps: the calls of each node with their
//! arguments, the edges that are taken, and the state afterwards.

use agentflow::document::{Document, DocumentForm};
use agentflow::mcp::McpClient;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolPolicy, ToolRef, Toolset, ToolsetRef};
use agentflow::value::Encoded;
use agentflow::{Approval, async_trait};
use agentflow_testing::{McpAnswer, ScriptedMcp, ScriptedModel, Turn, within};
use serde_json::{Map, Value, json};

use crate::documents::{REVIEW, WF_001, after_every_crash, problems, read, run};

/// A toolset that represents an MCP server or a remote agent: its name and its tools.
pub(super) struct Far(pub(super) &'static str, pub(super) Vec<ToolRef>);

#[async_trait]
impl Toolset for Far {
    fn name(&self) -> &str {
        self.0
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.1.clone())
    }
}

/// Adds the MCP servers and remote agents of the tests.
pub(super) fn with_far(builder: RuntimeBuilder) -> RuntimeBuilder {
    let read =
        FnTool::new("read", "Read a file.", |_: Context, of: Map<String, Value>| async move {
            match of.get("path").and_then(Value::as_str) {
                Some("large") => Ok("a text that is large".to_owned()),
                Some("broken") => Err("it cannot be read".to_owned()),
                _ => Ok("small".to_owned()),
            }
        });
    // The tools may be called again after a crash.
    let again = || ToolPolicy::default().idempotent();
    let read = read.policy(again());
    let echo = |name: &'static str| {
        FnTool::new(
            name,
            "Give back what is given.",
            |_: Context, of: Map<String, Value>| async move { Ok::<_, String>(of) },
        )
        .policy(again())
    };
    let ask = |name: &'static str| {
        FnTool::new("", "Ask.", move |_: Context, of: Map<String, Value>| async move {
            let message = of.get("message").and_then(Value::as_str).unwrap_or_default();
            Ok::<_, String>(json!({"output": format!("[{message}]"), "agent_id": name, "endpoint": "http://it"}))
        })
        .policy(again())
    };
    builder
        .toolset(ToolsetRef::new(Far("mcp.code", vec![read.into(), echo("echo").into()])))
        .toolset(ToolsetRef::new(Far("mcp.code_review", vec![echo("review").into()])))
        .toolset(ToolsetRef::new(Far("mcp.notes", vec![echo("note").into()])))
        .toolset(ToolsetRef::new(Far("a2a.reviewer", vec![ask("reviewer").into()])))
        .toolset(ToolsetRef::new(Far(
            "a2a.summarize_findings",
            vec![ask("summarize_findings").into()],
        )))
}

fn echoes(builder: RuntimeBuilder) -> RuntimeBuilder {
    with_far(builder).model(crate::documents::Echo::default())
}

/// Returns a node that calls a tool of the server `code`.
pub(super) fn calls(id: &str, tool: &str, more: &str) -> String {
    format!(
        "  - {{node_id: {id}, kind: mcp, dependencies: [{{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {{server_id: \
         code, tool_name: {tool}}}}}]{more}}}\n"
    )
}

fn document(nodes: &str, edges: &str) -> String {
    format!("workflow_id: it\nnodes:\n{nodes}edges:\n{edges}")
}

async fn output_of(text: &str, input: Value) -> Value {
    let document = read(text);
    let runtime = with_far(Runtime::builder()).document(document.clone()).build();
    runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
    run(&runtime, document.name(), json!({"input": input})).await
}

async fn failure_of(text: &str, input: Value) -> String {
    let runtime = with_far(Runtime::builder()).document(read(text)).build();
    let input = Encoded::new(&json!({"input": input})).unwrap();
    runtime.start_named("it", input).await.unwrap().result().await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_router_chooses_among_the_nodes_of_servers_and_agents() {
    let document = read(REVIEW);
    assert_eq!((document.form(), document.name()), (DocumentForm::Edges, "review"));
    assert_eq!(document.agents().collect::<Vec<_>>(), ["review.note"]);
    let model = ScriptedModel::new([
        Turn::call("mcp__notes__note", json!({"text": "small"}))
            .expect_last("{\"text\":\"small\"}"),
        Turn::text("noted"),
    ])
    .capturing();
    let runtime =
        with_far(Runtime::builder()).model(model.clone()).document(document.clone()).build();
    runtime.documents().check(&document).await.unwrap();
    let large = run(&runtime, "review", json!({"input": {"path": "large"}})).await;
    let verdict = "[Say whether this can be merged.\n\n{\"change\":\"a text that is large\"}]";
    assert_eq!(large, json!({"path": "large", "text": "a text that is large", "verdict": verdict}));
    let small = run(&runtime, "review", json!({"input": {"path": "?"}})).await;
    assert_eq!(small, json!({"path": "?", "text": "small", "noted": "noted"}));
    let asked = &model.requests()[0];
    assert_eq!(asked.messages.messages()[0].text().to_string(), "Note the text.");
    // The model gets only the tools of the server `notes`.
    assert_eq!(
        asked.tools.definitions().iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>(),
        ["mcp__notes__note"]
    );
}

#[tokio::test]
async fn without_mappings_the_state_is_given_and_the_output_merged() {
    let text = document(&calls("a", "echo", ""), "[]").replace("edges:\n[]", "edges: []");
    let output = output_of(&text, json!({"n": 1})).await;
    assert_eq!(
        output,
        json!({"n": 1, "output": {"n": 1}, "tool_used": "echo", "server_id": "code"})
    );
    // Mappings of missing keys are left out of the arguments.
    let text = text
        .replace("]}\n", "], input_mapping: {x: n, y: missing}, output_mapping: {got: output}}\n");
    assert_eq!(output_of(&text, json!({"n": 1})).await, json!({"n": 1, "got": {"x": 1}}));
    // Graphical editors write the keys in camel case.
    let camel = text
        .replace("workflow_id", "workflowId")
        .replace("node_id", "nodeId")
        .replace("dependency_", "dependency")
        .replace("dependencytype", "dependencyType")
        .replace("dependencyid", "dependencyId")
        .replace("fixed_ref", "fixedRef")
        .replace("server_id", "serverId")
        .replace("tool_name", "toolName")
        .replace("input_mapping", "inputMapping")
        .replace("output_mapping", "outputMapping");
    assert_eq!(read(&camel).graph(), read(&text).graph());
}

/// Runs a router with each kind of value and checks which edges it takes.
#[tokio::test]
async fn a_routers_value_is_compared_with_its_edges() {
    let nodes = |expression: &str| {
        let arm = |id: &str| calls(id, "echo", &format!(", output_mapping: {{{id}: tool_used}}"));
        format!(
            "  - {{node_id: r, kind: router{expression}}}\n{}{}{}",
            arm("a"),
            arm("b"),
            arm("c")
        )
    };
    let conditional = |to: &str, key: &str| {
        format!("  - {{from_node_id: r, to_node_id: {to}, edge_type: conditional{key}}}\n")
    };
    let always = "  - {from_node_id: r, to_node_id: c}\n";
    let by_key =
        [conditional("a", ", condition_key: x"), conditional("b", ", condition_key: y")].concat();
    let by_name = [conditional("a", ""), conditional("b", ", condition_key: 'false'")].concat();
    for (expression, edges, input, taken) in [
        (", condition_expr: kind", by_key.clone(), json!({"kind": "y"}), "b"),
        (", condition_expr: state.kind", by_key.clone(), json!({"kind": "x", "y": 1}), "a"),
        // The value is the name of the target node.
        (", condition_expr: kind", by_name.clone(), json!({"kind": "a"}), "a"),
        (", condition_expr: n > 1", by_name.clone(), json!({"n": 2}), "a"),
        (", condition_expr: n > 1", by_name.clone(), json!({"n": 1}), "b"),
        // For a boolean value, any other `condition_key` is looked up in the state.
        (", condition_expr: n > 1", by_key.clone(), json!({"n": 1, "x": [], "y": "yes"}), "b"),
        ("", by_key.clone(), json!({"x": 1, "y": 0}), "a"),
        ("", by_key.clone(), json!({"x": "", "y": {"z": null}}), "b"),
        // Several conditional edges at once, and unconditional edges.
        ("", by_key.clone(), json!({"x": 1, "y": 1}), "ab"),
        ("", format!("{by_key}{always}"), json!({"x": 1}), "ac"),
        ("", format!("{by_key}{always}"), json!({}), "c"),
    ] {
        let output = output_of(&document(&nodes(expression), &edges), input.clone()).await;
        let found: String =
            ["a", "b", "c"].into_iter().filter(|id| output.get(id).is_some()).collect();
        // If no edge leads to `c`, it starts at once.
        let expected =
            if edges.contains("to_node_id: c") { taken.to_owned() } else { format!("{taken}c") };
        assert_eq!(found, expected, "{expression} {input} {edges}");
    }
    let error = failure_of(&document(&nodes(", condition_expr: kind"), &by_key), json!({})).await;
    assert!(error.contains("the state has no `kind`"), "{error}");
    let error =
        failure_of(&document(&nodes(", condition_expr: kind"), &by_key), json!({"kind": "z"}))
            .await;
    assert!(error.contains("`r`"), "{error}");
}

#[tokio::test]
async fn a_join_waits_for_branches_that_may_be_skipped() {
    let nodes = |more: &str| {
        [
            calls(
                "a",
                "read",
                ", input_mapping: {path: path}, output_mapping: {a: output}, on_error: skip_node",
            ),
            calls("b", "echo", ", output_mapping: {b: tool_used}"),
            format!("  - {{node_id: j, kind: join{more}}}\n"),
            calls("after", "echo", ", output_mapping: {after: output}"),
        ]
        .concat()
    };
    let edges = |group: &str| {
        format!(
            "  - {{from_node_id: a, to_node_id: j{group}}}\n  - {{from_node_id: b, to_node_id: j{group}}}\n  - {{from_node_id: j, \
             to_node_id: after}}\n"
        )
    };
    let text = document(&nodes(", join_group: g"), &edges(", edge_type: parallel, join_group: g"));
    let output = output_of(&text, json!({"path": "broken"})).await;
    assert_eq!(
        output,
        json!({"path": "broken", "b": "echo", "after": {"path": "broken", "b": "echo"}})
    );
    let output = output_of(&text, json!({"path": "x"})).await;
    assert_eq!(output["after"], json!({"path": "x", "a": "small", "b": "echo"}));
}

#[tokio::test]
async fn a_failure_leads_to_another_node() {
    let by_id = [
        calls(
            "a",
            "read",
            ", input_mapping: {path: path}, on_error: route_to_node, on_error_node_id: b",
        ),
        calls("b", "echo", ", output_mapping: {instead: tool_used}"),
    ]
    .concat();
    let text = document(&by_id, "[]").replace("edges:\n[]", "edges: []");
    assert_eq!(
        output_of(&text, json!({"path": "broken"})).await,
        json!({"path": "broken", "instead": "echo"})
    );
    assert_eq!(output_of(&text, json!({"path": "x"})).await["output"], "small");
    let by_edge = by_id.replace(", on_error_node_id: b", "");
    let edge =
        "  - {from_node_id: a, to_node_id: b, edge_type: conditional, condition_key: error}\n";
    let by_edge = document(&by_edge, edge);
    assert_eq!(
        output_of(&by_edge, json!({"path": "broken"})).await,
        json!({"path": "broken", "instead": "echo"})
    );
    assert_eq!(read(&by_edge).graph().hash(), read(&text).graph().hash());
    let fails = text.replace("route_to_node, on_error_node_id: b", "fail_workflow");
    assert!(failure_of(&fails, json!({"path": "broken"})).await.contains("it cannot be read"));
}

#[test]
fn a_failure_leads_to_one_node() {
    let nodes = [
        calls("a", "read", ", on_error: route_to_node, on_error_node_id: b"),
        calls("b", "echo", ""),
        calls("c", "echo", ""),
    ]
    .concat();
    let edge =
        "  - {from_node_id: a, to_node_id: c, edge_type: conditional, condition_key: error}\n";
    let error = Document::read("it.yaml", document(&nodes, edge)).unwrap_err();
    let sentences: Vec<String> = error.problems().iter().map(|problem| problem.message()).collect();
    assert_eq!(
        sentences,
        [
            "`on_error_node_id` leads the failure of `a` to `b`, and its edge with `condition_key: error` leads to `c`; keep \
             one of both"
        ]
    );
    assert_eq!(error.problems()[0].line(), 3);
    // Both settings name the same node. That is a redundant declaration, and also refused.
    assert!(Document::read("it.yaml", document(&nodes, &edge.replace("c,", "b,"))).is_err());
}

/// Lets two nodes save the same key behind arms that exclude each other. A node behind both arms
/// reads the value that was saved.
#[tokio::test]
async fn exclusive_arms_save_one_key() {
    let nodes = |saved: &str| {
        [
            "  - {node_id: r, kind: router, condition_expr: n > 1}\n".to_owned(),
            calls("many", "echo", ""),
            calls(
                "behind",
                "read",
                ", input_mapping: {path: path}, output_mapping: {found: output}",
            ),
            calls(
                "few",
                "echo",
                &format!(", input_mapping: {{n: n}}, output_mapping: {{{saved}: output}}"),
            ),
            calls(
                "last",
                "echo",
                ", input_mapping: {found: found}, output_mapping: {seen: output}",
            ),
        ]
        .concat()
    };
    let edge = |from: &str, to: &str, more: &str| {
        format!("  - {{from_node_id: {from}, to_node_id: {to}{more}}}\n")
    };
    let edges = |few: &str| {
        [
            edge("r", "many", ", edge_type: conditional, condition_key: 'true'"),
            edge("many", "behind", ""),
            edge("r", "few", few),
            edge("behind", "last", ""),
            edge("few", "last", ""),
        ]
        .concat()
    };
    let when_false = ", edge_type: conditional, condition_key: 'false'";
    let text = document(&nodes("found"), &edges(when_false));
    assert_eq!(
        output_of(&text, json!({"n": 2, "path": "large"})).await["seen"],
        json!({"found": "a text that is large"})
    );
    assert_eq!(
        output_of(&text, json!({"n": 1, "path": "large"})).await["seen"],
        json!({"found": {"n": 1}})
    );
    after_every_crash(&text, json!({"input": {"n": 1, "path": "large"}}), with_far).await;
    // An unconditional edge excludes no other edge, and neither does an edge with another key.
    for few in ["", ", edge_type: conditional, condition_key: other"] {
        // The check needs no server.
        let error = Document::read("it.yaml", document(&nodes("found"), &edges(few)))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(
                "`behind` and `few` may run at the same time, and each of them saves `found`"
            ),
            "{error}"
        );
    }
    output_of(&document(&nodes("other"), &edges("")), json!({"n": 2, "path": "x"})).await;
}

#[tokio::test]
async fn a_node_reads_a_resource_of_a_server() {
    let server =
        ScriptedMcp::new([]).resources([json!({"uri": "note://a", "name": "a"})]).answers_reads([
            ("note://a", McpAnswer::contents("note://a", "one")),
            ("note://b", McpAnswer::contents("note://b", "two")),
        ]);
    let client = {
        let server = server.clone();
        McpClient::in_memory("notes", move || server.connect())
            .resources_as_tools()
            .build()
            .unwrap()
    };
    let node = |reference: &str, more: &str| {
        document(
            &format!(
                "  - {{node_id: a, kind: mcp, dependencies: [{{dependency_id: d, dependency_type: mcp_resource, fixed_ref: \
                 {{server_id: notes{reference}}}}}]{more}}}\n"
            ),
            "[]",
        )
        .replace("edges:\n[]", "edges: []")
    };
    for (text, output) in [
        (node(", resource_uri: 'note://a'", ""), "one"),
        (node("", ", input_mapping: {uri: which}"), "two"),
    ] {
        let document = read(&text);
        let runtime =
            Runtime::builder().toolset(client.toolset()).document(document.clone()).build();
        runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
        let found = run(&runtime, "it", json!({"input": {"which": "note://b"}})).await;
        let expected = json!({"which": "note://b", "output": output, "tool_used": "read_resource", "server_id": "notes"});
        assert_eq!(found, expected);
    }
    for (text, problem) in [
        (
            node("", ""),
            "`a` needs `resource_uri`, the address of the resource, or an `input_mapping` that gives `uri`",
        ),
        (
            node(", resource_uri: x", ", input_mapping: {uri: which}"),
            "`a` reads one resource, so it is given nothing; remove `input_mapping`, or `resource_uri`",
        ),
        (
            node("", "").replace("mcp_resource", "mcp_prompt"),
            "the `fixed_ref` of a prompt needs `prompt_name`, the name that the server gives the prompt",
        ),
    ] {
        let error = Document::read("it.yaml", text).unwrap_err();
        assert_eq!(error.problems()[0].message(), problem);
    }
}

#[tokio::test]
async fn a_terminal_ends_the_workflow() {
    let nodes = [
        calls("a", "echo", ", output_mapping: {a: tool_used}"),
        "  - {node_id: end, kind: terminal}\n".to_owned(),
        calls("b", "echo", ", output_mapping: {b: tool_used}"),
    ]
    .concat();
    // `b` never starts, since the terminal ends the workflow first.
    let edges = "  - {from_node_id: a, to_node_id: end}\n  - {from_node_id: a, to_node_id: b, edge_type: conditional, \
                 condition_key: nothing}\n";
    assert_eq!(output_of(&document(&nodes, edges), json!({})).await, json!({"a": "echo"}));
}

#[tokio::test(start_paused = true)]
async fn people_are_asked_before_a_node_and_before_the_workflow() {
    let nodes = calls(
        "a",
        "echo",
        ", permissions: {require_approval: true}, output_mapping: {a: tool_used}",
    );
    let text = document(&nodes, "[]")
        .replace("edges:\n[]", "permissions: {require_approval: true}\nedges: []");
    let runtime =
        with_far(Runtime::builder()).store(MemoryStore::new()).document(read(&text)).build();
    let handle =
        runtime.start_named("it", Encoded::new(&json!({"input": {}})).unwrap()).await.unwrap();
    let run = handle.run_id().clone();
    for (node, asks) in [("begin", "may `it` begin?"), ("a", "may `a` begin?")] {
        within("the question", async {
            loop {
                let report = runtime.run(&run).inspect().await.unwrap();
                assert!(!report.run.status.has_ended(), "nobody was asked");
                let question = report
                    .nodes
                    .iter()
                    .find(|of| &*of.name == node)
                    .and_then(|of| of.question.clone());
                if let Some(question) = question.filter(|_| report.run.pause_reason.is_some()) {
                    assert_eq!(question, asks);
                    break;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        runtime.run(&run).approve(node, Approval::granted(), "ada").await.unwrap();
    }
    assert_eq!(handle.result().await.unwrap().decode::<Value>().unwrap(), json!({"a": "echo"}));
}

#[tokio::test]
async fn steps_follow_each_other() {
    let document = read(WF_001);
    assert_eq!(document.form(), DocumentForm::Steps);
    let review = json!({"pr_url": "u"});
    let shaped =
        "{\"output\":{\"pr_url\":\"u\"},\"server_id\":\"code_review\",\"tool_used\":\"review\"}";
    let message = format!("[summarize_findings\n\n{{\"pr_url\":\"u\",\"review\":{shaped}}}]");
    let output = output_of(WF_001, review).await;
    assert_eq!(
        output,
        json!({"output": message, "agent_id": "summarize_findings", "endpoint": "http://it"})
    );
}

#[tokio::test]
async fn a_model_that_nobody_names_is_a_problem() {
    let document = read(REVIEW);
    let runtime = with_far(Runtime::builder()).document(document.clone()).build();
    let error = runtime.documents().check(&document).await.unwrap_err();
    assert_eq!(error.problems().len(), 1, "{error}");
    assert!(
        error.problems()[0]
            .message()
            .starts_with("the agent `review.note` has no model; give the document a `model`")
    );
    let named = read(&REVIEW.replace("version: 2", "model: openai/gpt-5-mini"));
    runtime.documents().check(&named).await.unwrap_or_else(|error| panic!("{error}"));
    let unknown = read(
        &REVIEW
            .replace("server_id: notes", "server_id: note")
            .replace("version: 2", "model: openai/x"),
    );
    let error = runtime.documents().check(&unknown).await.unwrap_err();
    assert!(
        error.problems()[0].message().contains("no MCP server `note`; did you mean `notes`?"),
        "{error}"
    );
}

#[tokio::test]
async fn runs_of_edges_and_steps_survive_every_crash() {
    let whole = after_every_crash(REVIEW, json!({"input": {"path": "large"}}), echoes).await;
    assert_eq!(whole["text"], "a text that is large");
    let whole = after_every_crash(REVIEW, json!({"input": {"path": "x"}}), echoes).await;
    assert_eq!(whole["text"], "small");
    after_every_crash(WF_001, json!({"input": {"pr_url": "u"}}), with_far).await;
}

#[test]
fn a_document_of_edges_is_json_too() {
    let text = serde_json::to_string(&json!({
        "workflow_id": "j",
        "nodes": [{"node_id": "a", "kind": "router", "condition_expr": "true"}, {"node_id": "b", "kind": "terminal"}],
        "edges": [{"from_node_id": "a", "to_node_id": "b"}],
    }))
    .unwrap();
    assert_eq!(Document::read("j.json", text).unwrap().form(), DocumentForm::Edges);
}

#[tokio::test]
async fn the_last_node_may_be_skipped_by_its_failure() {
    let alone = calls(
        "a",
        "read",
        ", input_mapping: {path: path}, output_mapping: {a: output}, on_error: skip_node",
    );
    let text = document(&alone, "[]").replace("edges:\n[]", "edges: []");
    assert_eq!(output_of(&text, json!({"path": "broken"})).await, json!({"path": "broken"}));
    assert_eq!(output_of(&text, json!({"path": "x"})).await, json!({"path": "x", "a": "small"}));
    let end = [alone, "  - {node_id: end, kind: terminal}\n".to_owned()].concat();
    let text = document(&end, "  - {from_node_id: a, to_node_id: end}\n");
    assert_eq!(output_of(&text, json!({"path": "broken"})).await, json!({"path": "broken"}));
    assert_eq!(output_of(&text, json!({"path": "x"})).await, json!({"path": "x", "a": "small"}));
}

#[tokio::test]
async fn arms_that_nobody_named_do_not_collide() {
    let nodes = [
        "  - {node_id: r, kind: router}\n".to_owned(),
        calls("none", "echo", ", output_mapping: {none: tool_used}"),
        calls("x", "echo", ", output_mapping: {x: tool_used}"),
        calls("x_2", "echo", ", output_mapping: {second: tool_used}"),
        calls("after", "echo", ", output_mapping: {after: tool_used}"),
    ]
    .concat();
    let edge = |to: &str, key: &str| {
        format!(
            "  - {{from_node_id: r, to_node_id: {to}, edge_type: conditional, condition_key: {key}}}\n"
        )
    };
    let edges = [
        edge("none", "n"),
        edge("x", "a"),
        edge("x", "b"),
        edge("x_2", "c"),
        "  - {from_node_id: r, to_node_id: after}\n".to_owned(),
    ]
    .concat();
    let output =
        output_of(&document(&nodes, &edges), json!({"n": false, "a": false, "b": true, "c": true}))
            .await;
    assert_eq!(
        (&output["x"], &output["second"], &output["none"]),
        (&json!("echo"), &json!("echo"), &Value::Null)
    );
    assert_eq!(output["after"], "echo");
}

#[tokio::test]
async fn a_node_gets_a_prompt_of_a_server() {
    let said =
        |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    let arguments = json!([{"name": "style", "required": true}, {"name": "lines"}]);
    let server = ScriptedMcp::new([])
        .prompts([json!({"name": "sum-up", "arguments": arguments}), json!({"name": "greet"})])
        .answers_prompts([
            (
                "sum-up",
                McpAnswer::Result(
                    json!({"messages": [said("user", "Sum it up."), said("assistant", "How?")]}),
                ),
            ),
            ("greet", McpAnswer::prompt("Say hello.")),
        ]);
    let client = {
        let server = server.clone();
        McpClient::in_memory("notes", move || server.connect()).prompts_as_tools().build().unwrap()
    };
    let node = |prompt: &str, more: &str| {
        document(
            &format!(
                "  - {{node_id: a, kind: mcp, dependencies: [{{dependency_id: d, dependency_type: mcp_prompt, fixed_ref: \
                 {{server_id: notes, prompt_name: {prompt}}}}}]{more}}}\n"
            ),
            "[]",
        )
        .replace("edges:\n[]", "edges: []")
    };
    for (text, output) in [
        (
            node("sum-up", ", input_mapping: {style: how, lines: n, more: missing}"),
            "user: Sum it up.\n\nassistant: How?",
        ),
        (node("greet", ""), "Say hello."),
    ] {
        let document = read(&text);
        let runtime =
            Runtime::builder().toolset(client.toolset()).document(document.clone()).build();
        runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
        let found = run(&runtime, "it", json!({"input": {"how": "short", "n": 3}})).await;
        let expected = json!({"how": "short", "n": 3, "output": output, "tool_used": "get_prompt", "server_id": "notes"});
        assert_eq!(found, expected);
    }
    let asked = [("sum-up", json!({"style": "short", "lines": "3"})), ("greet", Value::Null)];
    assert_eq!(server.prompted(), asked.map(|(name, given)| (name.to_owned(), given)));
    server.finish();
    let pool = node("x", "").replace(
        "fixed_ref: {server_id: notes, prompt_name: x}",
        "resolution_mode: pool, pool_refs: []",
    );
    let error = Document::read("it.yaml", pool).unwrap_err();
    let problem = "the dependency `d` is required, and its pool has no candidates; name some, or say `required: false`";
    assert_eq!(error.problems()[0].message(), problem);
}

/// Checks that the followers of a node with `on_error: skip_node` start after its failure. They
/// read only the state.
#[tokio::test]
async fn what_follows_a_skipped_node_begins() {
    let edge = |from: &str, to: &str, more: &str| {
        format!("  - {{from_node_id: {from}, to_node_id: {to}{more}}}\n")
    };
    let router = |more: &str| format!("  - {{node_id: r, kind: router{more}}}\n");
    let by_router = document(
        &[
            router(", condition_expr: 'true'"),
            "  - {node_id: b, kind: router, condition_expr: 'missing == 1', on_error: skip_node}\n"
                .to_owned(),
            "  - {node_id: c, kind: terminal}\n".to_owned(),
        ]
        .concat(),
        &[edge("r", "b", ", edge_type: sequential"), edge("b", "c", ", edge_type: sequential")]
            .concat(),
    );
    let runtime =
        with_far(Runtime::builder()).store(MemoryStore::new()).document(read(&by_router)).build();
    let handle = runtime.start_named("it", json!({"input": {"n": 1}})).await.unwrap();
    assert_eq!(handle.result().await.unwrap().decode::<Value>().unwrap(), json!({"n": 1}));
    let report = runtime.run(handle.run_id()).inspect().await.unwrap();
    let last = report.nodes.iter().find(|node| &*node.name == "c").unwrap();
    assert_eq!(serde_json::to_value(last.status).unwrap(), "success", "{report:?}");
    // The same with servers, with a condition on the state, and with a follower of a node that did
    // not start.
    let read_file =
        ", input_mapping: {path: path}, on_error: skip_node, output_mapping: {text: output}";
    let saved =
        |key: &str| format!(", input_mapping: {{n: n}}, output_mapping: {{{key}: tool_used}}");
    let nodes = [
        router(""),
        calls("a", "read", read_file),
        calls("b", "echo", &saved("always")),
        calls("c", "echo", &saved("when")),
        calls("d", "echo", &saved("unless")),
    ]
    .concat();
    let edges = [
        edge("r", "a", ", condition_key: path, edge_type: conditional"),
        edge("r", "d", ", condition_key: n, edge_type: conditional"),
        edge("a", "b", ""),
        edge("a", "c", ", condition_key: n, edge_type: conditional"),
        edge("b", "d", ", condition_key: nothing, edge_type: conditional"),
    ]
    .concat();
    let text = document(&nodes, &edges);
    let output = output_of(&text, json!({"path": "broken", "n": 1})).await;
    assert_eq!(
        output,
        json!({"path": "broken", "n": 1, "always": "echo", "when": "echo", "unless": "echo"})
    );
    let output = output_of(&text, json!({"path": "x", "n": 0})).await;
    assert_eq!(output, json!({"path": "x", "n": 0, "text": "small", "always": "echo"}));
    let output = output_of(&text, json!({"n": 1})).await;
    assert_eq!(output, json!({"n": 1, "unless": "echo"}));
    after_every_crash(&text, json!({"input": {"path": "broken", "n": 1}}), with_far).await;
    // Exporting keeps `skip_node`.
    let graph = read(&by_router).graph().clone();
    let again = DocumentForm::Edges.export(&graph).unwrap();
    assert_eq!(again["nodes"][1]["on_error"], "skip_node", "{again}");
}

#[test]
fn incomplete_joins_and_routers_are_refused() {
    let join = document(
        &[calls("a", "echo", ""), "  - {node_id: j, kind: join}\n".to_owned()].concat(),
        "  - {from_node_id: a, to_node_id: j}\n",
    );
    assert_eq!(
        problems(&join),
        ["4:5: the join `j` needs `join_group`, the group of the edges that it waits for"]
    );
    let router = document(
        &["  - {node_id: r, kind: router}\n".to_owned(), calls("a", "echo", "")].concat(),
        "  - {from_node_id: r, to_node_id: a, edge_type: sequential}\n",
    );
    let says = "the router `r` chooses nothing; give it a `condition_expr`, or an edge with `edge_type: conditional`";
    assert_eq!(problems(&router), [format!("3:5: {says}")]);
}
