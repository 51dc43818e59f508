#![allow(dead_code)]

use agentflow::prelude::*;

/// Pays.
#[tool(approve, approve_timeout = "2d", on_timeout = denny)]
async fn pay() {}

/// Sends.
#[tool(approve_timeout = "2 moons")]
async fn send() {}

/// Sends.
#[tool(approve_timeout = "2d")]
async fn silent() {}

/// Deletes.
#[tool(approve, on_timeout = deny)]
async fn delete() {}

/// Writes.
#[tool(approve, approve_timeout = "2d", on_timeout = answer(5))]
async fn write() {}

async fn merge() -> Result<u32> {
    Ok(1)
}

#[workflow]
async fn asks() -> Result<u32> {
    #[node(timeout = "7d", on_timeout = "deny")]
    let first = gate!("go?").await?;
    #[node(on_timeout = skip)]
    let second = gate!("go?").await?;
    #[node(timeout = "7d", approve_timeout = "7d")]
    let third = gate!("go?").await?;
    #[node(approve, on_timeout = approve)]
    let fourth = merge().await?;
    #[node(approve, approve_timeout = "7d", on_timeout = answer(1))]
    let fifth = merge().await?;
    #[node(timeout = "7d", on_timeout = aprove)]
    let sixth = gate!("go?").await?;
    let all = [first, second, third, sixth].iter().filter(|answer| answer.is_granted()).count();
    Ok(fourth + fifth + all as u32)
}

#[workflow(approve_timeout = "7d")]
async fn unasked() -> Result<u32> {
    let done = merge().await?;
    Ok(done)
}

#[workflow(on_timeout = deny)]
async fn endless() -> Result<u32> {
    let done = merge().await?;
    Ok(done)
}

fn main() {}
