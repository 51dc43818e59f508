//! Deleted data is gone from the files: no byte remains in a free page, in a full-text index or in
//! a neighboring file.

use std::path::Path;

use agentflow::RunId;
use agentflow::agent::RunRequest;
use agentflow::memory::{Memory, MemoryEntry, SqliteMemory};
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::{Append, MessageStore, RunFilter, SqliteStore, Store};
use agentflow::time::Timestamp;
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};
use agentflow_tests::journal::started;

/// Letters only, so that a full-text index keeps the word unchanged.
const SECRET: &str = "swordfish";

/// Counts the occurrences of the secret in the files of a folder, by file name.
fn found(folder: &Path) -> Vec<String> {
    let mut places = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            places.extend(found(&path));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let count =
            bytes.windows(SECRET.len()).filter(|window| *window == SECRET.as_bytes()).count();
        if count > 0 {
            places.push(format!("{} {count}", path.file_name().unwrap().to_string_lossy()));
        }
    }
    places
}

/// Stores a text in every way that a run has.
#[tool(idempotent)]
async fn deleted_keeps(cx: &Context, text: String) -> Result<String> {
    let key: StateKey<String> = "text".parse().expect("a key");
    cx.set(&key, &text)?;
    cx.save_artifact("small.txt", text.clone(), "text/plain").await?;
    cx.save_artifact("large.txt", text.repeat(20_000), "text/plain").await?;
    Ok(text.repeat(2_000))
}

#[tokio::test]
async fn of_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    let model =
        ScriptedModel::from_fn(|request| match request.messages.last().unwrap().results().next() {
            None => Turn::call("deleted_keeps", json!({"text": SECRET})),
            Some(_) => Turn::text(format!("{SECRET} is kept")),
        });
    let agent = Agent::new(model).name("deleted_keeper").tools(tools![deleted_keeps]);
    let runtime = test_runtime().store(store).agent(&agent).build();
    for turn in 0..3 {
        let text = format!("{turn} {SECRET} {}", SECRET.repeat(500));
        let request = RunRequest::new(text).session("s").tag("word", SECRET).caller("ada");
        runtime.start_agent("deleted_keeper", request).await.unwrap().result().await.unwrap();
    }
    assert!(!found(folder.path()).is_empty(), "the test looks where it is");
    runtime.sessions().delete("s").await.unwrap();
    assert_eq!(runtime.runs().list(RunFilter::new()).await.unwrap(), []);
    drop((runtime, agent));
    let left = left_after_close(folder.path()).await;
    assert_eq!(left, Vec::<String>::new());
}

/// Returns the places that remain after the last handle has merged the log into the file.
async fn left_after_close(folder: &Path) -> Vec<String> {
    let log = folder.join("runs.db-wal");
    for _ in 0..1000 {
        if !log.exists() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    found(folder)
}

#[tokio::test]
async fn of_a_request_and_its_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    let model = ScriptedModel::from_fn(|_| Turn::stall());
    let agent = Agent::new(model).name("deleted_staller");
    let runtime = test_runtime().store(store.clone()).agent(&agent).build();
    let run = runtime.start_agent("deleted_staller", "go").await.unwrap();
    let sent = store
        .send(run.run_id(), json!({"nobody_knows": SECRET.repeat(3000)}).to_string())
        .await
        .unwrap();
    within("the message to be answered", async {
        while store.outcome(sent).await.unwrap().is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!found(folder.path()).is_empty(), "the test looks where it is");
    store.withdraw(sent).await.unwrap();
    run.cancel("enough").await.unwrap();
    let _ = run.result().await;
    drop((run, runtime, agent, store));
    assert_eq!(left_after_close(folder.path()).await, Vec::<String>::new());
}

#[tokio::test]
async fn of_a_memory() {
    let folder = tempfile::tempdir().unwrap();
    let memory = SqliteMemory::open(folder.path().join("memory.db")).await.unwrap();
    for number in 0..50 {
        let text = format!("{SECRET} number {number} {}", "and more ".repeat(number));
        memory
            .save(
                "ada",
                MemoryEntry::new(format!("{number}"), text.as_str(), Timestamp::from_millis(1)),
            )
            .await
            .unwrap();
    }
    memory.save("bob", MemoryEntry::new("1", "tea", Timestamp::from_millis(1))).await.unwrap();
    assert!(!found(folder.path()).is_empty(), "the test looks where it is");
    memory.delete("ada", "7").await.unwrap();
    memory.delete_user("ada").await.unwrap();
    assert_eq!(memory.search("bob", &"tea".into()).await.unwrap().len(), 1);
    drop(memory);
    assert_eq!(found(folder.path()), Vec::<String>::new());
}

/// The process that left a request may end before it reads the outcome.
#[tokio::test]
async fn of_an_outcome_that_nobody_has_read_for_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let (run, other) = (RunId::new("asked"), RunId::new("other"));
    let epoch = store.create(&run, vec![started(&run)]).await.unwrap();
    store.create(&other, vec![started(&other)]).await.unwrap();
    let (old, young) = (
        store.send(&run, "one".to_owned()).await.unwrap(),
        store.send(&run, "two".to_owned()).await.unwrap(),
    );
    let answer = Append::new(1, Vec::new()).answering(old, SECRET).answering(young, "young");
    store.append(&run, epoch, answer).await.unwrap();
    let outcome = async |message| store.outcome(message).await.unwrap();
    store.send(&other, "three".to_owned()).await.unwrap();
    assert_eq!(
        (outcome(old).await.as_deref(), outcome(young).await.as_deref()),
        (Some(SECRET), Some("young"))
    );
    let elsewhere = rusqlite::Connection::open(&path).unwrap();
    let an_hour_ago =
        "UPDATE messages SET answered = answered - 3600001 WHERE outcome = 'swordfish'";
    assert_eq!(elsewhere.execute(an_hour_ago, []).unwrap(), 1);
    drop(elsewhere);
    store.send(&other, "four".to_owned()).await.unwrap();
    assert_eq!((outcome(old).await, outcome(young).await.as_deref()), (None, Some("young")));
    drop(store);
    assert_eq!(left_after_close(folder.path()).await, Vec::<String>::new());
}
