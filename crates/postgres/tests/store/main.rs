//! Tests of [`PostgresStore`](agentflow::store::PostgresStore) with a server on this machine. They
//! are skipped if there is no Postgres and it cannot be installed.

mod cut_connections;
mod notifications;
mod pinned_server;
mod processes;
mod real_processes;
mod rules;
mod server_restarts;
mod setup;
mod throughput;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::store::PostgresStore;
use agentflow::{Event, RunId, serde_json};
use agentflow_tests::PostgresServer;
use serde_json::{Value, json};

/// Time limit of a test.
const LIMIT: Duration = Duration::from_secs(300);

/// Executes a test with a time limit.
async fn in_time<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, test).await.expect("the test ends in time")
}

/// Returns the name of a schema that no other test uses.
fn new_schema() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Connects to a schema with few connections.
async fn connect(server: &PostgresServer, schema: &str) -> PostgresStore {
    // The shared server may be starting.
    drop(server.client("public").await);
    let builder = PostgresStore::builder(server.url()).schema(schema).pool_size(4);
    builder.connect().await.expect("the store can be opened")
}

/// Builds an event of a run.
fn event(run: &RunId, seq: u64, name: &str, payload: &Value) -> Event {
    let time = 1_700_000_000_000_u64 + seq;
    let event = json!({
        "run_id": run, "seq": seq, "time": time, "path": "", "name": name, "payload": payload
    });
    serde_json::from_value(event).expect("it has the form of events")
}

/// Builds the first event of a run.
fn started(run: &RunId) -> Event {
    let workflow = json!({"name": "job", "definition": "d1", "input": {}});
    event(run, 1, "run.started", &json!({"version": 1, "body": {"workflow": workflow}}))
}

/// Builds an event with a text.
fn noted(run: &RunId, seq: u64, text: &str) -> Event {
    event(run, seq, "workflow.node.skipped", &json!({"reason": text}))
}

/// Builds the last event of a run.
fn cancelled(run: &RunId, seq: u64) -> Event {
    event(run, seq, "run.cancelled", &json!({"reason": "enough"}))
}
