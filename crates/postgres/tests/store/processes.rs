//! Several writers of one run, the lease of a process, and messages between processes. Another
//! process is simulated by its rows in the tables.

use std::time::{Duration, Instant};

use agentflow::RunId;
use agentflow::store::{Append, PostgresStore, RunFilter, Store, StoreErrorKind};
use agentflow_tests::PostgresServer;
use futures_util::FutureExt;

use crate::{connect, in_time, new_schema, noted, started};

#[tokio::test]
async fn a_second_opener_fences_the_first() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let (one, two) = (connect(server, &schema).await, connect(server, &schema).await);
        let run = RunId::new("a");
        let first = one.create(&run, vec![started(&run)]).await.unwrap();
        let second = two.open(&run).await.unwrap();
        assert!(second > first);
        let late = one.append(&run, first, Append::new(1, vec![noted(&run, 2, "late")])).await;
        assert_eq!(late.unwrap_err().kind(), StoreErrorKind::Fenced);
        two.append(&run, second, Append::new(1, vec![noted(&run, 2, "on")])).await.unwrap();
        assert_eq!(one.read(&run, 1, 10).await.unwrap(), [noted(&run, 2, "on")]);
    })
    .await;
}

#[tokio::test]
async fn a_run_of_a_living_process_is_busy_until_its_lease_expires() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let store = connect(server, &schema).await;
        let run = RunId::new("a");
        let first = store.create(&run, vec![started(&run)]).await.unwrap();
        let leases = store.leases().unwrap();
        assert_eq!(leases.holder(&run).await.unwrap(), None, "this process has it");
        let claimable = async || store.claimable(RunFilter::unfinished()).await.unwrap().len();
        assert_eq!(claimable().await, 0, "a run that this process executes");
        let client = server.client(&schema).await;
        let take = "INSERT INTO owners VALUES ('other', 'process 7 on far', \
                    clock_timestamp() + interval '1 hour'); \
                    UPDATE runs SET owner = 'other', epoch = epoch + 1";
        client.batch_execute(take).await.unwrap();
        assert_eq!(leases.holder(&run).await.unwrap().as_deref(), Some("process 7 on far"));
        let note = vec![noted(&run, 2, "x")];
        for busy in [
            store.open(&run).await.map(drop),
            store.amend(&run, 1, note.clone()).await,
            store.delete(&run).await,
        ] {
            let error = busy.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}");
            assert!(error.to_string().contains("process 7 on far"), "{error}");
        }
        assert_eq!(claimable().await, 0, "another process executes it");
        let late = store.append(&run, first, Append::new(1, note)).await;
        assert_eq!(late.unwrap_err().kind(), StoreErrorKind::Fenced);
        let expire = "UPDATE owners SET expires = clock_timestamp() WHERE id = 'other'";
        client.batch_execute(expire).await.unwrap();
        assert_eq!(leases.holder(&run).await.unwrap(), None);
        assert_eq!(claimable().await, 1, "its process has ended");
        assert!(store.open(&run).await.unwrap() > first);
    })
    .await;
}

#[tokio::test]
async fn the_lease_is_renewed_and_ends_with_the_last_handle() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        drop(server.client("public").await);
        let open = || {
            let builder = PostgresStore::builder(server.url()).schema(&schema).pool_size(2);
            builder.lease(Duration::from_secs(1)).connect()
        };
        let (one, two) = (open().await.unwrap(), open().await.unwrap());
        let client = server.client(&schema).await;
        let count = async |sql: &str| client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
        let valid = "SELECT count(*) FROM owners WHERE expires > clock_timestamp()";
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(count(valid).await, 1, "both handles are one process");
        drop(one);
        assert_eq!(count(valid).await, 1);
        let run = RunId::new("a");
        two.create(&run, vec![started(&run)]).await.unwrap();
        drop(two);
        assert_eq!(count("SELECT count(*) FROM owners").await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_message_notifies_the_process_that_has_the_run() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let (one, two) = (connect(server, &schema).await, connect(server, &schema).await);
        let run = RunId::new("a");
        one.create(&run, vec![started(&run)]).await.unwrap();
        let messages = one.messages().unwrap();
        // Polling needs 500 ms. On a busy machine a notification may be late, but not always.
        let mut fastest = Duration::MAX;
        for number in 1..=20 {
            let sent = messages.message_sent().expect("messages come from other processes");
            let begun = Instant::now();
            two.messages().unwrap().send(&run, number.to_string()).await.unwrap();
            tokio::time::timeout(Duration::from_secs(5), sent).await.unwrap();
            fastest = fastest.min(begun.elapsed());
            let inbox = messages.inbox().await.unwrap();
            assert_eq!(inbox.len(), number);
        }
        assert!(fastest < Duration::from_millis(400), "{fastest:?}");
        // Without a notification, the future completes after the interval.
        let begun = Instant::now();
        let sent = messages.message_sent().unwrap();
        drop((one, two));
        tokio::time::timeout(Duration::from_secs(5), sent).await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    })
    .await;
}

#[tokio::test]
async fn an_opening_that_nobody_waits_for_is_undone() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let store = connect(server, &schema).await;
        let run = RunId::new("a");
        let epoch = store.create(&run, vec![started(&run)]).await.unwrap();
        store.close(&run, epoch).await.unwrap();
        let client = server.client(&schema).await;
        // A lock keeps the store from opening the run until the future is dropped.
        client.batch_execute("BEGIN; SELECT 1 FROM runs FOR UPDATE").await.unwrap();
        let opening = tokio::time::timeout(Duration::from_millis(300), store.open(&run)).await;
        assert!(opening.is_err(), "it waits for the lock");
        client.batch_execute("COMMIT").await.unwrap();
        let begun = Instant::now();
        let sql = "SELECT epoch, owner IS NULL FROM runs";
        loop {
            let row = client.query_one(sql, &[]).await.unwrap();
            if (row.get::<_, i64>(0), row.get::<_, bool>(1)) == (2, true) {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{row:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_statement_that_waits_too_long_for_a_lock_fails_and_writes_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let client = server.client(&schema).await;
        let builder = PostgresStore::builder(server.url()).schema(&schema).pool_size(1);
        let limit = Duration::from_millis(500);
        let store = builder.statement_timeout(limit).connect().await.unwrap();
        let run = RunId::new("a");
        let epoch = store.create(&run, vec![started(&run)]).await.unwrap();
        client.batch_execute("BEGIN; SELECT 1 FROM runs FOR UPDATE").await.unwrap();
        let append = || store.append(&run, epoch, Append::new(1, vec![noted(&run, 2, "x")]));
        let error = append().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Locked, "{error}");
        assert!(error.to_string().contains("statement_timeout"), "{error}");
        // The only connection is in use while the first append waits.
        let (first, second) = futures_util::future::join(append(), append()).await;
        let kinds = [first.unwrap_err().kind(), second.unwrap_err().kind()];
        assert_eq!(kinds, [StoreErrorKind::Locked; 2]);
        client.batch_execute("COMMIT").await.unwrap();
        append().await.unwrap();
        assert_eq!(store.read(&run, 0, 10).await.unwrap().len(), 2);
    })
    .await;
}

#[test]
fn a_store_outlives_a_runtime_and_does_not_depend_on_its_clock() {
    let Some(server) = PostgresServer::shared() else { return };
    let schema = new_schema();
    let runtime = |paused| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(paused).build().unwrap()
    };
    let run = RunId::new("a");
    let store = runtime(false).block_on(in_time(connect(server, &schema)));
    let epoch = runtime(false).block_on(store.create(&run, vec![started(&run)])).unwrap();
    let events = runtime(true).block_on(async {
        let append = Append::new(1, vec![noted(&run, 2, "x")]);
        store.append(&run, epoch, append).await.unwrap();
        store.read(&run, 0, 10).await.unwrap()
    });
    assert_eq!(events.len(), 2);
    // A write that was requested is complete after the drop.
    let append = Append::new(2, vec![noted(&run, 3, "y")]);
    let other = runtime(false);
    other.block_on(async {
        let mut append = Box::pin(store.append(&run, epoch, append));
        assert!(append.as_mut().now_or_never().is_none());
    });
    drop((store, other));
    let store = runtime(false).block_on(in_time(connect(server, &schema)));
    assert_eq!(runtime(false).block_on(store.read(&run, 0, 10)).unwrap().len(), 3);
}
