#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let text = report(diff).;
    Ok(text)
}

fn main() {}
