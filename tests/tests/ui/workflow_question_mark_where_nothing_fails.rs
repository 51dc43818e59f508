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

fn double(n: u32) -> u32 {
    n * 2
}

#[workflow]
async fn value(n: u32) -> Result<u32> {
    let twice = double(n)?;
    Ok(plain(twice).await)
}

#[workflow]
async fn step(n: u32) -> Result<u32> {
    let same = plain(n).await?;
    Ok(plain(same).await)
}

fn main() {}
