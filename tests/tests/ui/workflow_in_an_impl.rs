#![allow(dead_code)]

use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

struct Desk;

impl Desk {
    #[workflow]
    async fn review(diff: String) -> Result<String> {
        report(diff).await
    }
}

fn main() {}
