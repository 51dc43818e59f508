#![allow(dead_code)]

use agentflow::prelude::*;

async fn plain() -> Result<Approval> {
    agentflow::gate!("merge?", 1).await
}

fn main() {}
