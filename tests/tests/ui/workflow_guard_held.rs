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
async fn locked(cx: &Context) -> Result<u32> {
    let n = cx.inject::<std::sync::Mutex<u32>>()?.lock().unwrap();
    let a = plain(*n).await;
    Ok(a)
}

fn main() {}
