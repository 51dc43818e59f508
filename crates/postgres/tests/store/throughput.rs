//! Durable steps each second: `cargo test -p agentflow-postgres --test store throughput -- --ignored
//! --nocapture`. The server of the tests does not wait for its disk.

use std::time::{Duration, Instant};

use agentflow::RunId;
use agentflow::store::{Append, PostgresStore, Store};
use agentflow_tests::PostgresServer;
use futures_util::future::join_all;

use crate::{in_time, new_schema, noted, started};

/// Duration of each measurement.
const TIME: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "the figures are what this is for")]
async fn appends_of_concurrent_runs() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        drop(server.client("public").await);
        let text = "x".repeat(200);
        for runs in [1, 8, 32, 1, 8, 32] {
            let builder = PostgresStore::builder(server.url()).schema(new_schema());
            let store = builder.connect().await.unwrap();
            let write = async |number: usize| {
                let run = RunId::new(number.to_string());
                let epoch = store.create(&run, vec![started(&run)]).await.unwrap();
                let (begun, mut after) = (Instant::now(), 1);
                while begun.elapsed() < TIME {
                    let append = Append::new(after, vec![noted(&run, after + 1, &text)]);
                    store.append(&run, epoch, append).await.unwrap();
                    after += 1;
                }
                after
            };
            let begun = Instant::now();
            let appends: u64 = join_all((0..runs).map(write)).await.into_iter().sum();
            let rate = appends as f64 / begun.elapsed().as_secs_f64();
            println!("{runs} runs: {rate:.0} appends a second");
        }
    })
    .await;
}
