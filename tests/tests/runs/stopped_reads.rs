//! Tests the message about a call that was interrupted: the effect is unknown if the tool has
//! effects. The process that stops the run may not have the tool.

use std::sync::Arc;
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::run::RunResult;
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, Store};
use agentflow::tool::{Effects, FnTool, ToolDefinition, ToolPolicy};
use agentflow::{Event, RunHandle, RunId};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime};

use crate::store::{Cut, MortalStore};

const UNKNOWN: &str = "whether it had its effect is unknown";

fn waits(effects: Effects) -> FnTool {
    let definition = ToolDefinition::new("stopped.waits", "Waits.", json!({"type": "object"}));
    FnTool::dynamic(definition, |_, _: Value| std::future::pending::<Result<u32, String>>())
        .policy(ToolPolicy::default().effects(effects))
}

/// Starts a run whose agent calls a tool that never answers.
fn begun(runtime: &Runtime, effects: Effects) -> RunHandle<RunResult<String>> {
    let model = ScriptedModel::from_fn(|_| Turn::call("stopped__waits", json!({})));
    let agent = Agent::new(model).name("stopped").tools(waits(effects)).runtime(runtime);
    agent.start(RunRequest::new("Wait.").run_id(RunId::new("run"))).unwrap()
}

/// Returns the messages about interrupted calls.
fn said(events: &[Event]) -> Vec<String> {
    let of = |event: &Event| match &event.kind {
        EventKind::ToolFailed { result, .. } => Some(result.output.clone()),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

const ALL: [(Effects, &str); 3] = [
    (Effects::None, "it changes nothing"),
    (Effects::Read, "it changes nothing"),
    (Effects::Write, UNKNOWN),
];

#[tokio::test(start_paused = true)]
async fn a_program_without_the_tools_says_what_is_known_of_the_call_that_it_stops() {
    let id = RunId::new("run");
    for (effects, known) in ALL {
        let mut found = 0;
        for write in 1..10 {
            let kept: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let store = MortalStore::new(&kept, Some(Cut { write, kept: true }));
            let first = test_runtime().store(store.clone()).build();
            let _run = begun(&first, effects);
            if tokio::time::timeout(Duration::from_secs(60), store.died()).await.is_err() {
                break;
            }
            let second = test_runtime().store(MortalStore::new(&kept, None)).build();
            if kept.record(&id).await.unwrap().is_none() {
                continue;
            }
            second.run(&id).cancel("enough").await.unwrap();
            let events = second.run(&id).journal().await.unwrap();
            check_events(&events).unwrap();
            for said in said(&events) {
                assert!(said.ends_with(known), "{effects:?}, write {write}: {said}");
                found += 1;
            }
        }
        assert!(found > 0, "{effects:?}");
        let runtime = test_runtime().store(MemoryStore::new()).build();
        let run = begun(&runtime, effects);
        tokio::time::sleep(Duration::from_secs(60)).await;
        run.cancel("enough").await.unwrap();
        let said = said(&runtime.run(&id).journal().await.unwrap());
        assert!(said.len() == 1 && said[0].ends_with(known), "{said:?}");
    }
}

/// Waits, and reads.
#[tool(effects = "read")]
async fn stopped_looks() -> u32 {
    std::future::pending().await
}

/// Waits, and writes.
#[tool]
async fn stopped_writes() -> u32 {
    std::future::pending().await
}

async fn stopped_both() -> (u32, u32) {
    tokio::join!(stopped_looks(), stopped_writes())
}

#[workflow]
async fn stopped_in_step() -> Result<u32> {
    let both = stopped_both().await;
    Ok(both.0 + both.1)
}

#[tokio::test(start_paused = true)]
async fn so_it_is_of_calls_in_a_step() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run =
        runtime.start(stopped_in_step::workflow(), ()).run_id(RunId::new("steps")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.cancel("enough").await.unwrap();
    let mut said = said(&runtime.run(run.run_id()).journal().await.unwrap());
    said.sort_unstable();
    let says = ["it changes nothing", UNKNOWN];
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(said.iter().zip(says).all(|(said, says)| said.ends_with(says)), "{said:#?}");
}
