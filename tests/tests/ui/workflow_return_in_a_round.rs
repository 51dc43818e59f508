#![allow(dead_code)]

use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diffs: Vec<String>) -> Result<String> {
    for diff in diffs {
        if diff.is_empty() {
            return Ok(diff);
        }
        report(diff).await?;
    }
    Ok(String::new())
}

fn main() {}
