#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

async fn plain() -> Result<Approval> {
    gate!("merge?", 1).await
}

fn main() {}
