#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

async fn number() -> Result<u32> {
    Ok(1)
}

#[workflow]
async fn review() -> Result<u32> {
    let v0 = number().await?;
    let v1 = number().await?;
    let v2 = number().await?;
    let v3 = number().await?;
    let v4 = number().await?;
    let v5 = number().await?;
    let v6 = number().await?;
    let v7 = number().await?;
    let v8 = number().await?;
    let v9 = number().await?;
    let v10 = number().await?;
    let v11 = number().await?;
    let v12 = number().await?;
    let v13 = number().await?;
    let v14 = number().await?;
    let v15 = number().await?;
    let v16 = number().await?;
    Ok(v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8 + v9 + v10 + v11 + v12 + v13 + v14 + v15 + v16)
}

fn main() {}
