use agentflow::prelude::*;

/// Pay.
#[tool(compensate = pay_back)]
fn pay(cents: u32) -> u32 {
    cents
}

/// Pay back.
#[tool]
fn pay_back(cents: u32, output: u32) -> u32 {
    cents + output
}

fn main() {}
