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
async fn review(url: String) -> Result<u32> {
    gate!("open {url}?").await?;
    Ok(plain(1).await)
}

fn main() {}
