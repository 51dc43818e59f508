use agentflow::prelude::*;

/// Pay.
#[tool(compensate = pay_back)]
async fn pay(cents: u32) -> u32 {
    cents
}

/// Pay back.
#[tool]
fn pay_back(cents: u32) -> u32 {
    cents
}

fn main() {}
