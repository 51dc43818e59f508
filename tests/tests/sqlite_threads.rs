//! Tests the threads of `SqliteStore`: it reads and writes on its own threads, which need no async
//! runtime and end with the store.
//!
//! This is a separate test program, since it counts the store's threads in the process.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use agentflow::RunId;
use agentflow::store::{Append, SqliteStore, Store};
use agentflow_tests::journal::{noted, started};
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::oneshot;

fn run() -> RunId {
    RunId::new("a")
}

/// Returns the names of the store's threads, where the system provides them.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("agentflow")).collect()
}

/// Waits for a future on this thread, without a runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let (begun, mut future) = (Instant::now(), pin!(future));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park_timeout(Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(120), "the store does not answer");
    }
}

/// All in one test, so that no other store has threads at the same time.
#[test]
fn reading_needs_no_thread_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");

    // The only thread for blocking work is occupied.
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let (release, stuck) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = oneshot::channel();
    runtime.spawn_blocking(move || {
        begun.send(()).unwrap();
        let _ = stuck.recv_timeout(Duration::from_secs(120));
    });
    let store = runtime.block_on(async {
        has_begun.await.unwrap();
        let store = SqliteStore::open(&path).await.unwrap();
        let epoch = store.create(&run(), vec![started(&run())]).await.unwrap();
        store
            .append(
                &run(),
                epoch,
                Append::new(1, (2..=50).map(|seq| noted(&run(), seq, "n")).collect()),
            )
            .await
            .unwrap();
        assert_eq!(store.read(&run(), 0, 100).await.unwrap().len(), 50);
        store
    });
    drop(release);
    drop(runtime);

    // The store also works after the runtime has ended.
    let id = run();
    let reads = (0..200).map(|after| store.read(&id, after % 50, 100));
    let lengths: Vec<usize> =
        block_on(join_all(reads)).into_iter().map(|events| events.unwrap().len()).collect();
    assert_eq!(lengths, (0..200).map(|after| 50 - after % 50).collect::<Vec<_>>());
    let threads_now = threads();
    if cfg!(target_os = "linux") {
        assert!(
            (2..=9).contains(&threads_now.len()),
            "one that writes and a few that read: {threads_now:?}"
        );
    }

    // A dropped read keeps no connection open.
    let _ = store.read(&id, 0, 100).now_or_never();
    drop(store);
    assert_eq!(threads(), Vec::<String>::new(), "they end with the last handle");
    assert!(!folder.path().join("runs.db-wal").exists(), "nothing is left open");
}
