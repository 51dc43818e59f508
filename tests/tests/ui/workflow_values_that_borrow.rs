#![allow(dead_code)]

use agentflow::Result;
use agentflow::prelude::*;

async fn count(text: &str) -> Result<usize> {
    Ok(text.len())
}

#[workflow]
async fn second(line: String) -> Result<usize> {
    let word = line.split(',').nth(1).unwrap_or("");
    let n = count(word).await?;
    Ok(n)
}

#[workflow]
async fn pair(line: String) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let (tag, text) = line.split(',').find_map(|part| part.split_once(':')).ok_or("no pair")?;
    let n = count(text).await?;
    Ok(n + tag.len())
}

#[workflow]
async fn each(lines: Vec<String>) -> Result<()> {
    for line in lines {
        let word = line.split(',').nth(1);
        count(word.unwrap_or("")).await?;
    }
    Ok(())
}

async fn kind(_: u32) -> Result<&'static str> {
    Ok("tea")
}

#[workflow]
async fn of_a_step(n: u32) -> Result<usize> {
    let kind = kind(n).await?;
    Ok(kind.len())
}

fn main() {}
