#![allow(dead_code, unused_parens)]

use agentflow::prelude::*;

async fn pack(n: u32) -> agentflow::Result<u32> {
    Ok(n)
}

#[workflow]
async fn late(n: u32) -> agentflow::Result<u32> {
    let packed = timeout!("1s", pack as (n)).await?;
    Ok(packed)
}

fn main() {}
