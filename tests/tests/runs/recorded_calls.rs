//! Tests `record_calls`: if a node consists of a tool call, the journal and the views made from it
//! contain the arguments.

use agentflow::Event;
use agentflow::event::EventKind;
use agentflow::middleware::redact;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::MemoryStore;
use agentflow::views::{AgentEvents, TaskChunkKind, TaskChunks};
use agentflow_testing::{CrashTest, check_events, test_runtime};

/// Send a parcel.
#[tool]
async fn recorded_send(street: String, grams: u32) -> String {
    format!("{grams} grams to {street}")
}

#[workflow]
async fn recorded_parcel(street: String) -> Result<String> {
    let sent = recorded_send(street, 500).await;
    Ok(sent)
}

fn arguments(events: &[Event]) -> Vec<String> {
    let of = |event: &Event| match &event.kind {
        EventKind::ToolStarted { call, .. } => Some(format!("{} {}", event.path, call.arguments)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn the_arguments_of_a_node_that_is_a_call_are_recorded() {
    let runtime = |records| {
        let runtime = test_runtime().store(MemoryStore::new()).with(redact().secret("Elm Street"));
        runtime.record_calls(records).build()
    };
    let run =
        runtime(true).start(recorded_parcel::workflow(), "7 Elm Street".to_owned()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "500 grams to 7 Elm Street");
    let events = run.recorded();
    check_events(&events).unwrap();
    assert_eq!(
        arguments(&events),
        [r#"sent/tool#1.recorded_send {"grams":500,"street":"7 [redacted]"}"#]
    );
    let calls: Vec<_> =
        AgentEvents::of(&events).into_iter().flat_map(|event| event.tool_calls).collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["args"], json!({"grams": 500, "street": "7 [redacted]"}));
    let chunks = TaskChunks::of(&events);
    assert_eq!(
        chunks.iter().filter(|chunk| chunk.chunk_type == TaskChunkKind::ToolCallRequest).count(),
        1
    );

    // Without the setting, only the node's events represent the call.
    let run =
        runtime(false).start(recorded_parcel::workflow(), "7 Elm Street".to_owned()).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(arguments(&run.recorded()), [""; 0]);
    assert!(
        run.recorded()
            .iter()
            .any(|event| matches!(event.kind, EventKind::NodeStarted { tool: Some(_), .. }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_with_recorded_calls_continues_after_each_crash() {
    let report = CrashTest::new(&recorded_parcel::workflow(), || "a".to_owned())
        .runtime(|runtime| runtime.record_calls(true))
        .twice()
        .run()
        .await;
    assert!(report.crashes() > 5, "{report}");
}
