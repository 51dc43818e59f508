#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

async fn double(n: u32) -> Result<u32> {
    Ok(n * 2)
}

#[workflow]
async fn doubles(n: u32) -> Result<u32> {
    #[node(timout = "7d")]
    let twice = double(n).await?;
    Ok(twice)
}

fn main() {
    println!("{}", doubles::workflow().graph().to_mermaid());
}
