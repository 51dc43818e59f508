//! Both stores keep the rules of the `Store` trait, and the one on disk has everything again.

use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::{MemoryStore, SqliteStore, Synchronous};
use agentflow_testing::{check_store, check_store_reopened};

#[tokio::test]
async fn the_store_in_memory() {
    check_store(|| async { MemoryStore::new() }).await;
}

#[tokio::test]
async fn the_store_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let number = AtomicUsize::new(0);
    check_store(|| async {
        let path = folder.path().join(format!("{}.db", number.fetch_add(1, Ordering::Relaxed)));
        SqliteStore::builder(path).synchronous(Synchronous::Normal).open().await.unwrap()
    })
    .await;
}

#[tokio::test]
async fn the_store_in_sqlite_has_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    check_store_reopened(|| async { SqliteStore::open(folder.path().join("runs.db")).await.unwrap() }).await;
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["runs.db"], "nothing is left beside the file when all handles are dropped");
}
