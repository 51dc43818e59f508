//! Artifacts: saved in steps and tools, listed and read by run, deleted with the run, and unchanged
//! after a crash at every write.

use std::path::Path;

use agentflow::agent::RunRequest;
use agentflow::artifact::ArtifactRef;
use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::{ArtifactStore, MemoryStore, SqliteStore, Store, StoreErrorKind};
use agentflow::workflow::{Builder, Handle, Node, NodePolicy, OnError, RetryPolicy};
use agentflow::{Error, RunId, Workflow};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, test_runtime};
use serde_json::json;

/// Adds a step that saves a version. It returns the previous content and the saved one.
fn saves(b: &mut Builder, node: &'static str, reads: Handle<String>) -> Handle<String> {
    b.node(node, (reads,), move |cx, (before,)| async move {
        let seen =
            cx.artifact("notes.txt").await?.map(|seen| seen.text().unwrap_or_default().to_owned());
        let saved = cx.save_artifact(
            "notes.txt",
            format!("{}{node}", seen.clone().unwrap_or_default()),
            "text/plain",
        );
        let saved = saved.await?;
        let own = cx.artifact("notes.txt").await?.map(|own| own.reference);
        assert_eq!(own.as_ref(), Some(&saved), "a step sees what it saved");
        Ok::<_, Error>(format!("{before}|{seen:?}"))
    })
}

fn flow() -> Workflow<(String,), String> {
    Workflow::build("state_artifacts", ["go"], |b, (go,)| {
        let a = saves(b, "a", go);
        let skip =
            NodePolicy::default().on_error(OnError::Skip).retry_policy(RetryPolicy::retries(1));
        let _: Handle<String> =
            b.node(Node::new("fails").policy(skip), (a,), |cx, (_,)| async move {
                cx.save_artifact("lost.txt", "lost", "text/plain").await?;
                Err(Error::Lost { reason: "it failed".to_owned() })
            });
        let left = saves(b, "b", a);
        let right = saves(b, "c", a);
        let both = b.value("both", (left, right), |(left, right): (String, String)| {
            Ok::<_, String>(format!("{left} {right}"))
        });
        saves(b, "d", both)
    })
    .unwrap()
}

const SEEN: &str = r#"|None|Some("a") |None|Some("a")|Some("ac")"#;

/// Executes a run and returns its id.
async fn done(runtime: &Runtime) -> RunId {
    let run = runtime.start(flow(), String::new()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), SEEN);
    run.run_id().clone()
}

async fn is_kept(store: impl Store + ArtifactStore + Clone) {
    let runtime = test_runtime().store(store.clone()).build();
    let run = done(&runtime).await;
    let artifacts = runtime.run(&run).artifacts().await.unwrap();
    let names: Vec<&str> = artifacts.iter().map(|artifact| &*artifact.name).collect();
    assert_eq!(names, ["notes.txt"; 4], "that of a step that failed is not one");
    let last: &ArtifactRef = artifacts.last().unwrap();
    assert_eq!((&*last.media_type, last.size), ("text/plain", 3));
    let newest = runtime.run(&run).artifact("notes.txt", None).await.unwrap().unwrap();
    assert_eq!((newest.text().unwrap(), &newest.reference), ("acd", last));
    let first = runtime.run(&run).artifact("notes.txt", Some(1)).await.unwrap().unwrap();
    assert_eq!(first.text().unwrap(), "a");
    assert_eq!(runtime.run(&run).artifact("notes.txt", Some(99)).await.unwrap(), None);
    assert_eq!(runtime.run(&run).artifact("lost.txt", None).await.unwrap(), None);
    let hash = &newest.reference.sha256;
    assert!(store.artifact(&run, hash).await.unwrap().is_some());
    runtime.run(&run).delete().await.unwrap();
    assert!(
        store.artifact(&run, hash).await.unwrap().is_none(),
        "deleting a run deletes its artifacts"
    );
}

#[tokio::test(start_paused = true)]
async fn they_are_kept_with_their_run_and_deleted_with_it() {
    is_kept(MemoryStore::new()).await;
    CrashTest::new(&flow(), String::new).run().await;
}

#[tokio::test]
async fn they_are_kept_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    is_kept(SqliteStore::open(&path).await.unwrap()).await;
    // Modified bytes in the file are reported, not returned.
    let store = SqliteStore::open(&path).await.unwrap();
    let runtime = test_runtime().store(store).build();
    let run = done(&runtime).await;
    raw(&path, "UPDATE artifacts SET bytes = x'00'");
    let error = runtime.run(&run).artifact("notes.txt", None).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::from(StoreErrorKind::Damaged.as_str()), "{error}");
    raw(&path, "DELETE FROM artifacts");
    let error = runtime.run(&run).artifact("notes.txt", None).await.unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the artifact \"notes.txt\": the store does not have the bytes of version "
        ),
        "{error}"
    );
}

fn raw(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Saves a page.
#[tool(idempotent)]
async fn state_page(cx: &Context, text: String) -> Result<String> {
    let page = cx.save_artifact("page.md", text, "text/markdown").await?;
    Ok(page.to_string())
}

/// How long the page is.
#[tool(effects = "read")]
async fn state_page_size(cx: &Context) -> Result<Option<usize>> {
    Ok(cx.artifact("page.md").await?.map(|page| page.bytes.len()))
}

#[tokio::test(start_paused = true)]
async fn the_tools_of_an_agent_save_and_read_them() {
    let agent = || {
        let model = ScriptedModel::from_fn(|request| {
            let results = request.messages.messages().iter().flat_map(|message| message.results());
            let said: Vec<String> = results.map(|result| result.output.to_string()).collect();
            match said.len() {
                0 => Turn::calls([
                    ("state_page", json!({"text": "one"})),
                    ("state_page", json!({"text": "three"})),
                ]),
                2 => Turn::call("state_page_size", json!({})),
                _ => Turn::text(said.last().cloned().unwrap_or_default()),
            }
        });
        Agent::new(model).tools(tools![state_page, state_page_size])
    };
    // Without a store the bytes are kept in memory.
    assert_eq!(agent().run("Write.").await.unwrap().output(), "5");
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let end = agent().runtime(&runtime).run("Write.").await.unwrap();
    let versions: Vec<u32> = runtime
        .run(end.run_id())
        .artifacts()
        .await
        .unwrap()
        .iter()
        .map(|page| page.version)
        .collect();
    assert_eq!(versions, [1, 2]);
    let events = runtime.run(end.run_id()).journal().await.unwrap();
    let saved = events.iter().find_map(|event| match &event.kind {
        EventKind::ToolCompleted { saved: Some(saved), .. } => {
            Some(serde_json::to_value(saved).unwrap())
        }
        _ => None,
    });
    let sha256 = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    let page = json!({"name": "page.md", "version": 1, "media_type": "text/markdown", "size": 3, "sha256": sha256});
    assert_eq!(saved.unwrap()["artifacts"], json!([page]));
    CrashTest::agent(&agent(), || "Write.").run().await;
}

#[tokio::test(start_paused = true)]
async fn those_of_a_run_without_a_store_are_read_by_its_handle_and_its_result() {
    for runtime in [test_runtime().build(), test_runtime().store(MemoryStore::new()).build()] {
        let run = runtime.start(flow(), String::new()).await.unwrap();
        run.result().await.unwrap();
        let names: Vec<String> =
            run.artifacts().iter().map(|artifact| artifact.name.to_string()).collect();
        assert_eq!(names, ["notes.txt"; 4], "that of a step that failed is not one");
        assert_eq!(run.artifact("notes.txt", None).await.unwrap().unwrap().text().unwrap(), "acd");
        assert_eq!(run.artifact("notes.txt", Some(1)).await.unwrap().unwrap().text().unwrap(), "a");
        assert_eq!(run.artifact("lost.txt", None).await.unwrap(), None);

        let model = ScriptedModel::new([
            Turn::call("state_page", json!({"text": "tea"})),
            Turn::text("done"),
        ]);
        let agent = Agent::new(model).tools(tools![state_page]).runtime(&runtime);
        let result = agent.run(RunRequest::new("Write.").trace_id("t-1")).await.unwrap();
        let saved = result.artifacts();
        assert_eq!(saved.len(), 1, "{saved:?}");
        let page = result.artifact(&saved[0].name, None).await.unwrap().unwrap();
        assert_eq!((page.text().unwrap(), result.trace_id()), ("tea", Some("t-1")));
        assert_eq!(result.artifact("nothing", None).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_wrong_use_is_a_sentence() {
    let cx = Context::detached();
    let long = "n".repeat(100_000);
    for name in ["", "../x", "a//b", "/etc/passwd", "a\\b", "c:x", "line\nbreak", &long] {
        let error = cx.save_artifact(name, "x", "text/plain").await.unwrap_err().to_string();
        assert!(error.len() < 400, "a model reads it: {} bytes", error.len());
        assert!(error.contains("is not a name; give one such as `report.md`"), "{error}");
    }
    for media in ["", "text", "text/", "text/pl ain", "a/b\n"] {
        let error = cx.save_artifact("a", "x", media).await.unwrap_err().to_string();
        assert!(error.contains("is not a media type; give one such as `text/markdown`"), "{error}");
    }
    let error =
        cx.save_artifact("a", vec![0; (64 << 20) + 1], "text/plain").await.unwrap_err().to_string();
    assert!(error.ends_with("more than the 67108864 of one artifact; save it in parts"), "{error}");
    assert_eq!(cx.artifact("a").await.unwrap(), None);
    let saved = cx.save_artifact("a", vec![7; 1 << 20], "text/plain; charset=utf-8").await.unwrap();
    assert_eq!((saved.version, saved.size), (1, 1 << 20));
    assert_eq!(cx.artifact("a").await.unwrap().unwrap().bytes.len(), 1 << 20);
}
