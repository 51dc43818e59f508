//! Tests the events of calls outside of runs, in addition to `every_caller.rs`: a dropped call, an
//! unknown tool, middleware, and several calls with one context.

use std::sync::Arc;
use std::time::Duration;

use agentflow::async_trait;
use agentflow::event::{Event, EventKind};
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::middleware::{Flow, Middleware, ToolStep};
use agentflow::prelude::*;
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::{Registry, Runtime};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::{Value, json};

use crate::every_caller::EventCollector;

fn tool(name: &str) -> FnTool {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    FnTool::dynamic(
        ToolDefinition::new(name, "", schema),
        |cx: Context, arguments: Value| async move {
            match arguments["n"].as_u64() {
                Some(0) => std::future::pending().await,
                Some(n) => Ok::<_, String>(format!(
                    "{n} at {} under {}",
                    cx.path(),
                    cx.idempotency_key().ends_with('/')
                )),
                None => Err("there is no n".to_owned()),
            }
        },
    )
}

fn call(name: &str, n: Value) -> ToolCall {
    ToolCall::new("c", name, json!({"n": n}).to_string())
}

/// Formats the tool events: path, event name, tool, and the outcome.
fn lines(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match &event.kind {
        EventKind::ToolStarted { call, given, .. } => {
            format!(
                "{} {} {} {}",
                event.path,
                event.name(),
                call.name,
                given.as_deref().unwrap_or("-")
            )
        }
        EventKind::ToolCompleted { result, answered_by, .. }
        | EventKind::ToolFailed { result, answered_by, .. } => {
            let by = answered_by.as_deref().unwrap_or("-");
            format!("{} {} {} {by} {}", event.path, event.name(), result.name, result.output)
        }
        _ => format!("{} {}", event.path, event.name()),
    };
    events.iter().map(line).collect()
}

fn runtime(heard: &EventCollector) -> Runtime {
    test_runtime().sink(heard.clone()).tools(tool("desk.open")).build()
}

#[tokio::test(start_paused = true)]
async fn calls_with_one_context_stand_at_places_of_their_own() {
    let heard = EventCollector::default();
    let runtime = runtime(&heard);
    let mut registry = Registry::new();
    registry.register(tool("desk.open")).unwrap();
    let cx = runtime.context();
    let (one, other) = (call("desk.open", json!(1)), call("desk__open", json!(2)));
    let both = tokio::join!(registry.invoke(&cx, &one, &[]), registry.invoke(&cx, &other, &[]));
    assert_eq!(both.0.text(), "1 at tool#1.desk__open under true");
    assert_eq!(both.1.text(), "2 at call#2/tool#1.desk__open under true");
    let events = heard.events();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(events.iter().all(|event| event.run_id == *cx.run_id()));
    let mut all = lines(&events);
    all.sort_unstable();
    let expected = [
        "call#2/tool#1.desk__open tool.completed desk__open - \"2 at call#2/tool#1.desk__open under true\"",
        "call#2/tool#1.desk__open tool.started desk__open -",
        "tool#1.desk__open tool.completed desk__open - \"1 at tool#1.desk__open under true\"",
        "tool#1.desk__open tool.started desk__open -",
    ];
    assert_eq!(all, expected);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_has_an_end() {
    let heard = EventCollector::default();
    let runtime = runtime(&heard);
    let waits = call("desk.open", json!(0));
    tokio::time::timeout(Duration::from_secs(1), runtime.invoke(&waits, &[])).await.unwrap_err();
    let said = lines(&heard.events());
    let end = "tool#1.desk__open tool.failed desk__open - whoever called dropped the call while this tool was running; whether \
               it had its effect is unknown";
    assert_eq!(said, ["tool#1.desk__open tool.started desk__open -", end]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_has_the_events_of_an_agents_call() {
    let heard = EventCollector::default();
    let runtime = runtime(&heard);
    for (name, at, told) in [
        ("desk.opn", "unknown", "desk.opn"),
        ("desk.open", "desk__open", "desk__open"),
        ("", "unknown", ""),
        ("a/b#c", "unknown", "a/b#c"),
    ] {
        let result = runtime.invoke(&call(name, json!("x")), &[]).await.unwrap();
        let status =
            if name == "desk.open" { ToolStatus::InvalidArguments } else { ToolStatus::NotFound };
        assert_eq!(result.status, status, "{name}");
        let by_name = lines(&heard.events());
        assert_eq!(by_name.len(), 2, "{by_name:#?}");
        assert_eq!(by_name[0], format!("tool#1.{at} tool.started {told} -"));
        assert_eq!(by_name[1], format!("tool#1.{at} tool.failed {told} - {}", result.output));
    }
}

/// Middleware that changes arguments, answers a call, or rejects an answer.
struct InterveningMiddleware;

#[async_trait]
impl Middleware for InterveningMiddleware {
    fn name(&self) -> &str {
        "minds"
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        let n = serde_json::from_str::<Value>(&step.arguments).unwrap()["n"].clone();
        match n.as_u64() {
            Some(7) => step.arguments = json!({"n": 8}).to_string(),
            Some(9) => {
                return Ok(Flow::Return(ToolResult::new(
                    step.call(),
                    ToolStatus::Success,
                    "\"nine\"",
                )));
            }
            _ => {}
        }
        Ok(Flow::Continue)
    }

    async fn after_tool(&self, _: &ToolStep, result: &mut ToolResult) -> Result<()> {
        if result.output.contains("6 at") {
            result.output = "\"six\"".to_owned();
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_middleware_does_has_the_events_of_an_agents_call() {
    let heard = EventCollector::default();
    let runtime = test_runtime()
        .sink(heard.clone())
        .with(InterveningMiddleware)
        .tools(tool("desk.open"))
        .build();
    for n in [5, 6, 7, 9] {
        let turns = [Turn::call("desk__open", json!({"n": n})), Turn::text("Done.")];
        let agent =
            Agent::new(ScriptedModel::new(turns)).tools(tool("desk.open")).runtime(&runtime);
        let run = agent.run("Open it.").await.unwrap();
        let bare = |lines: Vec<String>| -> Vec<String> {
            let of_tool = lines.into_iter().filter(|line| line.contains(" tool."));
            // A direct call uses the idempotency key of its context, and an agent's call has its
            // own.
            of_tool.map(|line| line.replace(" under false", " under true")).collect()
        };
        let of_agent = bare(lines(&run.events()));
        assert_eq!(of_agent.len(), 2, "{of_agent:#?}");
        heard.events();
        runtime.invoke(&call("desk.open", json!(n)), &[]).await.unwrap();
        assert_eq!(bare(lines(&heard.events())), of_agent, "{n}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_secret_is_taken_out() {
    let heard = EventCollector::default();
    let redacted = agentflow::middleware::redact().secret("hunter2");
    let runtime =
        test_runtime().sink(heard.clone()).with(redacted).tools(tool("desk.open")).build();
    let secret = ToolCall::new("c", "desk.open", r#"{"n": 1, "word": "hunter2"}"#);
    runtime.invoke(&secret, &[]).await.unwrap();
    runtime.invoke(&ToolCall::new("c", "hunter2", "{}"), &[]).await.unwrap();
    let events = heard.events();
    assert_eq!(events.len(), 4);
    let text = serde_json::to_string(&events).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
}

/// Lets a tool call another tool by name within a run. The sinks get only the events that the run
/// records.
#[tokio::test(start_paused = true)]
async fn in_a_run_nothing_is_told_beside_its_records() {
    let heard = EventCollector::default();
    let mut registry = Registry::new();
    registry.register(tool("desk.open")).unwrap();
    let registry = Arc::new(registry);
    let outer = ToolDefinition::new("outer", "", json!({"type": "object"}));
    let outer = FnTool::dynamic(outer, move |cx: Context, _: Value| {
        let registry = Arc::clone(&registry);
        async move {
            Ok::<_, String>(registry.invoke(&cx, &call("desk.open", json!(3)), &[]).await.output)
        }
    })
    .policy(ToolPolicy::default());
    let runtime = test_runtime().sink(heard.clone()).build();
    let model = ScriptedModel::new([Turn::call("outer", json!({})), Turn::text("Done.")]);
    let run = Agent::new(model).tools(outer).runtime(&runtime).run("Go.").await.unwrap();
    let told = heard.events();
    assert_eq!(lines(&told), lines(&run.events()));
}
