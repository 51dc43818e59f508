#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

struct Opaque(String);

#[workflow]
async fn review(opaque: Opaque) -> Result<String> {
    Ok(opaque.0)
}

fn main() {}
