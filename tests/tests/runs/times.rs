//! Tests the times of a run's events: they never go back, and consecutive events without work in
//! between have the same time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::store::MemoryStore;
use agentflow::time::{Clock, Timestamp};
use agentflow::tool::FnTool;
use agentflow::workflow::Node;
use agentflow::{Agent, Context, Event, Runtime, Workflow};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::json;

/// A clock that advances by a millisecond at each reading.
#[derive(Debug, Default)]
struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1000 + self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Returns a tool that reads the clock five times.
fn slow(name: &str) -> FnTool {
    FnTool::new(name.to_owned(), "Takes its time.", |cx: Context, (): ()| async move {
        for _ in 0..5 {
            cx.now();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok::<_, String>(())
    })
}

fn times(events: &[Event]) -> Vec<(String, u64)> {
    let line =
        |event: &Event| (format!("{} {}", event.path, event.kind.name()), event.time.as_millis());
    events.iter().map(line).collect()
}

fn never_go_back(events: &[Event]) {
    let times = times(events);
    assert!(times.is_sorted_by_key(|(_, time)| *time), "{times:#?}");
}

async fn of_agent(runtime: &Runtime) -> Vec<Event> {
    let model = ScriptedModel::new([
        Turn::call("one", json!({})).and_call("other", json!({})),
        Turn::call("one", json!({})),
        Turn::text("done"),
    ]);
    let agent =
        Agent::new(model).tools([slow("one"), slow("other")]).runtime(runtime).build().unwrap();
    agent.run("go").await.unwrap().events()
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_turn_and_the_next_call_of_the_model_have_one_time() {
    let events = of_agent(&test_runtime().clock(TickingClock::default()).build()).await;
    never_go_back(&events);
    let times = times(&events);
    let ended = times.iter().position(|(line, _)| line == "tool#2.one tool.completed").unwrap();
    let [ended, over, asked] = &times[ended..ended + 3] else { unreachable!() };
    assert_eq!((&*over.0, &*asked.0), (" run.step", "model#3 model.started"));
    assert!(ended.1 < over.1 && over.1 == asked.1, "{times:#?}");
    // A tool call takes time, so its events differ in time.
    for event in &events {
        if let EventKind::ToolCompleted { duration_ms, .. } = &event.kind {
            assert!(*duration_ms >= 5, "{duration_ms}, {times:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn times_of_a_run_with_a_store_never_go_back() {
    let runtime = test_runtime().clock(TickingClock::default()).store(MemoryStore::new()).build();
    never_go_back(&of_agent(&runtime).await);
}

#[tokio::test(start_paused = true)]
async fn times_of_a_workflow_never_go_back() {
    let flow =
        Workflow::<(u64,), u64>::build("flow", ["n"], |b, (n,)| {
            let step = |cx: Context, n: u64| async move {
                cx.now();
                tokio::time::sleep(Duration::from_secs(n)).await;
                Ok::<_, String>(cx.now().as_millis() - 1000)
            };
            let first = b.node(Node::new("first"), (n,), move |cx, (n,)| step(cx, n));
            let second = b.node(Node::new("second"), (first,), move |cx, (n,)| step(cx, n));
            let beside = b.node(Node::new("beside"), (first,), move |cx, (n,)| step(cx, 2 * n));
            b.node(Node::new("last"), (second, beside), |_, (n, m)| async move {
                Ok::<_, String>(n.max(m))
            })
        })
        .unwrap();
    for durable in [false, true] {
        let runtime = test_runtime().clock(TickingClock::default());
        let runtime = if durable { runtime.store(MemoryStore::new()) } else { runtime }.build();
        let handle = runtime.start(flow.clone(), 1).await.unwrap();
        handle.result().await.unwrap();
        never_go_back(&handle.recorded());
    }
}
