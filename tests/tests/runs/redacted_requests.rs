//! Tests redaction of requests to a run that no process executes.

use agentflow::RunId;
use agentflow::middleware::redact;
use agentflow::prelude::*;
use agentflow::serde_json;
use agentflow::store::{LeaseStore, MemoryStore, RunFilter, Store};
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};

/// Opens a door.
#[tool(approve)]
fn redacted_open(door: String) -> String {
    format!("{door} is open")
}

fn id() -> RunId {
    RunId::new("run-1")
}

/// Returns the store of an abandoned run that waits for an answer, and a runtime with a redacted
/// secret.
async fn left() -> (MemoryStore, Runtime) {
    let store = MemoryStore::new();
    let model = ScriptedModel::from_fn(|_| {
        Turn::call("redacted_open", serde_json::json!({"door": "cellar"}))
    });
    let agent = Agent::new(model).name("porter").tools(tools![redacted_open]);
    let runtime = test_runtime()
        .store(store.clone())
        .with(redact().secret("swordfish"))
        .agent(&agent)
        .build();
    let run = runtime.start_agent("porter", "Open it.").await.unwrap();
    within("the run to ask", async {
        while runtime.runs().questions(RunFilter::default()).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    run.abandon();
    within("the run to be closed", async {
        while store.holder(&id()).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    (store, runtime)
}

async fn journal(store: &MemoryStore) -> String {
    serde_json::to_string(&store.read(&id(), 0, 1000).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_secret_in_a_request_to_a_run_at_rest_is_in_no_record() {
    let (store, runtime) = left().await;
    runtime.run(&id()).send_message("The word is swordfish.").await.unwrap();
    runtime
        .run(&id())
        .approve("tool#1.redacted_open", Approval::denied("say swordfish first"), "bob")
        .await
        .unwrap();
    runtime.run(&id()).cancel("swordfish is known to all").await.unwrap();
    let journal = journal(&store).await;
    for kind in ["message.received", "approval.resolved", "run.cancelled"] {
        assert!(journal.contains(kind), "{kind}\n{journal}");
    }
    assert!(!journal.contains("swordfish"), "{journal}");
    assert_eq!(journal.matches("[redacted]").count(), 3, "{journal}");
}
