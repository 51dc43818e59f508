#![allow(dead_code)]

use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let text = tokio::spawn(report(diff)).await.unwrap()?;
    Ok(text)
}

fn main() {}
