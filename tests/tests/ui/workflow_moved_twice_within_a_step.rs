#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

async fn both(a: String, b: String) -> Result<String> {
    Ok(a + &b)
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let text = both(diff, diff).await?;
    Ok(text)
}

fn main() {}
