//! Tests compensation of graph nodes. It works as in code, also for dynamic tools.

use std::sync::{Arc, Mutex};

use agentflow::prelude::*;
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::value::Encoded;
use agentflow_testing::{calls_of, check_events, test_runtime};
use serde_json::{Value, json};

/// Rents something.
#[tool(compensate = kit_give_back)]
async fn kit_rent(what: String) -> String {
    format!("rented {what}")
}

/// Gives it back.
#[tool]
async fn kit_give_back(what: String, output: String) -> bool {
    output.ends_with(&what)
}

#[tokio::test(start_paused = true)]
async fn what_the_nodes_of_a_graph_had_done_is_undone() {
    let deeds: Arc<Mutex<Vec<String>>> = Arc::default();
    let tool = |name: &str, policy: ToolPolicy, fails: bool| {
        let (deeds, of) = (Arc::clone(&deeds), name.to_owned());
        let definition =
            ToolDefinition::new(name, "Does it.", json!({"type": "object"})).policy(policy);
        FnTool::dynamic(definition, move |_, arguments: Value| {
            deeds.lock().unwrap().push(format!("{of} {arguments}"));
            async move { if fails { Err("over".to_owned()) } else { Ok(json!(5)) } }
        })
    };
    let graph = json!({"version": 1, "name": "undone", "output": "over", "concurrency": 4, "nodes": [
        {"name": "n", "kind": "input", "schema": {"type": "integer"}},
        {"name": "opened", "does": {"call": {"kind": "tool", "name": "kit_open", "with": {"object": {"n": {"from": "n"}}}}}},
        {"name": "rented", "after": ["opened"],
            "does": {"call": {"kind": "tool", "name": "kit_rent", "with": {"object": {"what": {"value": "a van"}}}}}},
        {"name": "over", "after": ["rented"], "does": {"call": {"kind": "tool", "name": "kit_over", "with": {"object": {
            "all": {"from": "rented"}, "open": {"from": "opened"}}}}}},
    ]});
    let runtime = test_runtime()
        .tools(tool("kit_open", ToolPolicy::default().compensate("kit_close"), false))
        .tools(tool("kit_close", ToolPolicy::default(), false))
        .tools(tool("kit_over", ToolPolicy::default(), true))
        .graph(serde_json::from_value(graph).unwrap())
        .build();
    let run = runtime
        .start_named("undone", Encoded::new(&json!({"n": 3})).unwrap())
        .compensate()
        .await
        .unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.to_string(), "the step `over` failed: over");
    let events = run.recorded();
    check_events(&events).unwrap();
    assert_eq!(deeds.lock().unwrap().last().unwrap(), r#"kit_close {"n":3,"output":5}"#);
    assert_eq!(
        calls_of(&events, "kit_close")[0].path.to_string(),
        "opened/tool#1.kit_open/undo#1/tool#1.kit_close"
    );
    let given_back = calls_of(&events, "kit_give_back");
    assert_eq!(given_back[0].outcome, Some(Ok(json!(true))));
}
