//! Tests changes of workflows, agents and tools that a graph calls by name. Their versions are
//! recorded when a run starts. Resuming with another version is refused or accepted before any step
//! runs.

use agentflow::prelude::*;
use agentflow::runtime::{Changes, RuntimeBuilder};
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow::{RunId, Workflow};
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};
use serde_json::{Value, json};

/// Returns a graph that asks a question and then calls `callee`.
fn graph(kind: &str, with: Value) -> Graph {
    let nodes = json!([
        {"name": "ok", "does": {"ask": {"text": "go on?", "answer": {"type": "integer"}}}},
        {"name": "out", "edges": [{"from": "ok"}], "does": {"call": {"kind": kind, "name": "callee", "with": with}}}
    ]);
    serde_json::from_value(
        json!({"version": 1, "name": "caller", "output": "out", "concurrency": 1, "nodes": nodes}),
    )
    .unwrap()
}

fn inner(node: &'static str) -> Workflow<(u32,), u32> {
    Workflow::build("callee", ["n"], |b, (n,)| {
        b.node(node, (n,), |_, (n,)| async move { Ok::<_, String>(n + 1) })
    })
    .unwrap()
}

fn agent(instructions: &str) -> Agent {
    Agent::new(ScriptedModel::from_fn(|_| Turn::text("said"))).name("callee").instruct(instructions)
}

fn tool(description: &str, kind: &str) -> FnTool {
    let schema = json!({"type": "object", "properties": {"n": {"type": kind}}, "required": ["n"]});
    FnTool::dynamic(ToolDefinition::new("callee", description, schema), |_, _| async {
        Ok::<_, String>(json!(1))
    })
}

/// Starts a run with the old version, resumes it with the new version and returns its result.
async fn resumed(
    graph: Graph,
    old: impl Fn(RuntimeBuilder) -> RuntimeBuilder,
    new: impl Fn(RuntimeBuilder) -> RuntimeBuilder,
    changes: Changes,
) -> Result<String, String> {
    let store = MemoryStore::new();
    let process = || test_runtime().store(store.as_another_process()).graph(graph.clone());
    let id = RunId::new("run-1");
    let first = old(process()).build();
    let handle = first
        .start_named("caller", Encoded::new(&json!({})).unwrap())
        .run_id(id.clone())
        .await
        .unwrap();
    within("the run to ask", async {
        while first.run(&id).record().await.unwrap().pause_reason.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    handle.abandon();
    within("the run to be free", async {
        while first
            .run(&id)
            .resume()
            .await
            .is_err_and(|error| error.to_string().contains("running in this process"))
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(first);
    let second = new(process()).changes(changes).build();
    let handle = second.run(&id).resume().await.map_err(|error| error.to_string())?;
    second.run(&id).answer("ok", &1, "ada").await.unwrap();
    handle.result().await.map(|output| output.to_string()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_workflow_that_a_graph_calls_has_changed() {
    let with = json!({"object": {"n": {"value": 1}}});
    let same = resumed(
        graph("workflow", with.clone()),
        |b| b.workflow(&inner("a")),
        |b| b.workflow(&inner("a")),
        Changes::Refuse,
    );
    assert_eq!(same.await.unwrap(), "2");
    for changes in [Changes::Refuse, Changes::AcceptCompatible] {
        let other = resumed(
            graph("workflow", with.clone()),
            |b| b.workflow(&inner("a")),
            |b| b.workflow(&inner("b")),
            changes,
        );
        let error = other.await.unwrap_err();
        assert!(
            error.contains(
                "the workflow `caller` has changed since the run began: `out` would run again"
            ),
            "{error}"
        );
    }
    let all = resumed(
        graph("workflow", with),
        |b| b.workflow(&inner("a")),
        |b| b.workflow(&inner("b")),
        Changes::AcceptAll,
    );
    assert_eq!(all.await.unwrap(), "2");
}

#[tokio::test]
async fn an_agent_that_a_graph_calls_has_changed() {
    let with = json!({"value": "hello"});
    for (changes, accepted) in
        [(Changes::Refuse, false), (Changes::AcceptCompatible, true), (Changes::AcceptAll, true)]
    {
        let ended = resumed(
            graph("agent", with.clone()),
            |b| b.agent(&agent("Be brief.")),
            |b| b.agent(&agent("Be kind.")),
            changes,
        );
        match (ended.await, accepted) {
            (Ok(output), true) => assert_eq!(output, "\"said\""),
            (Err(error), false) => {
                assert!(error.contains("the agent `callee`: its instructions"), "{error}");
            }
            (other, _) => panic!("{changes:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_tool_that_a_graph_calls_has_changed() {
    let with = json!({"object": {"n": {"value": 1}}});
    let changed = |description: &'static str, kind: &'static str, changes| {
        resumed(
            graph("tool", with.clone()),
            |b| b.tools(tool("Counts.", "integer")),
            move |b| b.tools(tool(description, kind)),
            changes,
        )
    };
    let error = changed("Counts well.", "integer", Changes::Refuse).await.unwrap_err();
    assert!(error.contains("the tool `callee`: its description"), "{error}");
    assert_eq!(changed("Counts well.", "integer", Changes::AcceptCompatible).await.unwrap(), "1");
    let error = changed("Counts.", "number", Changes::AcceptCompatible).await.unwrap_err();
    assert!(error.contains("the tool `callee`: the schema of its parameters"), "{error}");
}
