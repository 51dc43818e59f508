//! Deciders of a workflow that is data. Revised arguments are checked against the parameters of the
//! call, the run continues along the edges of a skipped node, and mistakes are reported with their
//! place.

use agentflow::async_trait;
use agentflow::document::{Document, DocumentForm};
use agentflow::message::Role;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolRef, Toolset, ToolsetRef};
use agentflow::value::Encoded;
use agentflow::workflow::{Decider, Graph, NextNode, NodeDecision};
use agentflow_testing::{ScriptedModel, Turn, check_events};
use agentflow_tests::Elsewhere;
use serde_json::{Map, Value, json};

use crate::every_crash::every_crash;

fn read(text: &str) -> Document {
    Document::read("it.yaml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the diagnostics as `line:column: message`.
fn problems(text: &str) -> Vec<String> {
    let error = Document::read("it.yaml", text).unwrap_err();
    let lines = error.problems().iter();
    lines
        .map(|problem| format!("{}:{}: {}", problem.line(), problem.column(), problem.message()))
        .collect()
}

async fn run(runtime: &Runtime, name: &str, input: Value) -> Value {
    let handle = runtime
        .start_named(name, Encoded::new(&input).unwrap())
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    handle.result().await.unwrap_or_else(|error| panic!("{error}")).decode().unwrap()
}

/// Join words.
#[tool(effects = "none")]
async fn decider_join(words: Vec<String>, with: String) -> String {
    words.join(&with)
}

/// Decide by rules.
#[tool(effects = "none")]
async fn decider_rules(next: NextNode) -> NodeDecision {
    match next.node.as_str() {
        "joined" => NodeDecision::Revise {
            arguments: json!({"words": next.outputs["words"], "with": "+"}),
            reason: String::new(),
        },
        _ => NodeDecision::Continue,
    }
}

/// It takes too much to be a decider.
#[tool(effects = "none")]
async fn decider_of_two(next: Value, more: u32) -> Value {
    json!({"next": next, "more": more})
}

fn graph(decider: Option<Decider>) -> Graph {
    let join = |words: &str| {
        json!({"kind": "tool", "name": "decider_join",
        "with": {"object": {"words": {"from": words}, "with": {"value": "-"}}}})
    };
    let nodes = json!([
        {"name": "words", "kind": "input", "schema": {"type": "array", "items": {"type": "string"}}},
        {"name": "joined", "does": {"call": join("words")}},
        {"name": "spare", "does": {"call": join("words")}, "edges": [{"from": "joined"}]},
        {"name": "each", "does": {"map": {"items": "words", "call": {"kind": "tool", "name": "decider_join",
            "with": {"object": {"words": {"list": [{"item": ""}]}, "with": {"from": "joined"}}}}}},
            "edges": [{"from": "spare"}]},
        {"name": "out", "does": {"value": {"list": [{"from": "joined"}, {"from": "spare", "or": null}, {"from": "each"}]}}},
    ]);
    let graph =
        json!({"version": 1, "name": "joins", "output": "out", "concurrency": 4, "nodes": nodes});
    let mut graph: Graph = serde_json::from_value(graph).unwrap();
    graph.decider = decider;
    graph
}

/// Creates a model that returns the given decision for each named node.
fn model(of: &'static [(&'static str, &'static str)]) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        let of_user =
            request.messages.messages().iter().filter(|message| message.role() == Role::User);
        let shown: String = of_user.map(|message| message.text().replace(' ', "")).collect();
        let said = of.iter().find(|(node, _)| shown.contains(&format!(r#""node":"{node}""#)));
        Turn::text(said.map_or("Go on: {\"decision\": \"continue\"}", |(_, said)| *said))
    })
}

const SAYS: &[(&str, &str)] = &[
    (
        "joined",
        r#"{"decision": "revise", "arguments": {"words": ["x", "y"], "with": "/"}, "reason": ""}"#,
    ),
    ("spare", r#"So: {"decision": "skip", "reason": "it is spare"}"#),
    ("each", r#"{"decision": "revise", "arguments": {"words": ["one"]}, "reason": ""}"#),
];

fn known(builder: RuntimeBuilder, says: &'static [(&'static str, &'static str)]) -> RuntimeBuilder {
    builder.agent(&Agent::new(model(says)).name("guide"))
}

const INPUT: fn() -> Value = || json!({"words": ["a", "b"]});

#[tokio::test]
async fn an_agent_decides_in_a_graph() {
    let runtime =
        known(Runtime::builder(), SAYS).graph(graph(Some(Decider::agent("guide")))).build();
    assert_eq!(run(&runtime, "joins", INPUT()).await, json!(["x/y", null, ["one"]]));
    let plain = Runtime::builder().graph(graph(None)).build();
    let all = json!(["a-b", "a-b", ["a", "b"]]);
    assert_eq!(run(&plain, "joins", INPUT()).await, all);
    let lets_all =
        known(Runtime::builder(), &[]).graph(graph(Some(Decider::agent("guide")))).build();
    assert_eq!(run(&lets_all, "joins", INPUT()).await, all);
    // Any function that is a tool can be a decider.
    let rules = Runtime::builder().graph(graph(Some(Decider::tool("decider_rules")))).build();
    assert_eq!(run(&rules, "joins", INPUT()).await, json!(["a+b", "a-b", ["a", "b"]]));
}

#[tokio::test]
async fn the_plan_with_its_questions_is_a_graph_again() {
    let given = || known(Runtime::builder(), SAYS);
    let runtime = given().graph(graph(Some(Decider::agent("guide")))).build();
    let whole = runtime.catalogue().workflow_graph("joins").unwrap();
    let json = serde_json::to_string(&whole.to_json()).unwrap();
    let again: Graph = serde_json::from_str(&json).unwrap();
    let asks = again.node("each.decision").unwrap();
    assert_eq!((asks.decides.as_deref(), asks.edges[0].from.as_str()), (Some("each"), "spare"));
    let second = given().graph(again).build();
    assert_eq!(second.catalogue().workflow_graph("joins").unwrap().hash(), whole.hash());
    assert_eq!(run(&second, "joins", INPUT()).await, json!(["x/y", null, ["one"]]));
}

#[tokio::test]
async fn arguments_are_checked_against_what_the_call_takes() {
    const WRONG: &[(&str, &str)] = &[(
        "joined",
        r#"{"decision": "revise", "arguments": {"words": ["x", 7], "with": "/"}, "reason": ""}"#,
    )];
    const ITEMS: &[(&str, &str)] =
        &[("each", r#"{"decision": "revise", "arguments": {"words": "one"}, "reason": ""}"#)];
    const NEEDED: &[(&str, &str)] = &[("joined", r#"{"decision": "skip", "reason": ""}"#)];
    const OTHER: &[(&str, &str)] = &[("joined", "I would rather not.")];
    for (says, why) in [
        (
            WRONG,
            "the revised arguments of `joined` do not fit: invalid values: `words[1]`: value is not of type \"string\"; seen: 7",
        ),
        (
            ITEMS,
            "the revised arguments of `each` do not fit: `words`: value is not of type \"array\"; seen: \"one\"",
        ),
        (
            NEEDED,
            "`joined` cannot be skipped: `each` reads its output; continue, or revise its arguments",
        ),
        (OTHER, "this is not a decision: "),
    ] {
        let runtime =
            known(Runtime::builder(), says).graph(graph(Some(Decider::agent("guide")))).build();
        let run = runtime.start_named("joins", Encoded::new(&INPUT()).unwrap()).await.unwrap();
        let failed = run.result().await.unwrap_err().to_string();
        assert!(failed.contains(why), "{failed}\n{why}");
        check_events(&run.recorded()).unwrap();
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_decider_is_said_once() {
    for (decider, problem) in [
        (
            Decider::agent("gude"),
            "the `decider` `gude`: this program has no agent `gude`; did you mean `guide`?",
        ),
        (
            Decider::tool("decider_of_two"),
            "the tool `decider_of_two` decides about nodes, so it has one parameter, which is given the node; it has 2",
        ),
    ] {
        let runtime = known(Runtime::builder(), SAYS).graph(graph(Some(decider))).build();
        let error = runtime.catalogue().workflow_graph("joins").unwrap_err().to_string();
        assert_eq!(error.matches(problem).count(), 1, "{error}");
    }
    let arm = json!({"arms": [{"arm": "a", "when": {"equals": [{"value": 1}, {"value": 2}]}}, {"arm": "b"}]});
    let call = json!({"kind": "tool", "name": "decider_join", "with": {"value": {"words": ["a"], "with": ""}}});
    let nodes = json!([
        {"name": "way", "does": {"route": arm}},
        {"name": "joined", "does": {"call": call}, "edges": [{"from": "way", "arm": "a"}]},
        {"name": "out", "does": {"value": {"from": "joined", "or": null}}},
    ]);
    let never = json!({"version": 1, "name": "never", "output": "out", "concurrency": 4, "nodes": nodes,
        "decider": {"kind": "agent", "name": "guide"}});
    let never: Graph = serde_json::from_value(never).unwrap();
    let error = known(Runtime::builder(), SAYS)
        .graph(never)
        .build()
        .catalogue()
        .workflow_graph("never")
        .unwrap_err()
        .to_string();
    assert_eq!(error.matches("can never begin").count(), 1, "{error}");
    assert!(
        error.contains("the node `joined` can never begin") && !error.contains("joined.decision"),
        "{error}"
    );
    let mut astray = graph(None);
    let asks = json!({"name": "q", "decides": "out", "does": {"decide": {"kind": "agent", "name": "guide"}}});
    astray.nodes.push(serde_json::from_value(asks).unwrap());
    let error = known(Runtime::builder(), SAYS)
        .graph(astray)
        .build()
        .catalogue()
        .workflow_graph("joins")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`q` asks a decider, and its `decides` names no node that calls something"),
        "{error}"
    );
    let mut unordered = graph(None);
    let asks = json!({"name": "q", "decides": "each", "does": {"decide": {"kind": "agent", "name": "guide"}}});
    unordered.nodes.push(serde_json::from_value(asks).unwrap());
    let error = known(Runtime::builder(), SAYS)
        .graph(unordered)
        .build()
        .catalogue()
        .workflow_graph("joins")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the node `each` does not wait for `q`, which decides on it"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write_changes_nothing() {
    let build = |store| {
        known(Runtime::builder().store(store), SAYS)
            .graph(graph(Some(Decider::agent("guide"))))
            .build()
    };
    let crashes = every_crash(build, "joins", INPUT(), |output, _, journal, at| {
        assert_eq!(output, &json!(["x/y", null, ["one"]]), "{at}");
        check_events(&journal).unwrap();
        let asked = journal.iter().filter(|event| event.kind.name() == "model.completed").count();
        assert_eq!(asked, 3, "a decision is asked for once, {at}");
    })
    .await;
    assert!(crashes > 20, "{crashes}");
}

#[tokio::test]
async fn a_decided_node_does_the_same_elsewhere() {
    let given = |builder| known(builder, SAYS).graph(graph(Some(Decider::agent("guide"))));
    let worker = Elsewhere::on_thread(given(Runtime::builder()).build());
    let runtime = given(Runtime::builder()).executor(worker).store(MemoryStore::new()).build();
    assert_eq!(run(&runtime, "joins", INPUT()).await, json!(["x/y", null, ["one"]]));
}

const TOOLS: &str = "id: it
decider: guide
nodes:
  - {id: joined, tool: decider_join, args_template: {words: '{words}', with: '-'}}
  - {id: last, tool: decider_join, args_template: {words: ['{joined}'], with: ''}}
";

const TREE: &str = "name: it
decider: {kind: agent, name: guide}
topology:
  sequence:
    - {tool: decider_join, as: joined, with: {words: '{input.words}', with: '-'}}
    - {tool: decider_join, as: last, with: {words: ['{input}'], with: ''}}
";

#[tokio::test]
async fn a_document_names_its_decider() {
    const SAYS: &[(&str, &str)] = &[(
        "joined",
        r#"{"decision": "revise", "arguments": {"words": ["x", "y"], "with": "/"}, "reason": ""}"#,
    )];
    for (text, input) in [(TOOLS, INPUT()), (TREE, json!({"input": INPUT()}))] {
        let document = read(text);
        let runtime = known(Runtime::builder(), SAYS).document(document.clone()).build();
        runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(run(&runtime, "it", input).await, json!("x/y"));
    }
    // Exporting to another form keeps the decider.
    let graph = read(TOOLS).export(DocumentForm::Graph).unwrap();
    let again = Document::read("again", graph.to_string()).unwrap();
    assert_eq!(again.graph().hash(), read(TOOLS).graph().hash());
    assert_ne!(
        read(&TOOLS.replace("decider: guide\n", "")).graph().hash(),
        read(TOOLS).graph().hash()
    );
}

#[test]
fn mistakes_in_a_document_are_named_where_they_stand() {
    for (from, to, says) in [
        (
            "decider: guide",
            "decidr: guide",
            "2:1: a document of tools has no `decidr`; did you mean `decider`?",
        ),
        ("decider: guide", "decider: ''", "2:10: `decider` is empty; name the agent that is asked"),
        ("decider: guide", "decider: {kind: agent, nam: guide}", "did you mean `name`?"),
        ("decider: guide", "decider: {kind: agnt, name: guide}", "did you mean `agent`?"),
        (
            "decider: guide",
            "decider: 7",
            "a decider, such as {\"kind\": \"agent\", \"name\": \"guide\"}",
        ),
    ] {
        let problems = problems(&TOOLS.replacen(from, to, 1));
        assert!(problems.iter().any(|problem| problem.contains(says)), "{to}: {problems:#?}");
    }
}

/// An A2A server of another program.
struct Code;

#[async_trait]
impl Toolset for Code {
    fn name(&self) -> &str {
        "mcp.code"
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        let echo = FnTool::new(
            "echo",
            "Give back what is given.",
            |_: Context, of: Map<String, Value>| async move { Ok::<_, String>(of) },
        );
        Ok(vec![echo.into()])
    }
}

/// Two steps of a server that updates the state. After a skipped node the run continues along its
/// edges.
#[tokio::test]
async fn a_node_of_a_document_of_edges_is_passed_over() {
    const SAYS: &[(&str, &str)] =
        &[("audit", r#"{"decision": "skip", "reason": "it is a draft"}"#)];
    let text = "workflow_id: it
decider: guide
nodes:
  - {node_id: first, kind: mcp, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: code, tool_name: echo}}]}
  - {node_id: audit, kind: mcp, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: code, tool_name: echo}}]}
  - {node_id: last, kind: mcp, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: code, tool_name: echo}}]}
edges:
  - {edge_id: a, from_node_id: first, to_node_id: audit, edge_type: sequential}
  - {edge_id: b, from_node_id: audit, to_node_id: last, edge_type: sequential}
";
    let runtime =
        known(Runtime::builder(), SAYS).toolset(ToolsetRef::new(Code)).document(read(text)).build();
    let handle = runtime
        .start_named("it", Encoded::new(&json!({"input": {"n": 1}})).unwrap())
        .await
        .unwrap();
    let output: Value =
        handle.result().await.unwrap_or_else(|error| panic!("{error}")).decode().unwrap();
    // Each step nests the state once more, so two have run.
    assert_eq!(output["output"]["output"], json!({"n": 1}), "{output}");
    assert!(
        handle.recorded().iter().any(|event| event.path.to_string() == "audit"
            && event.kind.name() == "workflow.node.skipped")
    );
}

const FORM: &str = "name: g
output: out
nodes:
  - {name: n, reads: [n], decides: x, does: {value: {value: 1}}}
  - {name: r, does: {route: {arms: [{arm: a}]}}}
  - {name: out, does: {value: {value: 1}}}
";

/// An invalid decider node is still reported for its own mistakes.
#[test]
fn what_decides_asks_a_decider() {
    let problems = problems(FORM).join("\n");
    assert!(problems.contains("the node `n` waits for itself"), "{problems}");
    let says = "the node `n` has `decides` and asks no decider; give it `decide`, or remove it";
    assert!(problems.contains(says), "{problems}");
}

/// Returns the diagnostics of a graph with additional nodes.
fn with_nodes(mut graph: Graph, nodes: &[Value]) -> String {
    graph.nodes.extend(nodes.iter().map(|node| serde_json::from_value(node.clone()).unwrap()));
    let built = known(Runtime::builder(), SAYS).graph(graph).build();
    built.catalogue().workflow_graph("joins").unwrap_err().to_string()
}

#[test]
fn one_node_decides_on_another() {
    let asks = |name: &str| json!({"name": name, "decides": "each", "does": {"decide": {"kind": "agent", "name": "guide"}}});
    let error = with_nodes(graph(None), &[asks("q"), asks("r")]);
    assert_eq!(
        error.matches("two nodes decide on `each`, `q` and `r`; keep one").count(),
        1,
        "{error}"
    );
    // An invalid `decides` without a decider does not count as the decision that a question needs.
    let value = json!({"name": "v", "decides": "each", "does": {"value": {"value": 1}}});
    let error = with_nodes(graph(Some(Decider::agent("guide"))), &[value]);
    assert!(error.contains("the node `v` has `decides` and asks no decider"), "{error}");
    assert!(!error.contains("does not wait for"), "{error}");
}

#[tokio::test]
async fn what_a_run_cannot_do_without_is_not_skipped() {
    const SPARE: &[(&str, &str)] = &[("spare", r#"{"decision": "skip", "reason": ""}"#)];
    let held = |graph: &mut Graph| {
        let order = json!({"name": "each", "order": [{"node": "spare", "reason": "gate"}], "does": {"value": {"value": []}}});
        let each = graph.nodes.iter_mut().find(|node| node.name == "each").unwrap();
        *each = serde_json::from_value(order).unwrap();
    };
    let ends = |graph: &mut Graph| {
        graph.nodes.iter_mut().find(|node| node.name == "spare").unwrap().ends = true;
    };
    type Change<'c> = &'c dyn Fn(&mut Graph);
    let all: [(Change<'_>, &str); 2] = [
        (&ends, "`spare` cannot be skipped: the workflow ends with its output; continue"),
        (&held, "`spare` cannot be skipped: `each` begins only when it has passed; continue"),
    ];
    for (change, says) in all {
        let mut graph = graph(Some(Decider::agent("guide")));
        change(&mut graph);
        let runtime = known(Runtime::builder(), SPARE).graph(graph).build();
        let handle = runtime.start_named("joins", Encoded::new(&INPUT()).unwrap()).await.unwrap();
        let failed = handle.result().await.unwrap_err().to_string();
        assert!(failed.contains(says), "{failed}");
    }
}

/// If the arguments of a call cannot be computed, its node fails, also when they come from the
/// store.
#[tokio::test]
async fn a_node_whose_arguments_cannot_be_made_fails_itself() {
    for key in ["none", "app:none"] {
        let mut graph = graph(Some(Decider::agent("guide")));
        let call = json!({"call": {"kind": "tool", "name": "decider_join",
            "with": {"object": {"words": {"from": "words"}, "with": {"state": key}}}}});
        let joined = graph.nodes.iter_mut().find(|node| node.name == "joined").unwrap();
        joined.does = Some(serde_json::from_value(call).unwrap());
        let runtime = known(Runtime::builder().store(MemoryStore::new()), &[]).graph(graph).build();
        let handle = runtime.start_named("joins", Encoded::new(&INPUT()).unwrap()).await.unwrap();
        let failed = handle.result().await.unwrap_err().to_string();
        assert!(failed.contains("the step `joined` failed"), "{key}: {failed}");
    }
}
