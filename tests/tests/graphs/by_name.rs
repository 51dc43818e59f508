//! Tests that a call by name from a graph has the same policy, records and step paths as a call
//! from code.

use std::time::Duration;

use agentflow::Approval;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::value::Encoded;
use agentflow::workflow::{Graph, NodeKind};
use agentflow_testing::{
    Call, Calls, EffectLog, ExpectedQuestion, Mocks, ScriptedModel, Turn, calls_of, test_runtime,
    trace, within,
};
use serde_json::{Value, json};

/// Pays money to a person.
#[tool(approve, retry = 1)]
async fn pay_out(cx: &Context, log: Inject<EffectLog>, cents: u32) -> u32 {
    log.note(cx);
    cents
}

/// Twice a number.
#[tool(effects = "none")]
async fn twice(n: i64) -> i64 {
    2 * n
}

#[workflow(name = "graph-inner")]
async fn inner(n: i64) -> Result<i64> {
    let all = twice(n).await;
    Ok(all + 1)
}

fn read(graph: Value) -> Graph {
    serde_json::from_value(graph).unwrap()
}

fn whole(output: &str, nodes: Value) -> Graph {
    read(json!({"version": 1, "name": "whole", "output": output, "concurrency": 4, "nodes": nodes}))
}

fn tool(name: &str, with: Value) -> Value {
    json!({"call": {"kind": "tool", "name": name, "with": with}})
}

async fn run(runtime: &Runtime, input: Value) -> Result<Value> {
    let handle = runtime.start_named("whole", Encoded::new(&input).unwrap()).await?;
    Ok(handle.result().await?.decode().unwrap())
}

#[tokio::test]
async fn a_graph_calls_what_the_runtime_knows() {
    let model = ScriptedModel::new([Turn::text("it is fine").expect_last("6")]);
    let judge = Agent::new(model.clone()).name("judge");
    let shout = FnTool::dynamic(
        ToolDefinition::new(
            "shout",
            "Says it aloud.",
            json!({"type": "object", "properties": {"what": {}}}),
        ),
        |_, arguments: Value| async move {
            Ok::<_, String>(arguments["what"].to_string().to_uppercase())
        },
    );
    let graph = whole(
        "out",
        json!([
            {"name": "n", "kind": "input", "schema": {"type": "integer"}},
            {"name": "list", "kind": "input", "schema": {"type": "array", "items": {"type": "integer"}}},
            {"name": "twice", "does": tool("twice", json!({"object": {"n": {"from": "n"}}}))},
            {"name": "nested", "does": {"call": {"kind": "workflow", "name": "graph-inner", "with": {"object": {"n": {"from": "twice"}}}}}},
            {"name": "judged", "does": {"call": {"kind": "agent", "name": "judge", "with": {"from": "twice"}}}},
            {"name": "shouted", "does": tool("shout", json!({"object": {"what": {"from": "judged"}}}))},
            {"name": "each", "does": {"map": {"items": "list", "call": {"kind": "tool", "name": "twice", "with": {"object": {"n": {"item": ""}}}}}}},
            {"name": "grown", "does": {"repeat": {"first": "n", "max": 10,
                "call": {"kind": "tool", "name": "twice", "with": {"object": {"n": {"item": ""}}}},
                "until": {"equals": [{"item": ""}, {"value": 24}]}}}},
            {"name": "out", "does": {"value": {"object": {
                "nested": {"from": "nested"}, "shouted": {"from": "shouted"}, "each": {"from": "each"}, "grown": {"from": "grown"}}}}},
        ]),
    );
    let runtime = test_runtime().agent(&judge).tools(shout).graph(graph).build();
    let output = run(&runtime, json!({"n": 3, "list": [1, 2]})).await.unwrap();
    assert_eq!(
        output,
        json!({"nested": 13, "shouted": "\"IT IS FINE\"", "each": [2, 4], "grown": 24})
    );
    model.finish();
    let error = run(&runtime, json!({"n": "three", "list": []})).await.unwrap_err().to_string();
    assert!(
        error.contains("the input `n` does not fit: ") && error.contains("seen: \"three\""),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_map_over_something_else_than_a_list_leaves_the_other_steps_running() {
    let slow = FnTool::dynamic(
        ToolDefinition::new("slow", "Takes a second.", json!({"type": "object"})),
        |_, _: Value| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, String>("done".to_owned())
        },
    );
    let graph = whole(
        "out",
        json!([
            {"name": "things", "kind": "input", "schema": {}},
            {"name": "slow", "does": tool("slow", json!({"object": {}}))},
            {"name": "each", "policy": {"on_error": "skip"},
             "does": {"map": {"items": "things", "call": {"kind": "tool", "name": "twice", "with": {"object": {"n": {"item": ""}}}}}}},
            {"name": "out", "does": {"value": {"object": {"slow": {"from": "slow"}, "each": {"from": "each", "or": "skipped"}}}}},
        ]),
    );
    let runtime = test_runtime().tools(slow).graph(graph).build();
    let output = run(&runtime, json!({"things": 5})).await.unwrap();
    assert_eq!(output, json!({"slow": "done", "each": "skipped"}));
}

#[tokio::test]
async fn a_graph_is_described_as_it_was_given() {
    let graph = whole(
        "out",
        json!([
            {"name": "n", "kind": "input", "schema": {"type": "integer"}},
            {"name": "way", "does": {"route": {"all": true, "arms": [
                {"arm": "small", "when": {"not": {"equals": [{"from": "n"}, {"value": 3}]}}}, {"arm": "other"}]}}},
            {"name": "a", "does": tool("twice", json!({"object": {"n": {"from": "n"}}})), "edges": [{"from": "way", "arm": "small"}, {"from": "n"}]},
            {"name": "b", "does": tool("twice", json!({"object": {"n": {"from": "n"}}})), "edges": [{"from": "a", "failed": true}]},
            {"name": "out", "does": {"value": {"list": [{"from": "a", "or": 0}, {"from": "b", "or": null}]}},
             "edges": [{"from": "a"}, {"from": "b"}, {"from": "way", "when": {"exists": {"from": "n"}}}], "begins": {"barrier": 1}, "ends": true},
        ]),
    );
    let described =
        test_runtime().graph(graph).build().catalogue().workflow_graph("whole").unwrap();
    assert_eq!(described.node("way").unwrap().kind, NodeKind::Router);
    let text = serde_json::to_string(&described).unwrap();
    let again = test_runtime()
        .graph(serde_json::from_str(&text).unwrap())
        .build()
        .catalogue()
        .workflow_graph("whole")
        .unwrap();
    assert_eq!(again, described);
    assert_eq!(again.hash(), described.hash());
    assert!(described.to_mermaid().contains("-->|\"small\"|"), "{}", described.to_mermaid());
}

#[tokio::test(start_paused = true)]
async fn the_policy_of_a_tool_is_that_of_its_node() {
    let (log, store) = (EffectLog::new(), MemoryStore::new());
    let graph = whole(
        "paid",
        json!([
            {"name": "cents", "kind": "input", "schema": {"type": "integer"}},
            {"name": "paid", "does": tool("pay_out", json!({"object": {"cents": {"from": "cents"}}}))},
        ]),
    );
    let runtime = test_runtime().resource(log.clone()).graph(graph).store(store.clone()).build();
    let handle =
        runtime.start_named("whole", Encoded::new(&json!({"cents": 5})).unwrap()).await.unwrap();
    let run = handle.run_id().clone();
    within("the run to ask", async {
        while runtime.run(&run).inspect().await.unwrap().run.pause_reason.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(log.counts().is_empty());
    runtime.run(&run).approve("paid/tool#1.pay_out", Approval::granted(), "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap().decode::<u32>().unwrap(), 5);
    assert_eq!(log.count("paid/tool#1.pay_out"), 1, "{:?}", log.counts());
}

#[tokio::test(start_paused = true)]
async fn the_first_edge_that_is_taken_begins_a_node_and_an_end_stops_the_rest() {
    let slow = FnTool::dynamic(
        ToolDefinition::new("slow", "Takes its time.", json!({"type": "object"})),
        |_, arguments: Value| async move {
            tokio::time::sleep(Duration::from_secs(arguments["seconds"].as_u64().unwrap())).await;
            match arguments["fails"].is_null() {
                true => Ok(arguments["seconds"].clone()),
                false => Err("it was to fail".to_owned()),
            }
        },
    );
    let call = |seconds: u32| tool("slow", json!({"object": {"seconds": {"value": seconds}}}));
    let graph = whole(
        "none",
        json!([
            {"name": "a", "does": call(5)},
            {"name": "b", "does": call(2)},
            {"name": "f", "does": tool("slow", json!({"object": {"seconds": {"value": 1}, "fails": {"value": true}}}))},
            {"name": "why", "does": {"value": {"error_of": "f"}}, "edges": [{"from": "f", "failed": true}]},
            {"name": "first", "does": {"value": {"object": {"a": {"from": "a", "or": null}, "b": {"from": "b", "or": null}, "why": {"from": "why"}}}},
             "edges": [{"from": "a"}, {"from": "b"}], "begins": "any", "ends": true},
            {"name": "none", "does": {"value": {"value": "nothing ended it"}}, "edges": [{"from": "a"}]},
        ]),
    );
    let store = MemoryStore::new();
    let runtime = test_runtime().tools(slow).graph(graph).store(store).build();
    let handle = runtime.start_named("whole", Encoded::new(&json!({})).unwrap()).await.unwrap();
    let output: Value = handle.result().await.unwrap().decode().unwrap();
    let why = json!({"kind": "error", "message": "it was to fail"});
    assert_eq!(output, json!({"a": null, "b": 2, "why": why}));
    let events = runtime.run(handle.run_id()).journal().await.unwrap();
    agentflow_testing::check_events(&events).unwrap();
    assert!(
        trace(&events)
            .iter()
            .any(|line| line.starts_with("a failed") && line.contains("the workflow has ended"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_condition_waits_for_all_that_it_looks_at() {
    let late = || {
        FnTool::dynamic(
            ToolDefinition::new("late", "Comes late.", json!({"type": "object"})),
            |_, _: Value| async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                Ok::<_, String>(true)
            },
        )
    };
    for begins in [json!("all"), json!("any")] {
        let graph = whole(
            "out",
            json!([
                {"name": "soon", "does": {"value": {"value": 1}}},
                {"name": "late", "does": tool("late", json!({"object": {}}))},
                {"name": "out", "does": {"value": {"from": "late"}},
                 "edges": [{"from": "soon", "when": {"is": {"from": "late"}}}], "begins": begins},
            ]),
        );
        let runtime = test_runtime().tools(late()).graph(graph).build();
        assert_eq!(run(&runtime, json!({})).await.unwrap(), json!(true), "{begins}");
    }
}

/// Sends a message. Does not declare whether it may be repeated.
#[tool]
async fn send_off() -> u32 {
    1
}

#[test]
fn branches_run_again_only_when_all_of_them_may() {
    let branch = |name: &str, with: Value| json!({"kind": "tool", "name": name, "with": with});
    let twice = branch("twice", json!({"object": {"n": {"value": 1}}}));
    let fallback = json!({"fallback": [twice, branch("send_off", json!({"object": {}}))]});
    let graph = whole("out", json!([{"name": "out", "does": fallback}]));
    let described =
        test_runtime().graph(graph).build().catalogue().workflow_graph("whole").unwrap();
    assert_eq!(described.node("out").unwrap().policy.repeatable, Some(false));
}

#[tokio::test]
async fn the_answer_of_an_agent_is_the_value_of_its_type() {
    let model = ScriptedModel::new([Turn::text(r#"{"value": 4}"#)]);
    let judge = Agent::new(model).name("judge").output::<u32>();
    let call = json!({"call": {"kind": "agent", "name": "judge", "with": {"value": "how many?"}}});
    let graph = whole("out", json!([{"name": "out", "does": call.clone()}]));
    let runtime = test_runtime().agent(&judge).graph(graph).build();
    assert_eq!(run(&runtime, json!({})).await.unwrap(), json!(4));
    // A node whose call expects an integer accepts this output.
    let twice = tool("twice", json!({"object": {"n": {"from": "out"}}}));
    let graph =
        whole("twice", json!([{"name": "out", "does": call}, {"name": "twice", "does": twice}]));
    test_runtime().agent(&judge).graph(graph).build().catalogue().workflow_graph("whole").unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_graph_calls_by_name_is_replaced_by_name() {
    let shout = FnTool::dynamic(
        ToolDefinition::new(
            "loud.shout",
            "Says it aloud.",
            json!({"type": "object", "properties": {"what": {}}}),
        ),
        |_, _: Value| async move { Err::<Value, _>("a test is quiet".to_owned()) },
    );
    let judge = Agent::new("openai/gpt-5-mini").name("judge");
    let graph = whole(
        "out",
        json!([
            {"name": "n", "kind": "input", "schema": {"type": "integer"}},
            {"name": "paid", "does": tool("pay_out", json!({"object": {"cents": {"from": "n"}}}))},
            {"name": "nested", "does": {"call": {"kind": "workflow", "name": "graph-inner", "with": {"object": {"n": {"from": "paid"}}}}}},
            {"name": "judged", "does": {"call": {"kind": "agent", "name": "judge", "with": {"from": "nested"}}}},
            {"name": "shouted", "does": tool("loud.shout", json!({"object": {"what": {"from": "judged"}}}))},
            {"name": "out", "does": {"value": {"object": {"shouted": {"from": "shouted"}}}}},
        ]),
    );
    let mocks = Mocks::new()
        .tool("pay_out", [Call::any().fails("busy"), Call::with(json!({"cents": 3})).returns(4)])
        .tool("loud.shout", Call::with(json!({"what": "fine"})).returns("FINE"))
        .tool("twice", Calls::never())
        .agent("judge", Call::containing(json!({"message": "9"})).returns("fine"))
        .workflow("graph-inner", Call::with(json!({"n": 4})).returns(9))
        .person([ExpectedQuestion::at("paid/tool#1.pay_out")
            .asking("pay_out")
            .about(json!({"cents": 3}))]);
    let runtime =
        mocks.runtime().agent(&judge).tools(shout).resource(EffectLog::new()).graph(graph).build();
    let handle =
        runtime.start_named("whole", Encoded::new(&json!({"n": 3})).unwrap()).await.unwrap();
    assert_eq!(
        handle.result().await.unwrap().decode::<Value>().unwrap(),
        json!({"shouted": "FINE"})
    );
    mocks.finish();
    assert_eq!(calls_of(handle.recorded(), "pay_out").len(), 1, "its attempts are one call");
}

/// Say {word}.
#[agent]
async fn plans_say(word: String) -> Result<String>;

#[tokio::test]
async fn a_name_of_something_else_is_named_as_what_it_is() {
    let runtime = test_runtime().build();
    let input = Encoded::new(&json!({})).unwrap();
    let problem = async |name: &str| {
        runtime.start_named(name, &input).await.map(drop).unwrap_err().to_string()
    };
    assert_eq!(
        problem("plans_say").await,
        "`plans_say` is an agent and not a workflow; start it by `Agent::start`, an `#[agent]` function as in \
         `plans_say::agent(..).start(())`"
    );
    assert_eq!(
        problem("twice").await,
        "`twice` is a tool and not a workflow; call it by `Runtime::invoke`, or in a node of a workflow"
    );
    assert_eq!(
        problem("graph-innr").await,
        "this program has no workflow `graph-innr`; did you mean `graph-inner`?"
    );
    // A dry run also describes agents.
    assert!(runtime.catalogue().dry_run("plans_say").await.is_ok());
}
