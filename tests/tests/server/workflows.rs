//! Workflows, tools and runtimes of the tests.

use std::time::Duration;

use agentflow::prelude::*;
use agentflow::store::MemoryStore;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Doubles a number.
#[tool(effects = "read")]
pub(crate) async fn server_double(n: i64) -> i64 {
    n * 2
}

/// Fails until the file exists.
#[tool(effects = "read")]
pub(crate) async fn server_needs_file(path: String) -> std::io::Result<String> {
    std::fs::metadata(&path)?;
    Ok("found".to_owned())
}

/// Pays an amount.
#[tool(approve)]
pub(crate) async fn server_pay(cents: u64) -> u64 {
    cents
}

/// Waits for a time.
#[tool(effects = "read")]
pub(crate) async fn server_wait(ms: u64) -> u64 {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    ms
}

/// Doubles a number twice.
#[workflow]
pub(crate) async fn server_quadruple(n: i64) -> Result<i64> {
    let once = server_double(n).await;
    let twice = server_double(once).await;
    Ok(twice)
}

/// Asks before it publishes a text.
#[workflow]
pub(crate) async fn server_publish(text: String) -> Result<String> {
    let approval = gate!("publish {text}?", text).await?;
    Ok(if approval.is_granted() { text } else { "nothing".to_owned() })
}

/// Pays after a person has approved the amount.
#[workflow]
pub(crate) async fn server_payment(cents: u64) -> Result<u64> {
    let paid = server_pay(cents).await;
    Ok(paid)
}

/// Reads a file that may be missing.
#[workflow]
pub(crate) async fn server_file(path: String) -> std::result::Result<String, BoxError> {
    let read = server_needs_file(path).await?;
    Ok(read)
}

/// Waits many times.
#[workflow(concurrency = 1)]
pub(crate) async fn server_slow(rounds: Vec<u64>) -> Result<Vec<u64>> {
    let waited = map!(rounds, |ms| server_wait(ms)).await?;
    Ok(waited)
}

pub(crate) fn runtime() -> Runtime {
    Runtime::builder().store(MemoryStore::new()).build()
}
