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
async fn review(url: String) -> Result<String> {
    let page;
    if url.len() > 3 {
        page = fetch(url).await?;
    } else {
        page = String::new();
    }
    Ok(page)
}

fn main() {}
