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
async fn review(cx: Context, url: String) -> Result<String> {
    let page = fetch(url).await?;
    Ok(page)
}

fn main() {}
