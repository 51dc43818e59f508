#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

#[workflow(nam = "x", concurrency = 0, stop = best_efort)]
async fn review(diff: String) -> Result<String> {
    Ok(diff)
}

fn main() {}
