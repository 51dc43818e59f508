#![allow(dead_code)]

use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    #[node(write, unordered)]
    let text = report(diff).await?;
    Ok(text)
}

fn main() {}
