#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

async fn pack(n: u32) -> Result<u32> {
    Ok(n)
}

#[workflow]
async fn order(stock: Option<u32>, more: u32) -> Result<u32> {
    let left = match (stock, more) {
        (Some(mut left), more) => {
            let one = pack({
                left -= 1;
                left
            })
            .await?;
            let two = pack(more).await?;
            pack(left + one + two).await?
        }
        _ => 0,
    };
    Ok(left)
}

fn main() {}
