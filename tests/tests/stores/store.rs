//! Both stores follow the rules of the `Store` trait, and `SqliteStore` keeps all data when it is
//! reopened.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::RunId;
use agentflow::store::{
    MemoryStore, MessageStore, RunFilter, RunStatus, SqliteStore, Store, Synchronous,
};
use agentflow_testing::{check_store, check_store_reopened};
use agentflow_tests::journal::notes;

/// The example in the documentation of the trait.
mod first {
    include!("../../../crates/core/src/store/example_store.rs");

    #[tokio::test]
    async fn a_first_store() {
        use agentflow_testing::StorePart::{
            Artifacts, Definitions, Deletion, Documents, Leases, Messages, Sessions, Snapshots,
            State,
        };

        let checked = agentflow_testing::check_store(|| async { MapStore::default() }).await;
        assert_eq!(
            checked.skipped(),
            [
                Snapshots,
                Definitions,
                Sessions,
                Messages,
                Artifacts,
                State,
                Leases,
                Documents,
                Deletion
            ]
        );
        // A run is controlled in the process that executes it, or after that process has ended.
        // From another process the error explains this.
        let store = MapStore::default();
        let error = (&store as &dyn Store).require_messages().err().unwrap();
        assert!(
            error.to_string().contains("make the request in the process that executes the run"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_store_in_memory() {
    assert_eq!(check_store(|| async { MemoryStore::new() }).await.skipped(), []);
}

#[tokio::test]
async fn the_store_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let number = AtomicUsize::new(0);
    let checked = check_store(|| async {
        let path = folder.path().join(format!("{}.db", number.fetch_add(1, Ordering::Relaxed)));
        SqliteStore::builder(path)
            .synchronous(Synchronous::Normal)
            .max_event_bytes(300_000)
            .open()
            .await
            .unwrap()
    })
    .await;
    assert_eq!(checked.skipped(), []);
}

#[tokio::test]
async fn the_store_in_sqlite_has_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    check_store_reopened(|| async {
        SqliteStore::open(folder.path().join("runs.db")).await.unwrap()
    })
    .await;
    let left = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: std::collections::BTreeSet<_> = left.collect();
    let expected = ["runs.db", "runs.db-artifacts"].map(ToOwned::to_owned);
    assert_eq!(
        left,
        expected.into(),
        "nothing else is left beside the file when all handles are dropped"
    );
}

/// Creates a database file from these SQL texts.
fn write_file(path: &Path, texts: &[&str]) {
    let written = rusqlite::Connection::open(path).unwrap();
    for text in texts {
        written.execute_batch(text).unwrap();
    }
}

/// Files of the first layout stay readable. This file was recorded when the layout was introduced.
#[tokio::test]
async fn a_file_of_the_first_layout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let tables = include_str!("../../../crates/sqlite/src/store/schema/1.sql");
    write_file(&path, &[tables, include_str!("../../golden/store-v1.sql")]);

    let (store, run) = (SqliteStore::open(&path).await.unwrap(), RunId::new("run one"));
    let events = store.read(&run, 0, 10).await.unwrap();
    assert_eq!(notes(&events), ["not needed"]);
    assert_eq!(events[1].path.to_string(), "plan/tool#1.search[1]");
    let record = store.record(&run).await.unwrap().unwrap();
    assert_eq!((record.status, record.events, &*record.name), (RunStatus::Paused, 3, "job"));
    assert_eq!(record.definition.as_deref(), Some("d1"));
    assert_eq!(store.snapshot(&run).await.unwrap().unwrap().events, events[..1]);
    assert_eq!(store.definition("d1").await.unwrap().as_deref(), Some("{}"));
    // No process holds the lock, so the recorded owner is ignored.
    let epoch = store.open(&run).await.unwrap();
    assert_eq!(epoch.0, 4);
    let messages = store.receive(&run, epoch).await.unwrap();
    assert_eq!(messages.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(), ["hello"]);
}

/// A file of the layout before runs had callers and tags is migrated and read.
#[tokio::test]
async fn a_file_of_the_second_layout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let texts = [
        include_str!("../../../crates/sqlite/src/store/schema/1.sql"),
        include_str!("../../golden/store-v1.sql"),
        include_str!("../../../crates/sqlite/src/store/schema/2.sql"),
        "PRAGMA user_version = 2",
    ];
    write_file(&path, &texts);
    let (store, run) = (SqliteStore::open(&path).await.unwrap(), RunId::new("run one"));
    let record = store.record(&run).await.unwrap().unwrap();
    assert_eq!((record.caller, record.tags.len(), &*record.name), (None, 0, "job"));
    assert_eq!(notes(&store.read(&run, 0, 10).await.unwrap()), ["not needed"]);
    assert!(store.list(RunFilter::new().tag("a", "b")).await.unwrap().is_empty());
    assert_eq!(store.list(RunFilter::new()).await.unwrap().len(), 1);
    drop(store);
    let version = rusqlite::Connection::open(&path).unwrap().pragma_query_value(
        None,
        "user_version",
        |row| row.get(0),
    );
    assert_eq!(version, Ok(10));
}

/// A file of the layout before tags had the age of their runs.
#[tokio::test]
async fn a_file_of_the_sixth_layout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let texts = [
        include_str!("../../../crates/sqlite/src/store/schema/1.sql"),
        include_str!("../../golden/store-v1.sql"),
        include_str!("../../../crates/sqlite/src/store/schema/2.sql"),
        include_str!("../../../crates/sqlite/src/store/schema/3.sql"),
        include_str!("../../../crates/sqlite/src/store/schema/4.sql"),
        include_str!("../../../crates/sqlite/src/store/schema/5.sql"),
        include_str!("../../../crates/sqlite/src/store/schema/6.sql"),
        "INSERT INTO tags (run, tag, value) SELECT key, 'desk', 'sports' FROM runs",
        "PRAGMA user_version = 6",
    ];
    write_file(&path, &texts);
    let store = SqliteStore::open(&path).await.unwrap();
    let tagged = RunFilter::new().tag("desk", "sports");
    let [run] = &store.list(tagged.clone()).await.unwrap()[..] else {
        panic!("one run has the tag")
    };
    assert_eq!(run.tags["desk"], "sports");
    assert!(store.list(tagged.after(run)).await.unwrap().is_empty());
    assert!(store.list(RunFilter::new().tag("desk", "news")).await.unwrap().is_empty());
}
