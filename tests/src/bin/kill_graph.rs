//! A process for the kill test. It runs a workflow that is pure data (a graph) over a store file.
//!
//! The graph's nodes call a tool that is created at run time from a JSON Schema, a `#[workflow]`
//! and an agent. Its router selects a set of branches, and two of three have to succeed. A decider
//! skips one node and revises the arguments of another.
//!
//! `kill-graph STORE EFFECTS` starts the run or resumes it, and prints its outcome, after the
//! diagnostic of an invalid graph. Every effect adds a line to the file EFFECTS. The process
//! retries interrupted calls, as an operator would.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::{SqliteStore, Store, StoreErrorKind};
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow::{Error, Result, RunId};
use agentflow_testing::{ScriptedModel, Turn};
use futures_util::StreamExt;
use serde_json::{Value, json};

fn note(path: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the file opens");
    // A single write, so that a kill never leaves half a line.
    file.write_all(format!("{line}\n").as_bytes()).expect("it is written");
}

/// Creates a tool that reserves an item once per idempotency key, like a server that deduplicates
/// by key.
fn reserve(effects: Arc<PathBuf>) -> FnTool {
    let schema = json!({
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
        "required": ["item", "count"],
        "additionalProperties": false
    });
    let definition = ToolDefinition::new("shop.reserve", "Reserves goods.", schema);
    let body = move |cx: Context, arguments: Value| {
        let effects = Arc::clone(&effects);
        async move {
            let line = format!("reserve {}", cx.idempotency_key());
            let done = fs::read_to_string(&*effects).unwrap_or_default();
            if !done.lines().any(|other| other == line) {
                note(&effects, &line);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok::<_, String>(json!({"item": arguments["item"], "reserved": arguments["count"]}))
        }
    };
    FnTool::dynamic(definition.policy(ToolPolicy::default().idempotent()), body)
}

/// Creates a tool that ships something. It is not idempotent and cannot report whether an
/// interrupted call took effect.
fn ship(effects: Arc<PathBuf>) -> FnTool {
    let schema = json!({
        "type": "object",
        "properties": {"what": {"type": "string"}},
        "required": ["what"],
        "additionalProperties": false
    });
    let body = move |cx: Context, arguments: Value| {
        let effects = Arc::clone(&effects);
        async move {
            note(&effects, &format!("ship {}", cx.path()));
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok::<_, String>(json!({"shipped": arguments["what"]}))
        }
    };
    FnTool::dynamic(ToolDefinition::new("shop.ship", "Ships goods.", schema), body)
}

/// Adds one.
#[tool(effects = "none")]
async fn kill_graph_add(n: u64) -> u64 {
    tokio::time::sleep(Duration::from_micros(500)).await;
    n + 1
}

#[workflow(name = "price")]
async fn kill_graph_price(count: u64) -> Result<u64> {
    let one = kill_graph_add(count).await;
    let two = kill_graph_add(one).await;
    Ok(two * 100)
}

fn graph(arm: &str) -> Graph {
    let tool =
        |name: &str, with: Value| json!({"kind": "tool", "name": name, "with": {"object": with}});
    let call = |name: &str, with: Value| json!({"call": tool(name, with)});
    let ship = |what: &str| call("shop.ship", json!({"what": {"value": what}}));
    let graph = json!({
        "version": 1, "name": "order", "output": "receipt", "concurrency": 3,
        "decider": {"kind": "agent", "name": "guide"},
        "nodes": [
            {"name": "order", "kind": "input", "schema": {
                "type": "object",
                "properties": {
                    "items": {"type": "array", "items": {"type": "object", "properties": {
                        "item": {"type": "string"}, "count": {"type": "integer"}}, "required": ["item", "count"]}},
                    "urgent": {"type": "boolean"}, "gift": {"type": "boolean"}
                },
                "required": ["items", "urgent", "gift"]
            }},
            {"name": "reserved", "does": {"map": {"items": "items",
                "call": tool("shop.reserve", json!({"item": {"item": "/item"}, "count": {"item": "/count"}}))}}},
            {"name": "items", "does": {"value": {"from": "order", "at": "/items"}}},
            {"name": "price", "does": {"call": {"kind": "workflow", "name": "price",
                "with": {"object": {"count": {"from": "order", "at": "/items/0/count"}}}}}},
            {"name": "way", "edges": [{"from": "reserved"}], "does": {"route": {"all": true, "arms": [
                {"arm": "express", "when": {"is": {"from": "order", "at": "/urgent"}}},
                {"arm": "gift", "when": {"is": {"from": "order", "at": "/gift"}}},
                {"arm": "heavy", "when": {"equals": [{"from": "price"}, {"value": 0}]}}]}}},
            {"name": "courier", "does": ship("by courier"), "edges": [{"from": "way", "arm": arm}]},
            {"name": "ribbon", "does": ship("with a ribbon"), "edges": [{"from": "way", "arm": "gift"}]},
            {"name": "truck", "does": ship("by truck"), "edges": [{"from": "way", "arm": "heavy"}]},
            {"name": "letter", "does": ship("by letter"), "edges": [{"from": "reserved"}]},
            {"name": "sent", "begins": {"join": 2},
             "edges": [{"from": "courier"}, {"from": "ribbon"}, {"from": "truck"}],
             "does": {"value": {"list": [
                {"from": "courier", "at": "/shipped", "or": null},
                {"from": "ribbon", "at": "/shipped", "or": null},
                {"from": "truck", "at": "/shipped", "or": null}]}}},
            {"name": "words", "edges": [{"from": "sent"}, {"from": "letter"}],
             "does": {"call": {"kind": "agent", "name": "clerk", "with": {"from": "sent"}}}},
            {"name": "receipt", "does": {"value": {"object": {
                "reserved": {"from": "reserved"}, "price": {"from": "price"}, "sent": {"from": "sent", "or": null},
                "words": {"from": "words", "or": null}}}}},
        ],
    });
    serde_json::from_value(graph).expect("it is the JSON of a graph")
}

fn runtime(arm: &str, effects: &str, store: SqliteStore) -> Runtime {
    let effects = Arc::new(PathBuf::from(effects));
    let clerk = Agent::new(ScriptedModel::from_fn(|_| Turn::text("Thank you."))).name("clerk");
    let guide = Agent::new(ScriptedModel::from_fn(|request| {
        let asked: String = request.messages.messages().iter().map(|message| message.text().replace(' ', "")).collect();
        Turn::text(match &asked {
            asked if asked.contains(r#""node":"letter""#) => r#"{"decision": "skip", "reason": "a parcel is enough"}"#,
            asked if asked.contains(r#""node":"ribbon""#) => {
                r#"{"decision": "revise", "arguments": {"what": "with a red ribbon"}, "reason": "red is left"}"#
            }
            _ => r#"{"decision": "continue"}"#,
        })
    }))
    .name("guide");
    Runtime::builder()
        .agent(&guide)
        .store(store)
        .tools(reserve(Arc::clone(&effects)))
        .tools(ship(effects))
        .agent(&clerk)
        .graph(graph(arm))
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, effects] = arguments.as_slice() else { panic!("kill-graph STORE EFFECTS") };
    let store = SqliteStore::open(store).await?;
    let wrong = runtime("expres", effects, store.clone());
    let input = json!({"order": {
        "items": [{"item": "pen", "count": 2}, {"item": "ink", "count": 1}, {"item": "paper", "count": 5}],
        "urgent": true, "gift": true,
    }});
    let input = Encoded::new(&input).expect("it is JSON");
    let problem = match wrong.start_named("order", &input).run_id(RunId::new("wrong")).await {
        Ok(_) => "a wrong graph was started".to_owned(),
        Err(error) => error.to_string(),
    };
    let runtime = runtime("express", effects, store.clone());
    let id = RunId::new("run");
    let run = match runtime.start_named("order", &input).run_id(id.clone()).await {
        Ok(run) => run,
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => {
            match ended(&store, &id).await? {
                Some(output) => {
                    print(&problem, &output);
                    return Ok(());
                }
                None => runtime.run(&id).resume().await?,
            }
        }
        Err(error) => return Err(error),
    };
    let mut events = run.events();
    while let Some(event) = events.next().await {
        if let EventKind::NodeFailed { error, .. } = &event.kind
            && error.kind == "interrupted"
        {
            // An earlier process may have retried the node already, so a refusal is fine.
            let _ = runtime.run(&id).retry(&event.path.to_string(), "the worker").await;
        }
    }
    print(&problem, &run.result().await?);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this program prints the outcome of its run")]
fn print(problem: &str, output: &Encoded) {
    println!("{problem}\n{output}");
}

/// Returns the outcome of the run if an earlier process finished it.
async fn ended(store: &SqliteStore, id: &RunId) -> Result<Option<Encoded>> {
    let events = store.read(id, 0, usize::MAX).await?;
    Ok(events.iter().rev().find_map(|event| match &event.kind {
        EventKind::RunCompleted(completed) => {
            completed.workflow().map(|workflow| workflow.output.clone())
        }
        _ => None,
    }))
}
