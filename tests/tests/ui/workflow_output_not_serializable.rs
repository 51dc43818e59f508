#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

struct Opaque(String);

async fn open() -> Result<Opaque> {
    Ok(Opaque(String::new()))
}

#[workflow]
async fn review() -> Result<String> {
    let opaque = open().await?;
    Ok(opaque.0)
}

fn main() {}
