use agentflow::prelude::*;

/// Pay.
#[tool(compensate = pay_back)]
async fn pay(cents: u32) -> u32 {
    cents
}

fn pay_back(_cents: u32, _output: u32) {}

fn main() {}
