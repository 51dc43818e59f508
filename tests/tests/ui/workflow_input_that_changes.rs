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
async fn sorted(mut urls: Vec<String>) -> Result<usize> {
    urls.sort();
    let page = fetch(urls[0].clone()).await?;
    Ok(page.len())
}

async fn start(runtime: Runtime) -> Result<usize> {
    runtime.start(sorted::workflow(), vec!["a".to_owned()]).await?.result().await
}

fn main() {}
