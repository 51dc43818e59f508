//! `LISTEN` and `NOTIFY`: runs and answers of other processes arrive early, also after the listening
//! connection was cut, and an idle process sends few queries.

use std::time::{Duration, Instant};

use agentflow::prelude::*;
use agentflow::store::{Append, PostgresStore, RunFilter, RunStatus, Store};
use agentflow::{RunId, Runtime};
use agentflow_tests::PostgresServer;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use crate::real_processes::{Other, paused, release};
use crate::{cancelled, connect, in_time, new_schema, noted, started};

/// Interval at which a store looks without a notification while notifications arrive.
const POLL: Duration = Duration::from_millis(1500);

/// Ends the listening connections of the processes with this application name. Returns their number.
async fn cut_listeners(client: &Client, name: &str) -> i64 {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = $1";
    client.query_one(sql, &[&format!("{name} listener")]).await.unwrap().get(0)
}

/// Waits until a store knows that notifications arrive: its futures then take longer than the
/// interval without notifications.
async fn until_notified(store: &PostgresStore) {
    let begun = Instant::now();
    loop {
        let waited = Instant::now();
        store.runs_changed().await;
        if waited.elapsed() > POLL - Duration::from_millis(100) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "notifications arrive");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_become_claimable_notify_workers() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let store = connect(server, &schema).await;
        let other = connect(server, &schema).await;
        until_notified(&store).await;
        let woken = async |write: &str, changed| {
            let begun = Instant::now();
            timeout(POLL - Duration::from_millis(300), changed)
                .await
                .unwrap_or_else(|_| panic!("no notification of `{write}`"));
            begun.elapsed()
        };
        let run = RunId::new("a");
        let epoch = other.create(&run, vec![started(&run)]).await.unwrap();
        let changed = store.runs_changed();
        other.close(&run, epoch).await.unwrap();
        woken("close", changed).await;
        let changed = store.runs_changed();
        other.amend(&run, 1, vec![noted(&run, 2, "x")]).await.unwrap();
        woken("amend", changed).await;
        assert_eq!(store.claimable(RunFilter::unfinished()).await.unwrap().len(), 1);
        // Closing a run that has ended wakes no worker.
        let epoch = other.open(&run).await.unwrap();
        other.append(&run, epoch, Append::new(2, vec![cancelled(&run, 3)])).await.unwrap();
        let changed = store.runs_changed();
        other.close(&run, epoch).await.unwrap();
        let begun = Instant::now();
        in_time(changed).await;
        assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
    })
    .await;
}

/// Answers questions of another process, one after another. Returns the times, shortest first.
/// `before` is called before each answer.
async fn answer(
    server: &PostgresServer,
    schema: &str,
    count: usize,
    before: impl AsyncFn(usize),
) -> Vec<Duration> {
    let store = connect(server, schema).await;
    let mut other = Other::start(server, schema);
    let runtime = Runtime::builder().store(store.clone()).build();
    let mut times = Vec::new();
    for number in 0..count {
        let run = RunId::new(tokio::task::block_in_place(|| other.next_line()));
        paused(&store, &run).await;
        before(number).await;
        let begun = Instant::now();
        runtime.run(&run).approve("approval", Approval::granted(), "ann").await.unwrap();
        times.push(begun.elapsed());
        let line = tokio::task::block_in_place(|| other.next_line());
        assert_eq!(line, "published 7");
    }
    times.sort_unstable();
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_another_process_arrives_by_a_notification() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        // At different moments of the interval.
        let before = async |_| sleep(Duration::from_millis(fastrand::u64(0..700))).await;
        let times = answer(server, &new_schema(), 9, before).await;
        // Without notifications, half of the answers would take longer than half of the interval.
        assert!(times[4] < POLL / 4, "{times:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_arrives_within_two_seconds_after_the_listening_connection_was_cut() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let (schema, client) = (new_schema(), server.client("public").await);
        // The connection may be cut already while it is opened again.
        let before = async |number: usize| {
            let cut = cut_listeners(&client, &schema).await;
            assert!(number > 0 || cut == 1, "{cut} connections listen");
            sleep(Duration::from_millis(number as u64 * 40)).await;
        };
        let times = answer(server, &schema, 6, before).await;
        assert!(times[5] < Duration::from_secs(2), "{times:?}");
    })
    .await;
}

/// Number of runs that wait. `AGENTFLOW_IDLE_RUNS` sets another number.
const WAITING: usize = 50;

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the figure is useful")]
async fn a_worker_with_waiting_runs_sends_few_queries() {
    let Some(server) = PostgresServer::shared() else { return };
    let count = std::env::var("AGENTFLOW_IDLE_RUNS").ok();
    let count = count.map_or(WAITING, |count| count.parse().expect("a number of runs"));
    let waiting = async {
        let url = server.new_database("waiting").await;
        let client = server.client("public").await;
        let store = PostgresStore::connect(url).await.unwrap();
        let runtime = Runtime::builder().store(store.clone()).build();
        let worker = tokio::spawn(runtime.worker().run());
        for _ in 0..count {
            runtime.start(release::workflow(), 7).queued().await.unwrap();
        }
        let paused = async || {
            let paused = RunFilter::new().status(RunStatus::Paused);
            store.list(paused).await.unwrap().len()
        };
        while paused().await < count {
            sleep(Duration::from_millis(100)).await;
        }
        // The server counts the transactions of the database, about one for each query. Idle
        // connections report theirs late, so that the first times include the start of the runs.
        let queries = async || {
            let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database \
                       WHERE datname = 'waiting'";
            client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
        };
        let mut rates = Vec::new();
        while rates.len() < 6 && rates.last().is_none_or(|rate| *rate >= 5.0) {
            let (begun, before) = (Instant::now(), queries().await);
            sleep(Duration::from_secs(12)).await;
            rates.push((queries().await - before) as f64 / begun.elapsed().as_secs_f64());
        }
        println!("{count} waiting runs: {rates:.1?} queries a second");
        assert!(rates.last().is_some_and(|rate| *rate < 5.0), "{rates:?}");
        worker.abort();
    };
    // Many runs take minutes to start.
    timeout(Duration::from_secs(120 + count as u64), waiting).await.unwrap();
}
