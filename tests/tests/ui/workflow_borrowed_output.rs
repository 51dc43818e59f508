#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

async fn word(text: &str) -> Result<&str> {
    Ok(text.trim())
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let first = word(&diff).await?;
    Ok(first.to_owned())
}

fn main() {}
