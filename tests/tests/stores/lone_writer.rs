//! A run that is the only writer writes on its own thread if the disk is fast, with the same
//! guarantees as the writer thread. On a slow disk the writer thread is used.

use std::path::Path;
use std::pin::pin;

use agentflow::RunId;
use agentflow::store::{Append, Epoch, SqliteStore, Store, StoreErrorKind};
use agentflow_tests::journal::{noted, notes, started};
use futures_util::FutureExt;
use futures_util::future::join_all;
use rusqlite::Connection;

/// Enough writes that some happen outside of the writer thread, and some on it.
const MANY: u64 = 600;

fn run() -> RunId {
    RunId::new("alone")
}

async fn append(store: &SqliteStore, epoch: Epoch, seq: u64) -> Result<(), StoreErrorKind> {
    let append = Append::new(seq - 1, vec![noted(&run(), seq, &format!("{seq}"))]);
    store.append(&run(), epoch, append).await.map_err(|error| error.kind())
}

/// Creates a run that has been the only writer so far.
async fn written(path: &Path) -> (SqliteStore, Epoch) {
    let store = SqliteStore::open(path).await.unwrap();
    let epoch = store.create(&run(), vec![started(&run())]).await.unwrap();
    for seq in 2..=MANY {
        append(&store, epoch, seq).await.unwrap();
    }
    (store, epoch)
}

async fn assert_whole(store: &SqliteStore, last: u64) {
    let expected: Vec<String> = (2..=last).map(|seq| seq.to_string()).collect();
    assert_eq!(notes(&store.read(&run(), 0, usize::MAX).await.unwrap()), expected);
}

#[tokio::test]
async fn a_lone_run_has_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let (store, epoch) = written(&path).await;
    assert_whole(&store, MANY).await;
    store.close(&run(), epoch).await.unwrap();
    drop(store);
    let log = folder.path().join("runs.db-wal");
    assert!(!log.exists(), "the last handle has folded the log into the file");
    assert_whole(&SqliteStore::open(&path).await.unwrap(), MANY).await;
}

#[tokio::test]
async fn a_lock_is_not_waited_for_where_a_lone_run_asks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let (store, epoch) = written(&path).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    {
        let mut waits = pin!(append(&store, epoch, MANY + 1));
        assert_eq!(waits.as_mut().now_or_never(), None, "nothing can be written yet");
        other.execute_batch("COMMIT").unwrap();
        waits.await.unwrap();
    }
    append(&store, epoch, MANY + 2).await.unwrap();
    assert_whole(&store, MANY + 2).await;
}

#[tokio::test]
async fn a_lone_run_that_was_opened_elsewhere_is_fenced_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let (store, epoch) = written(&path).await;
    let other = SqliteStore::open(&path).await.unwrap();
    let newer = other.open(&run()).await.unwrap();
    assert_eq!(append(&store, epoch, MANY + 1).await, Err(StoreErrorKind::Fenced));
    append(&other, newer, MANY + 1).await.unwrap();
    assert_eq!(
        append(&store, epoch, MANY + 2).await,
        Err(StoreErrorKind::Fenced),
        "it has lost it for good"
    );
    assert_whole(&store, MANY + 1).await;
}

#[tokio::test]
async fn others_join_a_lone_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let (store, epoch) = written(&path).await;
    let others = (0..20).map(|at| {
        let (store, other) = (store.clone(), RunId::new(format!("other {at}")));
        async move {
            let epoch = store.create(&other, vec![started(&other)]).await.unwrap();
            for seq in 2..=20 {
                let append = Append::new(seq - 1, vec![noted(&other, seq, &format!("{seq}"))]);
                store.append(&other, epoch, append).await.unwrap();
            }
            store.read(&other, 0, usize::MAX).await.unwrap().len()
        }
    });
    let alone = async {
        for seq in MANY + 1..=MANY + 50 {
            append(&store, epoch, seq).await.unwrap();
        }
    };
    let (read, ()) = futures_util::future::join(join_all(others), alone).await;
    assert_eq!(read, [20; 20]);
    assert_whole(&store, MANY + 50).await;
}

// Other systems do not allow deleting an open file.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_gone_is_noticed_where_a_lone_run_asks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let (store, epoch) = written(&path).await;
    std::fs::remove_file(&path).unwrap();
    assert_eq!(append(&store, epoch, MANY + 1).await, Err(StoreErrorKind::Replaced));
}
