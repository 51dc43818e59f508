#![allow(dead_code)]

use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let text = repeat!(diff, |text| report(text), max = 0).await?;
    Ok(text)
}

fn main() {}
