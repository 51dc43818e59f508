#![allow(dead_code)]

use agentflow::Result;
use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(lines: Vec<String>) -> Result<String> {
    let Some(first) = lines.first() else {
        report("nothing".to_owned()).await?;
    };
    report(first.clone()).await
}

fn main() {}
