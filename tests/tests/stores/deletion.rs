//! Deleting an unfinished run. Damaged events, events of a newer release and pending compensations
//! do not prevent it, but are reported.

use std::path::Path;
use std::time::Duration;

use agentflow::Error;
use agentflow::error::FailureKind;
use agentflow::event::{Event, RunId};
use agentflow::prelude::*;
use agentflow::runtime::UndoStatus;
use agentflow::store::{MemoryStore, RunFilter, RunStatus, SqliteStore, Store, StoreErrorKind};
use agentflow_testing::{test_runtime, within};
use rusqlite::Connection;
use serde_json::json;

/// Rents something.
#[tool(compensate = deletion_give_back)]
async fn deletion_rent(what: String) -> String {
    what
}

/// Gives it back.
#[tool]
async fn deletion_give_back(what: String, output: String) -> bool {
    what == output
}

#[workflow(name = "deletion-waits")]
async fn deletion_waits(what: String) -> Result<String> {
    let rented = deletion_rent(what).await;
    let open: String = gate!("go on?", rented).await?;
    Ok(open)
}

/// Creates a run that waits at its gate and that no process executes.
async fn at_rest(store: impl Store + Clone, compensate: bool) -> RunId {
    let runtime = test_runtime().store(store).build();
    let start = runtime.start(deletion_waits::workflow(), "a boat".to_owned());
    let start = if compensate { start.compensate() } else { start };
    let run = start.await.unwrap();
    let id = run.run_id().clone();
    within("the run to ask", async {
        while runtime.run(&id).record().await.unwrap().status != RunStatus::Paused {
            tokio::task::yield_now().await;
        }
    })
    .await;
    runtime.drain(Duration::ZERO).await;
    id
}

fn raw(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_run_with_a_damaged_journal_is_deleted_and_the_damage_named() {
    for compensate in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let id = at_rest(SqliteStore::open(&path).await.unwrap(), compensate).await;
        raw(
            &path,
            "UPDATE events SET body = replace(body, 'boat', 'coat') WHERE body LIKE '%tool.completed%'",
        );
        let runtime = test_runtime().store(SqliteStore::open(&path).await.unwrap()).build();
        let refused = runtime.run(&id).cancel("enough").await.unwrap_err();
        assert!(
            matches!(&refused, Error::Store(error) if error.kind() == StoreErrorKind::Damaged),
            "{refused}"
        );
        let deleted = runtime.run(&id).delete().await.unwrap();
        let problem = deleted.unreadable.unwrap();
        assert!(problem.contains("is not as it was written"), "{problem}");
        assert!(runtime.runs().list(RunFilter::new()).await.unwrap().is_empty());
        let rows: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM events", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 0);
    }
}

#[tokio::test]
async fn a_run_whose_row_is_damaged_is_deleted() {
    for damage in [
        "UPDATE runs SET status = 'delighted'",
        "UPDATE runs SET created = -5",
        "UPDATE runs SET version = -3",
        "UPDATE runs SET name = CAST(x'ff' AS TEXT)",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let id = at_rest(SqliteStore::open(&path).await.unwrap(), true).await;
        raw(&path, damage);
        let runtime = test_runtime().store(SqliteStore::open(&path).await.unwrap()).build();
        runtime.run(&id).delete().await.expect(damage);
        let runs = runtime.runs().list(RunFilter::new()).await.unwrap();
        assert!(runs.is_empty(), "{damage}");
    }
}

#[tokio::test]
async fn a_run_that_can_be_cancelled_or_is_executed_is_not_deleted() {
    let store = MemoryStore::new();
    let id = at_rest(store.clone(), true).await;
    let runtime = test_runtime().store(store).build();
    let refused = runtime.run(&id).delete().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Store(error) if error.kind() == StoreErrorKind::Unfinished),
        "{refused}"
    );
    let _run = runtime.run(&id).resume().await.unwrap();
    let refused = runtime.run(&id).delete().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Store(error) if error.kind() == StoreErrorKind::Unfinished),
        "{refused}"
    );
}

/// Appends an event that this release does not know.
async fn with_newer_event(store: &MemoryStore, id: &RunId) {
    let seq = store.record(id).await.unwrap().unwrap().events;
    let newer = json!({"run_id": id, "seq": seq + 1, "time": 1_767_225_600_000_u64, "path": "rented",
        "name": "tool.regretted", "payload": {"why": "rain"}});
    store.amend(id, seq, vec![serde_json::from_value::<Event>(newer).unwrap()]).await.unwrap();
}

#[tokio::test]
async fn a_run_of_a_newer_release_owes_its_undoing_and_can_be_deleted() {
    let store = MemoryStore::new();
    let id = at_rest(store.clone(), true).await;
    with_newer_event(&store, &id).await;
    let runtime = test_runtime().store(store.clone()).build();
    // The meaning of the event for the boat is unknown, so this release does not compensate the
    // call.
    let owed = runtime.run(&id).cancel("enough").await.unwrap_err();
    assert_eq!(owed.kind(), FailureKind::CompensationOwed);
    let said = owed.to_string();
    assert!(
        said.contains("`rented/tool#1.deletion_rent`")
            && said.contains("`tool.regretted` at `rented`"),
        "{said}"
    );
    assert_eq!(runtime.run(&id).record().await.unwrap().status, RunStatus::Compensating);
    let report = runtime.run(&id).inspect().await.unwrap().compensation.unwrap();
    assert_eq!(report.calls[0].status, UndoStatus::Owed);
    let deleted = runtime.run(&id).delete().await.unwrap();
    assert!(deleted.unreadable.unwrap().contains("tool.regretted"));
    assert_eq!(deleted.not_undone[0].path.to_string(), "rented/tool#1.deletion_rent");
    assert!(runtime.runs().list(RunFilter::new()).await.unwrap().is_empty());

    // A run that was not cancelled is deleted as well, and its uncompensated call is reported.
    let id = at_rest(store.clone(), true).await;
    with_newer_event(&store, &id).await;
    let deleted = runtime.run(&id).delete().await.unwrap();
    assert!(deleted.unreadable.unwrap().contains("tool.regretted"));
    assert_eq!(deleted.not_undone.len(), 1);
}

#[workflow(name = "deletion-only-asks")]
async fn deletion_only_asks(what: String) -> Result<String> {
    let open: String = gate!("go on?", what).await?;
    Ok(open)
}

#[tokio::test]
async fn a_run_of_a_newer_release_with_nothing_to_undo_is_cancelled_and_says_what_it_does_not_know()
{
    let store = MemoryStore::new();
    let first = test_runtime().store(store.clone()).build();
    let run = first
        .start(deletion_only_asks::workflow(), "a boat".to_owned())
        .compensate()
        .await
        .unwrap();
    let id = run.run_id().clone();
    within("the run to ask", async {
        while first.run(&id).record().await.unwrap().status != RunStatus::Paused {
            tokio::task::yield_now().await;
        }
    })
    .await;
    first.drain(Duration::ZERO).await;
    with_newer_event(&store, &id).await;
    let runtime = test_runtime().store(store).build();
    runtime.run(&id).cancel("enough").await.unwrap();
    let record = runtime.run(&id).record().await.unwrap();
    assert_eq!(record.status, RunStatus::Cancelled);
    let error = record.error.unwrap();
    assert!(
        error.starts_with(
            "enough; these calls are not undone: `rented` (the event `tool.regretted`"
        ),
        "{error}"
    );
}
