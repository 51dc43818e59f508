#![allow(dead_code)]

use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let approval = gate!("merge {diff.0.len}?").await?;
    Ok(format!("{approval:?}"))
}

fn main() {}
