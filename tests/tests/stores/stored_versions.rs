//! Runs keep the version of the stored document with which they started: after the document was
//! replaced and removed, after a restart, and in another process.

use std::path::Path;

use agentflow::event::RunId;
use agentflow::prelude::*;
use agentflow::store::{RunFilter, SqliteStore};
use agentflow::value::Encoded;
use agentflow::{RunHandle, event::DocumentVersion};
use agentflow_testing::within;
use serde_json::{Value, json};

use crate::stored_documents::{over, put, run, sum};

/// Returns a graph that asks for a number and adds `adds` to the answer.
fn asks(name: &str, adds: i64) -> String {
    format!(
        "name: {name}\noutput: sum\nnodes:\n  - {{name: number, does: {{ask: {{text: which?, answer: {{type: integer}}}}}}}}\n  \
         - name: sum\n    does: {{call: {{kind: tool, name: stored_add, with: {{object: {{a: {{from: number}}, b: {{value: \
         {adds}}}}}}}}}}}\n"
    )
}

/// Returns a graph that calls `asks` and adds one.
fn calls_asks(name: &str, callee: &str) -> String {
    format!(
        "name: {name}\noutput: more\nnodes:\n  - name: asked\n    does: {{call: {{kind: workflow, name: {callee}, with: \
         {{object: {{}}}}}}}}\n  - name: more\n    does: {{call: {{kind: tool, name: stored_add, with: {{object: {{a: \
         {{from: asked}}, b: {{value: 1}}}}}}}}}}\n"
    )
}

async fn open(path: &Path) -> Runtime {
    over(SqliteStore::open(path).await.unwrap())
}

/// Starts a run and waits for its question.
async fn asking(runtime: &Runtime, name: &str, id: &str) -> RunHandle<Encoded> {
    let run = runtime.start_named(name, json!({})).run_id(RunId::new(id)).await.unwrap();
    wait_for_question(runtime, run.run_id()).await;
    run
}

async fn wait_for_question(runtime: &Runtime, id: &RunId) {
    within("the run to ask", async {
        while runtime.run(id).record().await.unwrap().pause_reason.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn version_of(runtime: &Runtime, id: &str) -> DocumentVersion {
    let record = runtime.run(&RunId::new(id)).record().await.unwrap();
    record.document.unwrap().as_ref().clone()
}

/// Answers the question of a run with 10, and returns the output.
async fn answered(runtime: &Runtime, id: &str, node: &str) -> Value {
    let id = RunId::new(id);
    within("the answer", async {
        runtime.run(&id).answer(node, &json!(10), "ada").await.unwrap();
    })
    .await;
    let output = within("the end of the run", runtime.run(&id).output()).await;
    output.unwrap_or_else(|error| panic!("{error}")).decode().unwrap()
}

#[tokio::test]
async fn waiting_runs_keep_their_versions_over_a_replacement_a_removal_and_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let runtime = open(&path).await;
    put(&runtime, "asks", asks("asks", 1)).await;
    let first = asking(&runtime, "asks", "first").await;
    put(&runtime, "asks", asks("asks", 2)).await;
    let second = asking(&runtime, "asks", "second").await;
    // The same values with another comment are another version.
    put(&runtime, "asks", format!("# dearer\n{}", asks("asks", 2))).await;
    let third = asking(&runtime, "asks", "third").await;
    // A run that keeps its process has its version, too.
    put(&runtime, "asks", sum("asks", 1, 1)).await;
    assert_eq!(answered(&runtime, "second", "number").await, json!(12));
    runtime.documents().remove("asks").await.unwrap();
    for (id, version) in [("first", 1), ("second", 2), ("third", 3)] {
        let of_run = version_of(&runtime, id).await;
        let stored = runtime.documents().get("asks", of_run.version).await.unwrap();
        assert_eq!((of_run.version, &of_run.checksum), (version, &stored.record.checksum));
    }
    drop(second);
    first.abandon();
    third.abandon();
    drop(runtime);
    let runtime = open(&path).await;
    let recovered = runtime.recover().await.unwrap();
    assert_eq!((recovered.resumed.len(), recovered.left.len()), (2, 0), "{recovered:?}");
    assert_eq!(answered(&runtime, "first", "number").await, json!(11));
    // Another document has the name now.
    put(&runtime, "asks", asks("asks", 100)).await;
    recovered.resumed.into_iter().for_each(RunHandle::abandon);
    drop(runtime);
    let runtime = open(&path).await;
    let resumed = runtime.run(&RunId::new("third")).resume().await.unwrap();
    assert_eq!(answered(&runtime, "third", "number").await, json!(12));
    drop(resumed);
    assert_eq!(version_of(&runtime, "third").await.version, 3);
    let handle = asking(&runtime, "asks", "fourth").await;
    assert_eq!(version_of(&runtime, "fourth").await.version, 5);
    assert_eq!(answered(&runtime, "fourth", "number").await, json!(110));
    drop(handle);
}

#[tokio::test]
async fn a_started_version_is_kept_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let runtime = open(&path).await;
    put(&runtime, "asks", asks("asks", 1)).await;
    put(&runtime, "asks", asks("asks", 2)).await;
    let start = runtime.start_named("asks", json!({})).version(1).run_id(RunId::new("old"));
    let handle = start.await.unwrap();
    wait_for_question(&runtime, handle.run_id()).await;
    handle.abandon();
    drop(runtime);
    let runtime = open(&path).await;
    let recovered = runtime.recover().await.unwrap();
    assert_eq!(recovered.left.len(), 0, "{recovered:?}");
    assert_eq!(answered(&runtime, "old", "number").await, json!(11));
    assert_eq!(version_of(&runtime, "old").await.version, 1);
}

#[tokio::test]
async fn a_run_keeps_the_versions_of_called_documents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let runtime = open(&path).await;
    put(&runtime, "inner", asks("inner", 1)).await;
    put(&runtime, "outer", calls_asks("outer", "inner")).await;
    let handle = asking(&runtime, "outer", "run").await;
    put(&runtime, "inner", asks("inner", 50)).await;
    runtime.documents().remove("outer").await.unwrap();
    handle.abandon();
    drop(runtime);
    let runtime = open(&path).await;
    let recovered = runtime.recover().await.unwrap();
    assert_eq!(recovered.left.len(), 0, "{recovered:?}");
    let questions = runtime.runs().questions(RunFilter::new()).await.unwrap();
    let node = questions[0].path.clone();
    assert_eq!(answered(&runtime, "run", &node).await, json!(12));
}

#[tokio::test]
async fn a_file_keeps_documents_for_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let runtime = open(&path).await;
    for n in 1..=3 {
        put(&runtime, "price", sum("price", n, n)).await;
    }
    // Another handle of the file, as another process has it.
    let other = open(&path).await;
    assert_eq!(run(&other, "price").await, json!(6));
    put(&other, "price", sum("price", 5, 5)).await;
    runtime.documents().refresh().await.unwrap();
    assert_eq!(run(&runtime, "price").await, json!(10));
    drop((runtime, other));
    let runtime = open(&path).await;
    assert_eq!(run(&runtime, "price").await, json!(10));
    assert_eq!(runtime.documents().versions("price", None, 9).await.unwrap().len(), 4);
    // A text that was changed behind the store's back is noticed.
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE document_versions SET text = x'41' WHERE version = 4", []).unwrap();
    let error = runtime.documents().get("price", None).await.unwrap_err();
    assert!(error.to_string().contains("does not have its checksum"), "{error}");
    let next = open(&path).await;
    let error = next.start_named("price", json!({})).await.err().unwrap();
    assert!(error.to_string().contains("price"), "{error}");
    assert_eq!(put(&next, "price", sum("price", 1, 1)).await.version, 5);
    assert_eq!(run(&next, "price").await, json!(2));
}
