//! Tests that all problems of a graph are reported together, with the names of their nodes.

use agentflow::prelude::*;
use agentflow::tool::Effects;
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::test_runtime;
use serde_json::{Value, json};

/// Gets a page.
#[tool(effects = "read")]
async fn fetch_page(url: String) -> String {
    url
}

fn problems(graph: Value) -> Vec<String> {
    let _ = Effects::Read;
    let graph: Graph = serde_json::from_value(graph).unwrap();
    let name = graph.name.clone();
    let runtime = test_runtime().graph(graph).build();
    let error = runtime.catalogue().workflow_graph(&name).unwrap_err().to_string();
    error.lines().map(ToOwned::to_owned).collect()
}

fn whole(nodes: Value) -> Value {
    json!({"version": 1, "name": "wrong", "output": "page", "concurrency": 4, "nodes": nodes})
}

#[test]
fn all_problems_are_said_at_once() {
    let found = problems(whole(json!([
        {"name": "url", "kind": "input", "schema": {"type": "strin"}},
        {"name": "page", "does": {"call": {"kind": "tool", "name": "fetch_pag", "with": {"object": {"url": {"from": "ulr"}}}}}},
        {"name": "again", "does": {"call": {"kind": "tool", "name": "fetch_page", "with": {"object": {"uri": {"from": "url"}}}}},
         "edges": [{"from": "way", "arm": "no"}, {"from": "page", "arm": "x"}], "begins": {"join": 3}},
        {"name": "way", "does": {"route": {"arms": [{"arm": "yes", "when": {"is": {"from": "page"}}}, {"arm": "yes"}]}}},
        {"name": "judge", "does": {"call": {"kind": "agent", "name": "judge", "with": {"item": ""}}}},
        {"name": "code", "kind": "step"},
    ])));
    let expected = [
        "the schema of `url`: this is not a JSON Schema",
        "the node `page` reads or follows `ulr`, and there is no such node; did you mean `url`?",
        "the node `page`: this program has no tool `fetch_pag`; did you mean `fetch_page`?",
        "the router `way` has no arm `no`, which leads to `again`",
        "the edge from `page` to `again` has an arm, and `page` is not a router",
        "the node `again` begins when 3 of its edges are taken, and 0 lead to it",
        "the tool `fetch_page` has no argument `uri`; did you mean `url`?",
        "the tool `fetch_page` needs `url`, which is not given",
        "the router `way` has two arms `yes`; name them apart",
        "the node `judge` uses `item`, and there is one only in `map` and `repeat`; use `from`",
        "the node `judge`: this program has no agent `judge`",
        "the node `code` is code, which a graph does not have",
    ];
    for says in expected {
        assert!(found.iter().any(|line| line.contains(says)), "{says}\n{found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn nodes_that_wait_for_each_other_are_named() {
    let call = |from: &str| json!({"value": {"from": from}});
    let found = problems(whole(json!([
        {"name": "page", "does": call("b")},
        {"name": "b", "does": call("c")},
        {"name": "c", "does": call("b")},
        {"name": "self", "does": call("self")},
    ])));
    assert!(
        found.iter().any(|line| line.contains("these nodes wait for each other: `b`, `c`;")),
        "{found:#?}"
    );
    assert!(
        found.iter().any(|line| line.contains("the node `self` waits for itself")),
        "{found:#?}"
    );
}

#[tokio::test]
async fn a_graph_that_calls_itself_is_refused() {
    let graph = |name: &str, calls: &str| -> Graph {
        let call = json!({"call": {"kind": "workflow", "name": calls, "with": {"value": {}}}});
        let nodes = json!([{"name": "page", "does": call}]);
        serde_json::from_value(
            json!({"version": 1, "name": name, "output": "page", "concurrency": 1, "nodes": nodes}),
        )
        .unwrap()
    };
    let runtime = test_runtime().graph(graph("a", "b")).graph(graph("b", "a")).build();
    let empty = Encoded::new(&json!({})).unwrap();
    let error = runtime.start_named("a", &empty).await.unwrap_err().to_string();
    assert!(error.contains("it calls itself: `a` calls `b` calls `a`"), "{error}");
    let problems = runtime.catalogue().snapshot().await.problems().len();
    assert_eq!(problems, 2);
}

#[test]
fn a_graph_of_a_newer_release_is_refused() {
    let mut graph = whole(json!([{"name": "page", "does": {"value": {"value": 1}}}]));
    graph["version"] = 7.into();
    let found = problems(graph);
    assert!(
        found
            .iter()
            .any(|line| line.contains("the graph is of version 7, and this release reads up to 1")),
        "{found:#?}"
    );
}

/// A page with its words counted.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct Counted {
    title: String,
    words: u64,
}

/// Counts words.
#[tool(effects = "none")]
async fn graphs_count(text: String) -> Result<Counted, String> {
    Ok(Counted { words: text.split_whitespace().count() as u64, title: text })
}

struct NoSchema;

impl serde::Serialize for NoSchema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(3)
    }
}

/// Answers with a type that has no schema.
#[tool(effects = "none")]
async fn graphs_unknown() -> NoSchema {
    NoSchema
}

/// Repeats a text.
#[tool(effects = "none")]
async fn graphs_repeat(text: String, times: u8, about: Option<String>) -> String {
    let _ = about;
    text.repeat(times.into())
}

#[test]
fn a_value_of_another_type_is_refused_when_the_graph_is_read() {
    let call = |name: &str, with: Value| json!({"call": {"kind": "tool", "name": name, "with": {"object": with}}});
    let repeat =
        |times: Value| call("graphs_repeat", json!({"text": {"value": "x"}, "times": times}));
    let found = problems(whole(json!([
        {"name": "text", "kind": "input", "schema": {"type": "string"}},
        {"name": "list", "kind": "input", "schema": {"type": "array", "items": {"type": "boolean"}}},
        {"name": "counted", "does": call("graphs_count", json!({"text": {"from": "text"}}))},
        {"name": "page", "does": repeat(json!({"from": "counted", "at": "/title"}))},
        {"name": "large", "does": repeat(json!({"from": "counted", "at": "/words"}))},
        {"name": "constant", "does": repeat(json!({"value": 300}))},
        {"name": "either", "does": repeat(json!({"from": "unknown", "or": "none"}))},
        {"name": "unknown", "does": call("graphs_unknown", json!({}))},
        {"name": "open", "does": repeat(json!({"from": "unknown"}))},
        {"name": "each", "does": {"map": {"items": "list", "call":
            {"kind": "tool", "name": "graphs_count", "with": {"object": {"text": {"item": ""}}}}}}},
        {"name": "all", "does": {"map": {"items": "text", "call":
            {"kind": "tool", "name": "graphs_count", "with": {"object": {"text": {"value": "x"}}}}}}},
        {"name": "said", "does": {"value": {"from": "counted"}}, "schema": {"type": "string"}},
        {"name": "whole", "does": {"call": {"kind": "tool", "name": "graphs_repeat", "with": {"from": "counted"}}}},
        {"name": "fine", "does": call("graphs_repeat", json!({"text": {"from": "counted", "at": "/title"}, "times": {"value": 3}, "about": {"value": null}}))},
    ])));
    let expected = [
        "the node `page`: an argument of the tool `graphs_repeat`, `times`: integer from 0 to 255 is expected, and string is given",
        "the node `constant`: an argument of the tool `graphs_repeat`, `times`: integer from 0 to 255 is expected, and 300 is given",
        "the node `either`: an argument of the tool `graphs_repeat`, `times`: value is not of type \"integer\"; seen: \"none\"",
        "the node `each`: an argument of the tool `graphs_count`, `text`: string is expected, and boolean is given",
        "the node `all`: the list of items, `text`, does not fit: list is expected, and string is given",
        "the node `said`: its output, by its `schema`, does not fit: string is expected, and object is given",
    ];
    for says in expected {
        assert!(found.iter().any(|line| line.ends_with(says)), "{says}\n{found:#?}");
    }
    let others: Vec<&String> =
        found.iter().filter(|line| !expected.iter().any(|says| line.ends_with(says))).collect();
    // Two arguments are missing, and both given names are unknown.
    let of_whole = "the node `whole`: an argument of the tool `graphs_repeat`, ";
    assert!(others.iter().all(|line| line.contains(of_whole)), "{others:#?}");
    assert_eq!(others.len(), 4, "{others:#?}");
}

#[tokio::test]
async fn the_schemas_of_all_that_has_a_name_are_in_the_catalogue() {
    use agentflow::runtime::EntryKind;
    let call = json!({"call": {"kind": "tool", "name": "graphs_count", "with": {"object": {"text": {"from": "text"}}}}});
    let graph = json!({"version": 1, "name": "counting", "output": "page", "concurrency": 1, "nodes": [
        {"name": "text", "kind": "input", "schema": {"type": "string"}},
        {"name": "page", "does": call},
    ]});
    let judge = Agent::new(agentflow_testing::ScriptedModel::new([])).name("judge");
    let dynamic = agentflow::tool::FnTool::dynamic(
        agentflow::tool::ToolDefinition::new(
            "shouted",
            "Says it aloud.",
            json!({"type": "object"}),
        ),
        |_, arguments: Value| async move { Ok::<_, String>(arguments) },
    )
    .output_schema(json!({"type": "object"}));
    let runtime = test_runtime()
        .graph(serde_json::from_value(graph).unwrap())
        .agent(&judge)
        .tools(dynamic)
        .build();
    let catalogue = runtime.catalogue().snapshot().await.check().unwrap();
    let output = |kind, name: &str| catalogue.get(kind, name).unwrap().output.clone();
    let counted = output(EntryKind::Tool, "graphs_count").unwrap();
    assert_eq!(counted["required"], json!(["title", "words"]), "{counted}");
    assert_eq!(output(EntryKind::Workflow, "counting").as_ref(), Some(&counted));
    assert_eq!(output(EntryKind::Tool, "graphs_repeat").unwrap()["type"], "string");
    assert_eq!(output(EntryKind::Tool, "graphs_unknown"), None);
    assert_eq!(output(EntryKind::Tool, "shouted"), Some(json!({"type": "object"})));
    assert_eq!(output(EntryKind::Agent, "judge"), Some(json!({"type": "string"})));
    assert_eq!(
        catalogue.get(EntryKind::Agent, "judge").unwrap().input,
        Some(json!({"type": "string"}))
    );
}

#[test]
fn a_key_that_no_node_has_is_refused() {
    let edge = json!({"from": "way", "arm": "no"});
    for (key, node) in [
        ("edge", json!({"name": "page", "kind": "join", "edge": [edge]})),
        ("polcy", json!({"name": "page", "kind": "join", "polcy": {}})),
        ("retires", json!({"name": "page", "kind": "join", "policy": {"retires": 3}})),
        ("atempts", json!({"name": "page", "kind": "join", "policy": {"retry": {"atempts": 3}}})),
    ] {
        let error = serde_json::from_value::<Graph>(whole(json!([node]))).unwrap_err().to_string();
        assert!(error.starts_with("`nodes[0]"), "{error}");
        assert!(
            error.contains(&format!("{key}`: unknown field `{key}`, expected one of `")),
            "{error}"
        );
    }
    let mut graph = whole(json!([]));
    graph["stop_polcy"] = "best_effort".into();
    let error = serde_json::from_value::<Graph>(graph).unwrap_err().to_string();
    assert!(error.starts_with("`stop_polcy`: unknown field `stop_polcy`"), "{error}");
    assert!(error.ends_with("; did you mean `stop_policy`?"), "{error}");
}

#[test]
fn a_router_has_one_arm_for_what_no_other_takes() {
    let found = problems(whole(json!([
        {"name": "page", "kind": "input", "schema": {"type": "string"}},
        {"name": "way", "does": {"route": {"arms": [{"arm": "a"}, {"arm": "b"}]}}},
    ])));
    let says = "the router `way` has several arms without a condition, and only one can be taken when no other is";
    assert!(found.iter().any(|line| line.contains(says)), "{found:#?}");
}

/// Checks that a node with `begins: any` waits for none of its edges. It may run at the same time
/// as their sources, so both must not save the same key.
#[test]
fn a_node_that_begins_with_any_edge_waits_for_none_of_them() {
    let value = |name: &str, more: Value| {
        let mut node = json!({"name": name, "does": {"value": {"value": 1}}});
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node
    };
    let saves = |more: Value| {
        let mut more = more;
        more["saves"] = json!({"k": ""});
        more
    };
    let both = json!([{"from": "a"}, {"from": "b"}]);
    let any = saves(json!({"edges": both, "begins": "any"}));
    let found = problems(whole(json!([
        value("a", saves(json!({}))),
        value("b", json!({})),
        value("page", any.clone())
    ])));
    let says = "`a` and `page` may run at the same time, and each of them saves `k` in the state";
    assert!(found.iter().any(|line| line.contains(says)), "{found:#?}");
    let build = |nodes: Value| {
        test_runtime().graph(serde_json::from_value::<Graph>(whole(nodes)).unwrap()).build()
    };
    // Nodes that precede every edge have finished, regardless of the edge that is taken.
    let behind = json!({"edges": [{"from": "first"}]});
    let first = value("first", saves(json!({})));
    let nodes = json!([first, value("a", behind.clone()), value("b", behind), value("page", any)]);
    build(nodes).catalogue().workflow_graph("wrong").unwrap_or_else(|error| panic!("{error}"));
    let all = saves(json!({"edges": both}));
    let nodes = json!([value("a", saves(json!({}))), value("b", json!({})), value("page", all)]);
    build(nodes).catalogue().workflow_graph("wrong").unwrap_or_else(|error| panic!("{error}"));
}
