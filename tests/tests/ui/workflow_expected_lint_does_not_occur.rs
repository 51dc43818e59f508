#![allow(dead_code)]
#![deny(unfulfilled_lint_expectations)]

use agentflow::prelude::*;
use agentflow::Result;

async fn pack(n: u32) -> Result<u32> {
    Ok(n)
}

#[expect(unused_parens, unused_variables)]
#[workflow]
async fn order(#[expect(unused_variables)] nobody: u32, n: u32) -> Result<u32> {
    let unread = pack((n + 1)).await?;
    #[expect(unused_parens, reason = "to be read")]
    let packed = pack((n)).await?;
    Ok(packed)
}

#[workflow]
#[expect(unused_parens, reason = "there are none")]
async fn empty(n: u32) -> Result<u32> {
    let packed = pack(n).await?;
    Ok(packed)
}

fn main() {}
