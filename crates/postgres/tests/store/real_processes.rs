//! Two real processes with one database. The other process is this test program; its environment
//! selects its role.

use std::io::Write;
use std::time::{Duration, Instant};

use agentflow::prelude::*;
use agentflow::store::{PostgresStore, RunStatus, Store, StoreErrorKind};
use agentflow::{RunId, Runtime};
use agentflow_tests::{PostgresServer, Process, test_as_process};

use crate::{connect, in_time, new_schema};

const URL: &str = "AGENTFLOW_TEST_POSTGRES_URL";
const SCHEMA: &str = "AGENTFLOW_TEST_POSTGRES_SCHEMA";

/// Lease of the other process.
const LEASE: Duration = Duration::from_secs(2);

/// Time limit of each step.
const STEP: Duration = Duration::from_secs(60);

/// Publish a version.
#[tool(idempotent)]
async fn publish(version: u32) -> String {
    format!("published {version}")
}

/// Keep a version back.
#[tool(idempotent)]
async fn keep_back(version: u32) -> String {
    format!("kept {version}")
}

#[workflow]
pub(crate) async fn release(cx: &Context, version: u32) -> Result<String> {
    let approval = gate!("release {version}?").await?;
    let outcome = match approval {
        Approval::Granted { .. } => publish(version).await,
        Approval::Denied { .. } => keep_back(version).await,
    };
    Ok(outcome)
}

/// A second process that executes [`release`] again and again. The schema is also the name of its
/// connections. It is killed when this value is dropped.
pub(crate) struct Other {
    process: Process,
    /// Number of lines that were read.
    read: usize,
}

impl Other {
    pub(crate) fn start(server: &PostgresServer, schema: &str) -> Self {
        let mut command = test_as_process(module_path!(), "other_process");
        let url = format!("{}&application_name={schema}", server.url());
        command.env(URL, url).env(SCHEMA, schema);
        Self { process: Process::start(&mut command).unwrap(), read: 0 }
    }

    pub(crate) fn next_line(&mut self) -> String {
        let read = self.read;
        self.read += 1;
        self.process.wait_until("it printed a line", |process| {
            let output = process.output();
            // The test framework also prints lines, and the last line may be incomplete.
            let (lines, _) = output.rsplit_once('\n')?;
            let mut lines = lines.lines().filter_map(|line| line.split_once("> "));
            lines.nth(read).map(|(_, line)| line.to_owned())
        })
    }
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {text}").unwrap();
    out.flush().unwrap();
}

/// The other process. It does nothing when it is executed as a test.
#[tokio::test]
async fn other_process() {
    let (Ok(url), Ok(schema)) = (std::env::var(URL), std::env::var(SCHEMA)) else { return };
    in_time(async {
        let builder = PostgresStore::builder(url).schema(schema).pool_size(2).lease(LEASE);
        let runtime = Runtime::builder().store(builder.connect().await.unwrap()).build();
        // Until it is killed.
        loop {
            let run = runtime.start(release::workflow(), 7).await.unwrap();
            print(run.run_id().as_str());
            let output: String = run.result().await.unwrap();
            print(&output);
        }
    })
    .await;
}

/// Waits until the run of another process asks for an approval.
pub(crate) async fn paused(store: &PostgresStore, run: &RunId) {
    let begun = Instant::now();
    while store.record(run).await.unwrap().is_none_or(|run| run.status != RunStatus::Paused) {
        assert!(begun.elapsed() < STEP, "the run asks for an approval");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_approves_a_run_of_another_process() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let store = connect(server, &schema).await;
        let mut other = Other::start(server, &schema);
        let run = RunId::new(tokio::task::block_in_place(|| other.next_line()));
        paused(&store, &run).await;
        let error = store.open(&run).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Busy);
        assert!(error.to_string().contains(&other.process.id().to_string()), "{error}");
        let runtime = Runtime::builder().store(store).build();
        let begun = Instant::now();
        runtime.run(&run).approve("approval", Approval::granted(), "ann").await.unwrap();
        assert!(begun.elapsed() < STEP);
        assert_eq!(tokio::task::block_in_place(|| other.next_line()), "published 7");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_killed_process_is_resumed_when_its_lease_has_expired() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let store = connect(server, &schema).await;
        let mut other = Other::start(server, &schema);
        let run = RunId::new(tokio::task::block_in_place(|| other.next_line()));
        paused(&store, &run).await;
        other.process.kill();
        assert_eq!(store.open(&run).await.unwrap_err().kind(), StoreErrorKind::Busy);
        let begun = Instant::now();
        while store.leases().unwrap().holder(&run).await.unwrap().is_some() {
            assert!(begun.elapsed() < LEASE + STEP, "the lease expires");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let runtime = Runtime::builder().store(store).workflow(&release::workflow()).build();
        runtime.run(&run).approve("approval", Approval::granted(), "ann").await.unwrap();
        let resumed = runtime.run(&run).resume_as(&release::workflow()).await.unwrap();
        let output: String = resumed.result().await.unwrap();
        assert_eq!(output, "published 7");
    })
    .await;
}
