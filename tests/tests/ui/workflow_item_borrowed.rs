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

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
#[derive(agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Row {
    name: String,
    n: usize,
}

#[workflow]
async fn longest(rows: Vec<Row>) -> Result<String, Failed> {
    let best = rows.iter().max_by_key(|row| row.name.len()).ok_or("no rows")?;
    count(&best.name).await?;
    Ok(best.name.clone())
}

#[workflow]
async fn found(names: Vec<String>, key: String) -> Result<usize, Failed> {
    let hit = names.iter().find(|name| **name == key).ok_or("not found")?;
    Ok(count(hit).await?)
}

fn main() {}
