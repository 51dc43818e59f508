#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

fn shout(text: String) -> Result<String> {
    Ok(text.to_uppercase())
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let text = shout(diff).await?;
    Ok(text)
}

fn main() {}
