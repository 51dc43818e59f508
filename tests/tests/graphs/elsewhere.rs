//! Tests graph nodes on a worker: another runtime that has the same graph and exchanges bytes with
//! this one.

use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::{ScriptedModel, Turn, check_events};
use agentflow_tests::Elsewhere;
use serde_json::{Value, json};

fn fails() -> FnTool {
    FnTool::dynamic(
        ToolDefinition::new("graph_fails", "Fails.", json!({"type": "object"})),
        |_, _: Value| async move { Err::<Value, _>("it was to fail".to_owned()) },
    )
}

fn tells() -> FnTool {
    FnTool::dynamic(
        ToolDefinition::new("graph_tells", "Says what it is given.", json!({"type": "object"})),
        |_, arguments: Value| async move { Ok::<_, String>(arguments) },
    )
}

fn call(name: &str, with: Value) -> Value {
    json!({"call": {"kind": "tool", "name": name, "with": with}})
}

fn graph() -> Graph {
    let nodes = json!([
        {"name": "n", "kind": "input", "schema": {"type": "integer"}},
        {"name": "judged", "does": {"call": {"kind": "agent", "name": "judge", "with": {"value": "so"}}}},
        {"name": "bad", "does": call("graph_fails", json!({"object": {}}))},
        {"name": "never", "does": call("graph_tells", json!({"object": {}})), "edges": [{"from": "bad"}]},
        {"name": "rescue", "does": call("graph_tells", json!({"object": {
            "why": {"error_of": "bad"}, "judged": {"from": "judged"}, "never": {"from": "never", "or": 1}}})),
         "edges": [{"from": "bad", "failed": true}]},
        {"name": "items", "does": {"value": {"list": [{"from": "n"}, {"value": 8}]}}},
        {"name": "each", "does": {"map": {"items": "items", "call": {"kind": "tool", "name": "graph_tells",
            "with": {"object": {"item": {"item": ""}, "n": {"from": "n"}}}}}}},
        {"name": "out", "does": {"value": {"list": [{"from": "rescue"}, {"from": "each"}]}}},
    ]);
    serde_json::from_value(
        json!({"version": 1, "name": "far", "output": "out", "concurrency": 4, "nodes": nodes}),
    )
    .unwrap()
}

async fn run(runtime: &Runtime) -> Value {
    let handle = runtime.start_named("far", Encoded::new(&json!({"n": 3})).unwrap()).await.unwrap();
    let id = handle.run_id().clone();
    let output = handle.result().await.unwrap().decode().unwrap();
    check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
    output
}

#[tokio::test]
async fn nodes_that_are_data_do_the_same_elsewhere() {
    let model = || ScriptedModel::new([Turn::text("fine")]);
    let known = |model: ScriptedModel| {
        let judge = Agent::new(model).name("judge");
        Runtime::builder().agent(&judge).tools([fails(), tells()]).graph(graph())
    };
    let here = run(&known(model()).store(MemoryStore::new()).build()).await;
    // The runtime that owns the run must not call its model.
    let (unused, used) = (ScriptedModel::new([]), model());
    let worker = Elsewhere::on_thread(known(used.clone()).build());
    let there = run(&known(unused).executor(worker).store(MemoryStore::new()).build()).await;
    used.finish();
    assert_eq!(here, there);
    let why = json!({"kind": "error", "message": "it was to fail"});
    assert_eq!(there[0], json!({"why": why, "judged": "fine", "never": 1}));
    assert_eq!(there[1], json!([{"item": 3, "n": 3}, {"item": 8, "n": 3}]));
}
