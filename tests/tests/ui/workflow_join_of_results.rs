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

struct Broken;

async fn load(url: String) -> std::result::Result<String, Broken> {
    Ok(url)
}

#[workflow]
async fn both(a: String, b: String) -> Result<usize> {
    let (a, b) = tokio::join!(load(a), load(b));
    Ok(a.is_ok() as usize + b.is_ok() as usize)
}

fn main() {}
