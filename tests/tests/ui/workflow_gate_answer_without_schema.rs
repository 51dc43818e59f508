#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

struct Opaque(String);

#[workflow]
async fn review(diff: String) -> Result<String> {
    let answer = gate!("merge?", diff, answer = Opaque).await?;
    Ok(answer.0)
}

fn main() {}
