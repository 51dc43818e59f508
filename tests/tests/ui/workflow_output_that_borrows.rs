#![allow(dead_code)]

use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diff: String) -> Result<&'static str> {
    report(diff).await?;
    Ok("done")
}

fn main() {}
