#![allow(dead_code)]

use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let count = std::cell::Cell::new(0);
    let later = async { 1 };
    let text = report(diff).await?;
    Ok(format!("{text} {count:?} {later:?}"))
}

fn main() {}
