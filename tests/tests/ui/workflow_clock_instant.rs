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
async fn timed(url: String) -> Result<u64> {
    let begin = std::time::Instant::now();
    let page = fetch(url).await?;
    Ok(begin.elapsed().as_secs())
}

fn main() {}
