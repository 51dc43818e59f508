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
async fn review(url: String) -> Result<usize> {
    let shared = std::rc::Rc::new(url);
    let n = count(&shared).await?;
    Ok(n)
}

fn main() {}
