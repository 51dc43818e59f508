//! Benchmark of answers across processes: one process sends a person's answer to a run that waits
//! in another process, over an SQLite file. It measures the time from sending to the first line of
//! the next step.
//!
//! `cargo bench -p agentflow-sdk --features sqlite --bench answers`. `AGENTFLOW_ANSWERS` sets the
//! number of answers (default 200). They are sent one after another, at different moments of the
//! interval at which a waiting run polls for answers.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentflow::prelude::*;
use agentflow::store::{RunFilter, SqliteStore};

/// Upper bound of the delay before an answer, in milliseconds. It is longer than the polling
/// interval and not a multiple of it.
const APART: u64 = 37;

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(since.as_micros()).expect("it is long before the end of time")
}

#[workflow]
async fn bench_asks(number: u64) -> Result<u64> {
    let answer = gate!("continue?", number).await?;
    let at = answered(answer).await?;
    Ok(at)
}

async fn answered(_: Approval) -> Result<u64> {
    Ok(now())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let count =
        std::env::var("AGENTFLOW_ANSWERS").map_or(200, |count| count.parse().expect("a number"));
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--wait", file] => wait(Path::new(file), count).await,
        _ => send(count).await,
    }
}

/// Waits for one answer after another, and prints the time at which each one arrived.
#[expect(clippy::print_stdout, reason = "the other process reads it")]
async fn wait(file: &Path, count: u64) -> Result<()> {
    let runtime = Runtime::builder().store(SqliteStore::open(file).await?).build();
    for number in 0..count {
        println!("{}", runtime.start(bench_asks::workflow(), number).await?.result().await?);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
async fn send(count: u64) -> Result<()> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("answers.db");
    let runtime = Runtime::builder().store(SqliteStore::open(&file).await?).build();
    let program = std::env::current_exe().expect("this program has a path");
    let mut waiting = Command::new(program)
        .arg("--wait")
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(waiting.stdout.take().expect("it is piped")).lines();
    let mut took = Vec::new();
    for number in 0..count {
        let question = loop {
            match runtime.runs().questions(RunFilter::new()).await.expect("a list").pop() {
                Some(question) => break question,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        // Spreads the answers over the polling interval.
        tokio::time::sleep(Duration::from_millis(number * 7 % APART)).await;
        let sent = now();
        runtime
            .run(&question.run)
            .approve(&question.path, Approval::granted(), "ada")
            .await
            .expect("it is taken");
        let there: u64 =
            lines.next().expect("a line").expect("it is text").parse().expect("a time");
        took.push(there.saturating_sub(sent));
    }
    assert!(waiting.wait().expect("it ends").success(), "the waiting process failed");
    took.sort_unstable();
    let at = |share: usize| took[(took.len() * share / 100).min(took.len() - 1)];
    println!(
        "{count} answers of another process, µs: median {}, 95 of 100 {}, longest {}",
        at(50),
        at(95),
        at(100)
    );
    Ok(())
}
