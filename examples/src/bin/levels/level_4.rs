//! Level 4: a durable workflow that waits for a person. The process may end meanwhile. The second
//! runtime shares only the file with the first one. It finds the question, answers it and continues
//! the run.

use std::time::Duration;

use agentflow::prelude::*;
use agentflow::store::SqliteStore;

/// Take money. A step has one key, so that a retry takes it once.
#[tool(idempotent)]
async fn pay(cents: u32) -> String {
    format!("paid {cents} cents")
}

/// Pays after a person has approved.
#[workflow]
async fn payment(cents: u32) -> Result<String> {
    #[node(id = "consent")]
    let approval = gate!("pay?", cents).await?;
    let outcome = match approval {
        Approval::Granted { .. } => pay(cents).await,
        Approval::Denied { comment } => comment.unwrap_or_default(),
    };
    Ok(outcome)
}

pub(crate) async fn run() -> Result<String, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("runs.db");

    let first = Runtime::builder().store(SqliteStore::open(&file).await?).build();
    let run = first.start(payment::workflow(), 700).await?;
    let id = run.run_id().clone();
    run.asked().await?;
    first.drain(Duration::from_secs(10)).await;

    let second = Runtime::builder().store(SqliteStore::open(&file).await?).build();
    let run = second.run(&id).resume_as(&payment::workflow()).await?;
    while let Some(question) = run.asked().await? {
        run.approve(&question.path, Approval::granted(), "ada").await?;
    }
    Ok(run.result().await?)
}
