#![allow(dead_code)]

use std::error::Error;

use agentflow::prelude::*;

async fn lint(diff: String) -> Result<u32, Box<dyn Error>> {
    Ok(diff.len().try_into()?)
}

#[workflow]
async fn review(diff: String) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let issues = lint(diff).await?;
    Ok(issues)
}

#[workflow]
async fn review_all(diffs: Vec<String>) -> agentflow::Result<usize> {
    let issues = map!(diffs, |diff| lint(diff)).await?;
    Ok(issues.len())
}

fn main() {}
