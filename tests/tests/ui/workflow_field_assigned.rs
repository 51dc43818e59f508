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

#[derive(Clone)]
#[derive(agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Row {
    name: String,
    n: usize,
}

#[workflow]
async fn measured(row: Row) -> Result<Row> {
    row.n = count(&row.name).await?;
    Ok(row)
}

fn main() {}
