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
async fn statement(url: String) -> Result<u32> {
    tokio::spawn(async move { fetch(url).await });
    Ok(plain(1).await)
}

#[workflow]
async fn dropped(url: String) -> Result<u32> {
    let _ = std::thread::spawn(move || println!("{url}"));
    Ok(plain(1).await)
}

fn main() {}
