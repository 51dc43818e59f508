#![allow(dead_code)]

use agentflow::Result;
use agentflow::prelude::*;

async fn step(text: &str) -> Result<String> {
    Ok(text.to_owned())
}

#[workflow]
async fn first(text: &str) -> Result<String> {
    step(text).await
}

#[workflow]
async fn list(texts: &[String]) -> Result<String> {
    step(&texts[0]).await
}

#[workflow]
async fn second(cx: &Context, text: &str) -> Result<String> {
    step(text).await
}

fn main() {}
