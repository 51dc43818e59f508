//! What is wrong with a graph is said in one go, by the names in it.

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
    let error = runtime.workflow_graph(&name).unwrap_err().to_string();
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
        "the node `page`: this program knows no tool `fetch_pag`; did you mean `fetch_page`?",
        "the router `way` has no arm `no`, which leads to `again`",
        "the edge from `page` to `again` has an arm, and `page` is not a router",
        "the node `again` begins when 3 of its edges are taken, and 0 lead to it",
        "the tool `fetch_page` has no argument `uri`; did you mean `url`?",
        "the tool `fetch_page` needs `url`, which is not given",
        "the router `way` has two arms `yes`; name them apart",
        "the node `judge` uses `item`, and there is one only in `map` and `repeat`; use `from`",
        "the node `judge`: the runtime was given no agent `judge`",
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
    assert!(found.iter().any(|line| line.contains("these nodes wait for each other: `page`, `b`, `c`")), "{found:#?}");
    assert!(found.iter().any(|line| line.contains("the node `self` waits for itself")), "{found:#?}");
}

#[tokio::test]
async fn a_graph_that_calls_itself_is_refused() {
    let graph = |name: &str, calls: &str| -> Graph {
        let call = json!({"call": {"kind": "workflow", "name": calls, "with": {"value": {}}}});
        let nodes = json!([{"name": "page", "does": call}]);
        serde_json::from_value(json!({"version": 1, "name": name, "output": "page", "concurrency": 1, "nodes": nodes}))
            .unwrap()
    };
    let runtime = test_runtime().graph(graph("a", "b")).graph(graph("b", "a")).build();
    let empty = Encoded::new(&json!({})).unwrap();
    let error = runtime.start_named("a", &empty).await.unwrap_err().to_string();
    assert!(error.contains("it calls itself: `a` calls `b` calls `a`"), "{error}");
    let problems = runtime.catalogue().await.problems().len();
    assert_eq!(problems, 2);
}

/// Pays somebody.
#[tool(approve)]
async fn pay_somebody(cents: u32) -> u32 {
    cents
}

#[test]
fn a_person_agrees_to_one_call_at_a_time() {
    let call = json!({"kind": "tool", "name": "pay_somebody", "with": {"object": {"cents": {"item": ""}}}});
    let found = problems(whole(json!([
        {"name": "all", "kind": "input"},
        {"name": "page", "does": {"map": {"items": "all", "call": call}}},
    ])));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].contains("the node `page` calls `pay_somebody`, to which a person must agree each time"),
        "{found:#?}"
    );
}

#[test]
fn a_graph_of_a_newer_release_is_refused() {
    let mut graph = whole(json!([{"name": "page", "does": {"value": {"value": 1}}}]));
    graph["version"] = 7.into();
    let found = problems(graph);
    assert!(
        found.iter().any(|line| line.contains("the graph is of version 7, and this release reads up to 1")),
        "{found:#?}"
    );
}
