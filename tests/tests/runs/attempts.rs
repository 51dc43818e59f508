//! Tests `RunRef::inspect`: it reports the attempts of each node and of its model and tool calls,
//! with times, inputs and outcomes, all from the journal.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::runtime::{AttemptReport, NodeReport, NodeStatus};
use agentflow::store::MemoryStore;
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};
use serde_json::{Value, json};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Fails the first time.
#[tool(effects = "read", retry = 2)]
async fn calls_flaky_read(reads: Inject<AtomicU32>, page: String) -> Result<String, String> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    match reads.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => Err(format!("{page} is not there yet")),
        _ => Ok(format!("this is {page}")),
    }
}

async fn calls_read_within(cx: &Context) -> Result<String, AnyError> {
    Ok(calls_flaky_read(cx.inject()?, "within".to_owned()).await?)
}

/// Summarise {text}.
#[agent]
async fn calls_summary(text: String) -> Result<String>;

#[workflow(name = "attempts-of-calls")]
async fn attempted(cx: &Context, page: String) -> Result<String, AnyError> {
    let node = calls_flaky_read(cx.inject()?, page).await?;
    #[after(node)]
    let within = calls_read_within(cx).await?;
    let agreed = gate!("use {within}?", within).await?;
    let summary =
        calls_summary(format!("{node} {}", matches!(agreed, Approval::Granted { .. }))).await?;
    Ok(summary)
}

/// Returns the number, duration, input, output, error and `answered_by` of the attempt.
fn row(attempt: &AttemptReport) -> (u32, Option<u64>, Value, Value, Option<&str>, Option<&str>) {
    let json = |value: &Option<agentflow::value::Encoded>| {
        value.as_ref().map_or(Value::Null, |value| value.decode::<Value>().unwrap())
    };
    assert_eq!(
        attempt.duration_ms,
        attempt.ended.map(|ended| u64::try_from(ended.since(attempt.began).as_millis()).unwrap())
    );
    let (input, output) = (json(&attempt.input), json(&attempt.output));
    (
        attempt.number,
        attempt.duration_ms,
        input,
        output,
        attempt.error.as_deref(),
        attempt.answered_by.as_deref(),
    )
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_reported_with_what_it_was_given_and_gave() {
    let model = ScriptedModel::new([Turn::text("all is well")]);
    let store = MemoryStore::new();
    let runtime = test_runtime().model(model).resource(AtomicU32::new(0)).store(store).build();
    let handle = runtime.start(attempted::workflow(), ("home".to_owned(),)).await.unwrap();
    let run = handle.run_id().clone();
    within("the run to ask", async {
        while runtime.run(&run).inspect().await.unwrap().run.pause_reason.is_none() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    let nodes = runtime.run(&run).inspect().await.unwrap().nodes;
    let named = |nodes: &[NodeReport], name: &str| {
        nodes.iter().find(|node| node.name == name).cloned().unwrap()
    };
    let open = named(&nodes, "agreed");
    assert_eq!(open.status, NodeStatus::AwaitingApproval);
    assert_eq!(
        open.attempts.iter().map(row).collect::<Vec<_>>(),
        [(1, None, json!("this is within"), Value::Null, None, None)]
    );
    runtime.run(&run).approve("agreed", Approval::granted(), "ada").await.unwrap();
    handle.result().await.unwrap();

    let nodes = runtime.run(&run).inspect().await.unwrap().nodes;
    let node = named(&nodes, "node");
    assert_eq!(
        node.attempts.iter().map(row).collect::<Vec<_>>(),
        [
            (1, Some(1000), Value::Null, Value::Null, Some("home is not there yet"), None),
            (2, Some(1000), Value::Null, json!("this is home"), None, None),
        ]
    );
    assert!(node.calls.is_empty());
    let within = named(&nodes, "within");
    assert_eq!(
        within.attempts.iter().map(row).collect::<Vec<_>>(),
        [(1, Some(2500), Value::Null, json!("this is within"), None, None)]
    );
    let [call] = &within.calls[..] else { panic!("{:#?}", within.calls) };
    assert_eq!(
        (call.path.as_str(), call.status),
        ("within/tool#1.calls_flaky_read", NodeStatus::Success)
    );
    let given = json!({"page": "within"});
    assert_eq!(
        call.attempts.iter().map(row).collect::<Vec<_>>(),
        [
            (1, Some(1000), given.clone(), Value::Null, Some("within is not there yet"), None),
            (2, Some(1000), given, json!("this is within"), None, None),
        ]
    );
    let agreed = named(&nodes, "agreed");
    let [answered] = &agreed.attempts[..] else { panic!("{:#?}", agreed.attempts) };
    assert_eq!((answered.number, answered.answered_by.as_deref()), (1, Some("ada")));
    assert!(answered.ended.is_some() && answered.output.is_some());
    let summary = named(&nodes, "summary");
    let [call] = &summary.calls[..] else { panic!("{:#?}", summary.calls) };
    assert_eq!((call.path.as_str(), call.attempts.len()), ("summary/model#1", 1));
    let message = call.attempts[0].output.as_ref().unwrap().decode::<Message>().unwrap();
    assert_eq!(message.text(), "all is well");
}

#[tokio::test(start_paused = true)]
async fn of_an_agent_its_calls_are_the_nodes() {
    let model = ScriptedModel::new([
        Turn::call("calls_flaky_read", json!({"page": "one"})),
        Turn::text("It is there."),
    ]);
    let store = MemoryStore::new();
    let runtime = test_runtime().resource(AtomicU32::new(0)).store(store).build();
    let agent = Agent::new(model).tools(tools![calls_flaky_read]).runtime(&runtime);
    let result = agent.run("Read it.").await.unwrap();
    let nodes = runtime.run(result.run_id()).inspect().await.unwrap().nodes;
    let names: Vec<(&str, usize)> =
        nodes.iter().map(|node| (node.name.as_str(), node.attempts.len())).collect();
    assert_eq!(names, [("model#1", 1), ("tool#1.calls_flaky_read", 2), ("model#2", 1)]);
    let tool = &nodes[1];
    assert_eq!(tool.status, NodeStatus::Success);
    assert_eq!(row(&tool.attempts[0]).4, Some("one is not there yet"));
    assert_eq!(row(&tool.attempts[1]).3, json!("this is one"));
}

async fn slowly(n: u32) -> Result<u32, AnyError> {
    tokio::time::sleep(Duration::from_secs(10)).await;
    if n == 0 { Err("it is nothing".into()) } else { Ok(n) }
}

#[workflow(name = "reports-of-ended-runs")]
async fn reported(n: u32) -> Result<u32, AnyError> {
    let first = slowly(n).await?;
    let agreed = gate!("use {first}?").await?;
    let second = if agreed.is_granted() { slowly(first).await? } else { 0 };
    Ok(second)
}

/// Returns the nodes of a run that has ended, with their status.
async fn statuses(runtime: &Runtime, run: &agentflow::RunId) -> Vec<(String, NodeStatus)> {
    let report = runtime.run(run).inspect().await.unwrap();
    assert!(report.run.status.has_ended());
    assert!(
        report.nodes.iter().all(|node| node.status != NodeStatus::Pending),
        "{:?}",
        report.nodes
    );
    report.nodes.into_iter().map(|node| (node.name, node.status)).collect()
}

#[tokio::test(start_paused = true)]
async fn no_node_of_an_ended_run_is_pending() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let of = |nodes: &[(String, NodeStatus)], name: &str| {
        nodes.iter().find(|node| node.0 == name).map(|node| node.1)
    };

    let handle = runtime.start(reported::workflow(), 0).await.unwrap();
    handle.result().await.unwrap_err();
    let failed = statuses(&runtime, handle.run_id()).await;
    assert_eq!(of(&failed, "first"), Some(NodeStatus::Failed));
    assert_eq!(of(&failed, "agreed"), Some(NodeStatus::Skipped));

    let handle = runtime.start(reported::workflow(), 1).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel("enough").await.unwrap();
    let cancelled = statuses(&runtime, handle.run_id()).await;
    assert_eq!(of(&cancelled, "first"), Some(NodeStatus::Cancelled));
    assert_eq!(of(&cancelled, "agreed"), Some(NodeStatus::Skipped));
    // A run that can still finish reports the same nodes.
    let handle = runtime.start(reported::workflow(), 1).await.unwrap();
    within("the run to wait for its answer", async {
        while runtime.run(handle.run_id()).inspect().await.unwrap().run.pause_reason.is_none() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    let names: Vec<String> = runtime
        .run(handle.run_id())
        .inspect()
        .await
        .unwrap()
        .nodes
        .into_iter()
        .map(|node| node.name)
        .collect();
    assert_eq!(names, cancelled.iter().map(|node| node.0.clone()).collect::<Vec<_>>());
    // Cancels the run while no process executes it.
    handle.abandon();
    let run = agentflow::RunId::new("run-3");
    runtime.run(&run).cancel("enough").await.unwrap();
    let waited = statuses(&runtime, &run).await;
    assert_eq!(of(&waited, "first"), Some(NodeStatus::Success));
    assert_eq!(of(&waited, "agreed"), Some(NodeStatus::Cancelled));

    let handle =
        runtime.start(reported::workflow(), 1).timeout(Duration::from_secs(5)).await.unwrap();
    handle.result().await.unwrap_err();
    assert_eq!(
        of(&statuses(&runtime, handle.run_id()).await, "first"),
        Some(NodeStatus::Cancelled)
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_has_not_failed() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let agent = Agent::new(ScriptedModel::new([Turn::stall()])).runtime(&runtime);
    let handle = agent.start("Hello").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel("enough").await.unwrap();
    let nodes = statuses(&runtime, handle.run_id()).await;
    assert_eq!(nodes, [("model#1".to_owned(), NodeStatus::Cancelled)]);
}
