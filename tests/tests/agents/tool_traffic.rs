//! Limits on tool calls across all runs: rate limits, circuit breakers, and the sizes of outputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::agent::{LargeOutputs, Limits};
use agentflow::event::EventKind;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::middleware::{circuit_breaker, rate_limit};
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, Tool, ToolOutput};
use agentflow::views::AgentEvents;
use agentflow_testing::{ScriptedModel, Turn, test_runtime};

fn counting(name: &str, calls: &Arc<AtomicU32>, fails: u32) -> FnTool {
    let calls = Arc::clone(calls);
    FnTool::new(name, "Count.", move |_, (): ()| {
        let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
        async move { if call <= fails { Err(format!("failure {call}")) } else { Ok(call) } }
    })
}

fn call(name: &str) -> ToolCall {
    ToolCall::new("1", name, "{}")
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_tool_wait_for_the_rate_and_others_do_not() {
    let calls = Arc::new(AtomicU32::new(0));
    let minute = Duration::from_secs(60);
    let runtime = test_runtime()
        .tools([counting("search", &calls, 0), counting("other", &calls, 0)])
        .with(rate_limit(2, minute).tools(["search"]))
        .build();
    let began = tokio::time::Instant::now();
    for _ in 0..2 {
        runtime.invoke(&call("search"), &[]).await.unwrap();
    }
    for _ in 0..5 {
        runtime.invoke(&call("other"), &[]).await.unwrap();
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    runtime.invoke(&call("search"), &[]).await.unwrap();
    assert_eq!(began.elapsed(), minute);

    // The limit applies to the tool calls of an agent, not to model calls.
    let model = ScriptedModel::new([
        Turn::calls([("search", json!({})), ("search", json!({}))]),
        Turn::text("a"),
        Turn::text("b"),
        Turn::text("c"),
    ]);
    let agent = Agent::new(model).tools([counting("search", &calls, 0)]).runtime(&runtime);
    for _ in 0..3 {
        agent.run("Go.").await.unwrap();
    }
    assert_eq!(began.elapsed(), 2 * minute);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_keeps_failing_is_left_alone() {
    let calls = Arc::new(AtomicU32::new(0));
    let runtime = test_runtime()
        .tools([counting("search", &calls, 3)])
        .with(circuit_breaker(2, Duration::from_secs(30)).tools(["search"]))
        .build();
    for at in 1..=2 {
        assert_eq!(
            runtime.invoke(&call("search"), &[]).await.unwrap().output,
            format!("failure {at}")
        );
    }
    let refused = runtime.invoke(&call("search"), &[]).await.unwrap();
    assert_eq!(refused.status, ToolStatus::Error);
    assert_eq!(
        refused.output,
        "`search` has failed too often and is left alone for 30s; do without it until then"
    );
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(runtime.invoke(&call("search"), &[]).await.unwrap().output, "failure 3");
    assert!(runtime.invoke(&call("search"), &[]).await.unwrap().output.contains("left alone"));
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(runtime.invoke(&call("search"), &[]).await.unwrap().output, "4");
    assert_eq!(runtime.invoke(&call("search"), &[]).await.unwrap().output, "5");
    assert_eq!(calls.load(Ordering::SeqCst), 5);
}

/// Fetch a page.
#[tool(streaming, scopes(network))]
async fn fetch_streamed(page: String) -> String {
    page
}

#[test]
fn definitions_and_the_catalogue_say_what_streams_and_what_is_needed() {
    let written = json!(**tools![fetch_streamed][0].definition());
    assert_eq!(written["supports_streaming"], true);
    assert_eq!(written["required_permissions"], json!(["network"]));
    let streamed = FnTool::streaming("count", "Count.", |_, (): ()| {
        futures_util::stream::iter(["one"].map(Ok::<_, std::io::Error>))
    });
    assert!(streamed.definition().supports_streaming);
    assert!(
        !FnTool::new("plain", "", |_, (): ()| async { Ok::<_, String>(()) })
            .definition()
            .supports_streaming
    );
}

#[tokio::test(start_paused = true)]
async fn results_and_events_say_how_large_an_answer_is() {
    let long = "x".repeat(1000);
    let say = FnTool::new("say", "Say.", move |_, (): ()| {
        let answer = ToolOutput::text(&long).with_text("short");
        async move { Ok::<_, String>(answer) }
    });
    let runtime = test_runtime().store(MemoryStore::new()).tools([say]).build();
    let result = runtime.invoke(&call("say"), &[]).await.unwrap();
    // The JSON string with its quotes, plus the text for the model.
    assert_eq!(result.output_size(), 1002 + 5);

    let plain =
        FnTool::new("plain", "Say.", |_, (): ()| async { Ok::<_, String>("y".repeat(500)) });
    let model = ScriptedModel::new([Turn::call("plain", json!({})), Turn::text("Done.")]);
    let limits = Limits::default().large_outputs(LargeOutputs::over(100).head(10));
    let run =
        Agent::new(model).tools([plain]).settings(limits).runtime(&runtime).start("Go.").unwrap();
    run.result().await.unwrap();
    let events = run.recorded();
    let ended =
        events.iter().find(|event| matches!(event.kind, EventKind::ToolCompleted { .. })).unwrap();
    // An output that is saved as an artifact counts with its full size.
    assert_eq!(ended.kind.output_size(), Some(500));
    let shown = AgentEvents::of(&events)
        .into_iter()
        .find(|event| !event.tool_responses.is_empty())
        .unwrap();
    assert_eq!(shown.metadata["output_size"], json!(500));
    assert_eq!(events[0].kind.output_size(), None);
}
