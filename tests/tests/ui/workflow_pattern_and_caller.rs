#![allow(dead_code, unused)]

use agentflow::Result;
use agentflow::prelude::*;

async fn count(text: &str) -> Result<usize> {
    Ok(text.len())
}

async fn fetch(url: String) -> Result<String> {
    Ok(url)
}

async fn plain(n: u32) -> u32 {
    n
}

#[workflow]
async fn sum((a, b): (u32, u32), n: u32) -> Result<u32> {
    let all = plain(a + b + n).await;
    Ok(all)
}

async fn start(runtime: Runtime) -> Result<u32> {
    runtime.start(sum::workflow(), ((1, 2), 3)).await?.result().await
}

fn main() {}
