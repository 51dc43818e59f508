//! The server is killed while runs write. Each test starts a separate server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentflow::RunId;
use agentflow::event::EventKind;
use agentflow::store::{Append, PostgresStore, Store, StoreErrorKind};
use agentflow_tests::PostgresServer;
use futures_util::future::{join, join_all};

use crate::{connect, in_time, noted, started};

/// Number of times that the server is killed.
const KILLS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_twice_or_lost_when_the_server_is_killed() {
    let Some(server) = PostgresServer::start() else { return };
    in_time(async {
        drop(server.client("public").await);
        let builder = PostgresStore::builder(server.url()).retry_writes(Duration::from_secs(60));
        let store = builder.connect().await.unwrap();
        let stop = AtomicBool::new(false);
        let write = async |name: &str| {
            let run = RunId::new(name);
            let epoch = store.create(&run, vec![started(&run)]).await.unwrap();
            let mut after = 1;
            while !stop.load(Ordering::Relaxed) {
                let events = vec![noted(&run, after + 1, "a"), noted(&run, after + 2, "b")];
                store.append(&run, epoch, Append::new(after, events)).await.unwrap();
                after += 2;
            }
            (run, after)
        };
        let kills = async {
            for _ in 0..KILLS {
                tokio::time::sleep(Duration::from_millis(400)).await;
                tokio::task::block_in_place(|| {
                    server.kill();
                    server.restart();
                });
                // All runs write again before the next kill.
                drop(server.client("public").await);
            }
            tokio::time::sleep(Duration::from_millis(400)).await;
            stop.store(true, Ordering::Relaxed);
        };
        let writers = join_all(["a", "b", "c", "d"].map(write));
        let (written, ()) = join(writers, kills).await;
        for (run, after) in written {
            assert!(after > 10, "{run} has written {after} events");
            let events = store.read(&run, 0, usize::MAX).await.unwrap();
            assert_eq!(events.len() as u64, after, "{run}");
            for event in &events[1..] {
                let EventKind::NodeSkipped { reason } = &event.kind else { panic!("{event:?}") };
                let expected = if event.seq % 2 == 0 { "a" } else { "b" };
                assert_eq!(reason.to_string(), expected, "{run}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_an_error_and_the_store_recovers() {
    let Some(server) = PostgresServer::start() else { return };
    in_time(async {
        drop(connect(&server, "agentflow").await);
        let builder = PostgresStore::builder(server.url()).retry_writes(Duration::from_millis(300));
        let store = builder.connect().await.unwrap();
        let run = RunId::new("a");
        let epoch = store.create(&run, vec![started(&run)]).await.unwrap();
        tokio::task::block_in_place(|| server.kill());
        let append = || Append::new(1, vec![noted(&run, 2, "x")]);
        let write = store.append(&run, epoch, append()).await.unwrap_err();
        assert_eq!(write.kind(), StoreErrorKind::Unreachable, "{write}");
        assert!(write.to_string().contains("nothing was written"), "{write}");
        let read = store.read(&run, 0, 1).await.unwrap_err();
        assert_eq!(read.kind(), StoreErrorKind::Unreachable, "{read}");
        tokio::task::block_in_place(|| server.restart());
        drop(server.client("public").await);
        store.append(&run, epoch, append()).await.unwrap();
        assert_eq!(store.read(&run, 0, 10).await.unwrap().len(), 2);
    })
    .await;
}
