#![allow(dead_code)]

use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let words: Vec<&str> = diff.split(' ').collect();
    let text = report(words.join("-")).await?;
    Ok(text)
}

fn main() {}
