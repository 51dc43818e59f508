#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

struct Opaque(String);

#[workflow]
async fn review() -> Result<Opaque> {
    let text = String::new();
    Ok(Opaque(text))
}

fn main() {}
