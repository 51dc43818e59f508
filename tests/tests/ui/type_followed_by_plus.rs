#![allow(dead_code)]

use agentflow::prelude::*;

#[workflow]
async fn total(n: u32) -> Result<u32, String> + {
    Ok(n)
}

/// Adds one.
#[tool]
fn add(n: u32 + Send) -> u32 {
    n + 1
}

/// Judges {text}.
#[agent]
async fn judge(text: String) -> agentflow::Result<String> + Send;

#[workflow]
async fn all(n: u32) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let sum = total(n).await?;
    Ok(judge(format!("{}", add(sum))).await?)
}

fn main() {}
