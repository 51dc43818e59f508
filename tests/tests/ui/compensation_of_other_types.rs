use agentflow::prelude::*;

/// Pay.
#[tool(compensate = pay_back)]
async fn pay(cents: u32) -> Result<String> {
    Ok(cents.to_string())
}

/// Pay back.
#[tool]
async fn pay_back(cents: u32, output: u64) -> u64 {
    u64::from(cents) + output
}

fn main() {}
