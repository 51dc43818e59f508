#![allow(dead_code)]
#![deny(deprecated)]

use agentflow::prelude::*;
use agentflow::{Result, tools};

#[deprecated = "use `weigh`"]
async fn pack(n: u32) -> Result<u32> {
    Ok(n)
}

/// Sends it.
#[deprecated]
#[tool]
async fn send(n: u32) -> Result<u32> {
    Ok(n)
}

#[deprecated]
#[workflow]
async fn old(n: u32) -> Result<u32> {
    Ok(n)
}

#[workflow]
async fn order(n: u32, list: Vec<u32>) -> Result<u32> {
    let packed = pack(n).await?;
    let all = map!(list, |one| pack(one)).await?;
    if all.is_empty() {
        return old(packed).await;
    }
    send(packed).await
}

/// Judges {text}.
#[deprecated]
#[agent(tools = [send])]
async fn judge(text: String) -> Result<String>;

fn main() {
    let _ = judge::definition();
    let _ = tools![send];
    let _ = old::workflow();
}
